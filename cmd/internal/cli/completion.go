package cli

import (
	_ "embed" // the scripts are files, so that editors and linters know them
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// completeWord is the hidden first word by which the shells' scripts ask what
// may come next. All knowledge is here, so the three scripts stay short.
const completeWord = "__complete"

// filesDirective is a line of the answer: offer files, too.
const filesDirective = ":files"

//go:embed completion.bash
var bashCompletion string

//go:embed completion.zsh
var zshCompletion string

//go:embed completion.fish
var fishCompletion string

// newCompletionCommand is "tapyr completion SHELL".
func newCompletionCommand() *Command {
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	shells := []string{"bash", "zsh", "fish"}
	return &Command{
		Name:        "completion",
		Usage:       "write the script that completes tapyr's words in a shell",
		ArgsUsage:   "bash|zsh|fish",
		ArgsMin:     1,
		ArgsMax:     1,
		ArgsChoices: shells,
		Description: "Load it where the shell starts:\n\n" +
			"    bash   source <(tapyr completion bash)\n" +
			"    zsh    source <(tapyr completion zsh)      # after compinit\n" +
			"    fish   tapyr completion fish | source\n\n" +
			"The script asks tapyr itself, so it need not be written again after an update.",
		Examples: []Example{
			{Comment: "load it into this bash", Line: `bash -c "source <(tapyr completion bash)"`},
			{Comment: "keep it in a file", Line: "tapyr completion bash -o tapyr.bash"},
		},
		Flags: []cli.Flag{outputFlag()},
		Run: func(call *Call) error {
			shell := call.Args().First()
			script, ok := scripts[shell]
			if !ok {
				return usageErrorf(call.command, nearest(shell, shells), "no completion for %q, only for %s", shell, join(shells, "and"))
			}
			return writeString(call.Out, script)
		},
	}
}

// complete answers a script: words are those behind "tapyr" up to the cursor,
// the last being the one to complete, perhaps empty. Each line of the answer is
// a word, a tab, and what it means. It never fails: a shell has no use for
// errors while one types.
func complete(env *Env, root *Command, words []string) int {
	if len(words) == 0 {
		words = []string{""}
	}
	answer := completions(root, words[:len(words)-1], words[len(words)-1])
	var text strings.Builder
	for _, candidate := range answer.candidates {
		fmt.Fprintf(&text, "%s\t%s\n", candidate.word, candidate.meaning)
	}
	if answer.files {
		text.WriteString(filesDirective + "\n")
	}
	if err := writeString(env.Stdout, text.String()); err != nil {
		return ExitCannotAnswer
	}
	return ExitOK
}

// candidate is one word that may come next.
type candidate struct{ word, meaning string }

// completionAnswer is what may come next.
type completionAnswer struct {
	candidates []candidate
	files      bool
}

// offer adds a word if it continues what was typed.
func (a *completionAnswer) offer(typed, word, meaning string) {
	if strings.HasPrefix(word, typed) {
		a.candidates = append(a.candidates, candidate{word, meaning})
	}
}

// completions finds what may stand in the place of current, behind the words
// before it.
func completions(root *Command, before []string, current string) completionAnswer {
	path := []*Command{root}
	args, ended := 0, false
	var pending cli.Flag // a flag whose value is due
	for _, word := range before {
		command := path[len(path)-1]
		switch {
		case pending != nil:
			pending = nil
		case !ended && word == "--":
			ended = true
		case !ended && len(word) > 1 && strings.HasPrefix(word, "-"):
			name, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
			flag := lookUpward(path, name)
			if flag == nil {
				flag = lookDownward(command, name)
			}
			if flag != nil && takesValue(flag) && !hasValue {
				pending = flag
			}
		case len(command.Subcommands) == 0:
			args++
		default:
			next := command.find(word)
			if next == nil {
				return completionAnswer{} // a word that we do not know leads nowhere
			}
			path = append(path, next)
		}
	}
	var answer completionAnswer
	switch {
	case pending != nil:
		answer.offerValues(pending, "", current)
	case !ended && strings.HasPrefix(current, "-"):
		answer.offerFlags(path, current)
	default:
		answer.offerOperands(path[len(path)-1], args, current)
	}
	return answer
}

// offerOperands offers what stands where no flag does: the n-th argument of c,
// counted from 0, or one of its commands.
func (a *completionAnswer) offerOperands(c *Command, n int, current string) {
	for _, sub := range c.visible() {
		a.offer(current, sub.Name, sub.Usage)
	}
	if len(c.Subcommands) > 0 || (c.ArgsMax >= 0 && n >= c.ArgsMax) {
		return
	}
	if n == 0 {
		for _, word := range c.ArgsChoices {
			a.offer(current, word, "")
		}
	}
	a.files = namesFile(c.ArgsUsage)
}

// offerFlags offers the flags of a path, or the values of one that is written
// with "=".
func (a *completionAnswer) offerFlags(path []*Command, current string) {
	if name, value, found := strings.Cut(current, "="); found {
		if flag := lookUpward(path, strings.TrimLeft(name, "-")); flag != nil && takesValue(flag) {
			a.offerValues(flag, name+"=", value)
		}
		return
	}
	for i := len(path) - 1; i >= 0; i-- {
		for _, flag := range path[i].Flags {
			documented, ok := flag.(cli.DocGenerationFlag)
			if shown, visible := flag.(cli.VisibleFlag); !ok || (visible && !shown.IsVisible()) {
				continue
			}
			_, usage := splitPlaceholder(documented)
			a.offer(current, dashed(flag.Names()[0]), usage)
		}
	}
}

// offerValues offers the values of a flag, each behind prefix.
func (a *completionAnswer) offerValues(flag cli.Flag, prefix, current string) {
	for _, value := range choicesOf(flag) {
		a.offer(prefix+current, prefix+value, "")
	}
	placeholder, _ := splitPlaceholder(flag.(cli.DocGenerationFlag))
	a.files = namesFile(placeholder)
}

// namesFile tells whether a placeholder, as "[PATH...]", stands for a file.
func namesFile(placeholder string) bool {
	return strings.Contains(placeholder, "PATH") || strings.Contains(placeholder, "FILE") || strings.Contains(placeholder, "DIR")
}

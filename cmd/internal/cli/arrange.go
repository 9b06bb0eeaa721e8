package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

// line is a command line in order: the commands that it names, the flags of
// each, and the arguments of the last.
//
// The parser stops looking for flags at the first argument and takes those
// behind it as arguments, silently. People write "tapyr plan FILE --format
// json" all the same, so the words are put in order before it sees them.
type line struct {
	// path is the root, then the commands named, each a subcommand of the last.
	path []*Command
	// flags[i] are the flags of path[i], in the parser's form: "--name=value".
	flags [][]string
	// given[i] are the canonical names of the flags in flags[i].
	given [][]string
	args  []string
	// help and version were asked for and outrank everything else.
	help, version bool
}

// command is the command that the line calls.
func (l *line) command() *Command { return l.path[len(l.path)-1] }

// words returns the line as the parser wants it: every flag directly behind
// its command, and the arguments behind "--".
func (l *line) words() []string {
	var words []string
	for i, c := range l.path {
		words = append(words, c.Name)
		words = append(words, l.flags[i]...)
	}
	return append(append(words, "--"), l.args...)
}

// flagWord is a flag as it stands on the command line.
type flagWord struct {
	name     string
	value    string
	hasValue bool // set by "=", or by the word behind
}

// dashed is a flag's name with its dashes: "-o", "--format".
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// arrange puts words in order. Flags may stand anywhere, also before the
// command that defines them; "--" ends flags; "-" alone is an argument. The
// error is a *UsageError.
func arrange(root *Command, words []string) (*line, error) {
	l := &line{path: []*Command{root}}
	var flags []flagWord
	ended := false
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case !ended && word == "--":
			ended = true
		case ended || word == "-" || !strings.HasPrefix(word, "-"):
			if err := l.takeOperand(word); err != nil {
				return nil, err
			}
		default:
			flag, used, err := l.takeFlag(words[i:])
			if err != nil {
				return nil, err
			}
			flags = append(flags, flag)
			i += used - 1
		}
	}
	// Only now is the command known, and with it whose flags these are.
	l.flags = make([][]string, len(l.path))
	l.given = make([][]string, len(l.path))
	for _, flag := range flags {
		if err := l.place(flag); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// takeOperand takes a word that is no flag: a command where one is due, else
// an argument.
func (l *line) takeOperand(word string) error {
	c := l.command()
	if len(c.Subcommands) == 0 {
		l.args = append(l.args, word)
		return nil
	}
	sub := c.find(word)
	if sub == nil {
		return usageErrorf(c, nearest(word, c.visibleNames()), "unknown command %q", word)
	}
	l.path = append(l.path, sub)
	return nil
}

// takeFlag reads the flag at the head of words, and its value where that is the
// next word. It returns how many words it used.
func (l *line) takeFlag(words []string) (flagWord, int, error) {
	var flag flagWord
	flag.name = strings.TrimPrefix(strings.TrimPrefix(words[0], "-"), "-")
	flag.name, flag.value, flag.hasValue = strings.Cut(flag.name, "=")

	// The command may stand further on, so look also below the last one named.
	// A name means one thing in the whole tree (a test sees to it), hence it
	// does not matter whose flag is found.
	definition := lookUpward(l.path, flag.name)
	if definition == nil {
		definition = lookDownward(l.command(), flag.name)
	}
	if definition == nil {
		known := flagNames(l.path)
		l.command().walk(func(c *Command) { known = append(known, flagNames([]*Command{c})...) })
		if _, err := strconv.ParseFloat(words[0], 64); err == nil { // somebody meant a number
			return flag, 0, usageErrorf(l.command(), "", "%q looks like a flag; if it is meant as an argument, put -- before it", words[0])
		}
		return flag, 0, usageErrorf(l.command(), nearest(dashed(flag.name), known), "unknown flag %q", dashed(flag.name))
	}
	if flag.hasValue || !takesValue(definition) {
		return flag, 1, nil
	}
	if len(words) == 1 {
		return flag, 0, usageErrorf(l.command(), "", "flag %q needs a value", dashed(flag.name))
	}
	// "-o --format json" is a forgotten value rather than a file of that name.
	if next, isFlag := strings.CutPrefix(words[1], "--"); isFlag {
		next, _, _ = strings.Cut(next, "=")
		if next == "" || lookUpward(l.path, next) != nil || lookDownward(l.command(), next) != nil {
			return flag, 0, usageErrorf(l.command(), "", "flag %q needs a value, not %q (write %s=%s if you mean it)",
				dashed(flag.name), words[1], dashed(flag.name), words[1])
		}
	}
	flag.value, flag.hasValue = words[1], true
	return flag, 2, nil
}

// place files a flag with the command that defines it, the innermost first.
func (l *line) place(flag flagWord) error {
	for i := len(l.path) - 1; i >= 0; i-- {
		definition := lookUpward(l.path[i:i+1], flag.name)
		if definition == nil {
			continue
		}
		canonical := definition.Names()[0]
		switch {
		case i == 0 && canonical == helpFlagName:
			l.help = true
			return nil
		case i == 0 && canonical == versionFlagName:
			l.version = true
			return nil
		}
		word := "--" + canonical
		if flag.hasValue {
			word += "=" + flag.value
		}
		l.flags[i] = append(l.flags[i], word)
		l.given[i] = append(l.given[i], canonical)
		return nil
	}
	return usageErrorf(l.command(), nearest(dashed(flag.name), flagNames(l.path)),
		"%q has no flag %q", l.command().fullName(), dashed(flag.name))
}

// check finds what is missing or too much in an arranged line.
func (l *line) check() error {
	c := l.command()
	if len(c.Subcommands) > 0 {
		return usageErrorf(c, "", "%q needs one of its commands: %s", c.fullName(), join(c.visibleNames(), "and"))
	}
	switch {
	case len(l.args) < c.ArgsMin:
		return usageErrorf(c, "", "%q needs %s", c.fullName(), c.ArgsUsage)
	case c.ArgsMax == 0 && len(l.args) > 0:
		return usageErrorf(c, "", "%q takes no arguments, got %q", c.fullName(), l.args[0])
	case c.ArgsMax > 0 && len(l.args) > c.ArgsMax:
		return usageErrorf(c, "", "%q takes only %s, got also %q", c.fullName(), c.ArgsUsage, l.args[c.ArgsMax])
	}
	for i, command := range l.path {
		for _, flag := range command.Flags {
			required, ok := flag.(cli.RequiredFlag)
			if ok && required.IsRequired() && !slices.Contains(l.given[i], flag.Names()[0]) {
				return usageErrorf(c, "", "%q needs the flag %q", c.fullName(), dashed(flag.Names()[0]))
			}
			if times := count(l.given[i], flag.Names()[0]); times > 1 && !mayRepeat(flag) {
				return usageErrorf(c, "", "the flag %q is given %d times and takes one value", dashed(flag.Names()[0]), times)
			}
		}
	}
	return nil
}

// mayRepeat tells whether a flag may be given more than once: where its values add up, and where the last one counts because people
// put their own choice of it into an alias (formats, log levels, switches).
func mayRepeat(flag cli.Flag) bool {
	switch f := flag.(type) {
	case *cli.StringSliceFlag, *cli.BoolFlag:
		return true
	case *cli.GenericFlag:
		switch f.Value.(type) {
		case *selectors, *choice:
			return true
		}
	}
	return false
}

func count(list []string, word string) (times int) {
	for _, w := range list {
		if w == word {
			times++
		}
	}
	return times
}

// lookUpward finds a flag by name in the commands of a path, the innermost
// first.
func lookUpward(path []*Command, name string) cli.Flag {
	for i := len(path) - 1; i >= 0; i-- {
		for _, flag := range path[i].Flags {
			if slices.Contains(flag.Names(), name) {
				return flag
			}
		}
	}
	return nil
}

// lookDownward finds a flag by name in any command below c.
func lookDownward(c *Command, name string) cli.Flag {
	for _, sub := range c.Subcommands {
		if flag := lookUpward([]*Command{sub}, name); flag != nil {
			return flag
		}
		if flag := lookDownward(sub, name); flag != nil {
			return flag
		}
	}
	return nil
}

// flagNames lists the visible flags of a path with their dashes, short forms
// left out.
func flagNames(path []*Command) []string {
	var list []string
	for _, c := range path {
		for _, flag := range c.Flags {
			if shown, ok := flag.(cli.VisibleFlag); ok && !shown.IsVisible() {
				continue
			}
			list = append(list, dashed(flag.Names()[0]))
		}
	}
	return list
}

// takesValue tells whether a flag is followed by a value.
func takesValue(flag cli.Flag) bool {
	documented, ok := flag.(cli.DocGenerationFlag)
	return ok && documented.TakesValue()
}

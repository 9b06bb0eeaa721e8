package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/urfave/cli/v2"
)

// newHelpCommand is "tapyr help COMMAND", the same as "tapyr COMMAND --help".
func newHelpCommand() *Command {
	return &Command{
		Name:        "help",
		Usage:       "show what a command does, its flags and two examples",
		ArgsUsage:   "[COMMAND...]",
		ArgsMax:     -1,
		Description: "Without a command it lists the commands. It prints the same as --help behind the command.",
		Examples: []Example{
			{Comment: "list the commands", Line: "tapyr help"},
			{Comment: "help of one command", Line: "tapyr help version"},
		},
		Run: func(call *Call) error {
			path, err := call.namedCommand()
			if err != nil {
				return err
			}
			return writeHelp(call.Out, path)
		},
	}
}

// namedCommand returns the path to the command that the arguments name, the
// root alone where there are none.
func (c *Call) namedCommand() ([]*Command, error) {
	path := []*Command{c.root}
	for _, word := range c.Args().Slice() {
		current := path[len(path)-1]
		next := current.find(word)
		if next == nil {
			return nil, usageErrorf(current, nearest(word, current.visibleNames()), "%q has no command %q", current.fullName(), word)
		}
		path = append(path, next)
	}
	return path, nil
}

// maxHelpColumns keeps lines of prose readable on a wide terminal.
const maxHelpColumns = 100

// writeHelp writes the help of the last command of path.
func writeHelp(out *Output, path []*Command) error {
	c := path[len(path)-1]
	columns := min(out.Columns(), maxHelpColumns)
	h := &helpWriter{out: out, columns: columns}

	h.prose(fmt.Sprintf("%s - %s", c.fullName(), c.Usage))
	h.section("Usage")
	h.out.Printf("  %s\n", synopsis(c))
	if c.Description != "" {
		h.out.Printf("\n")
		h.prose(c.Description)
	}
	if shown := c.visible(); len(shown) > 0 {
		h.section("Commands")
		var rows [][2]string
		for _, sub := range shown {
			rows = append(rows, [2]string{sub.Name, sub.Usage})
		}
		h.rows(rows)
	}
	if c.parent != nil && len(c.Flags) > 0 {
		h.section("Flags")
		h.rows(flagRows(c.Flags))
	}
	h.section("Examples")
	for _, example := range c.Examples {
		h.out.Printf("  # %s\n", example.Comment)
		lead := "  $ "
		for _, line := range breakCommand(example.Line, h.columns-len(lead)) {
			h.out.Printf("%s%s\n", lead, line)
			lead = "      "
		}
	}
	if c.parent == nil {
		h.section("Global flags")
		h.rows(flagRows(c.Flags))
		return nil
	}
	// On every page the long form would push the examples off the screen.
	h.out.Printf("\n")
	h.prose("Global flags: " + join(flagNames(path[:1]), "and") + `; see "tapyr --help".`)
	return nil
}

// synopsis is the usage line of c.
func synopsis(c *Command) string {
	text := c.fullName()
	if len(c.Flags) > 0 {
		text += " [flags]"
	}
	switch {
	case c.ArgsUsage != "":
		text += " " + c.ArgsUsage
	case len(c.Subcommands) > 0:
		text += " COMMAND"
	}
	return text
}

// flagRows returns, for each visible flag, how it is written and what it does.
func flagRows(flags []cli.Flag) [][2]string {
	var rows [][2]string
	for _, flag := range flags {
		if shown, ok := flag.(cli.VisibleFlag); ok && !shown.IsVisible() {
			continue
		}
		documented, ok := flag.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		placeholder, usage := splitPlaceholder(documented)
		// The short form stands first and long forms line up below each other.
		written := "    "
		for _, name := range flag.Names()[1:] {
			if len(name) == 1 {
				written = dashed(name) + ", "
			}
		}
		name := flag.Names()[0]
		if len(name) == 1 {
			written = dashed(name)
		} else {
			written += dashed(name)
		}
		if placeholder != "" {
			written += " " + placeholder
		}
		rows = append(rows, [2]string{written, usage + flagNotes(flag)})
	}
	return rows
}

// flagNotes are the values that a flag takes and its default, in parentheses.
func flagNotes(flag cli.Flag) string {
	var notes []string
	if allowed := choicesOf(flag); len(allowed) > 0 {
		notes = append(notes, join(allowed, "or"))
	}
	documented := flag.(cli.DocGenerationFlag)
	if required, ok := flag.(cli.RequiredFlag); ok && required.IsRequired() {
		notes = append(notes, "required")
	} else if takesValue(flag) {
		text := strings.Trim(documented.GetDefaultText(), `"`)
		if text == "" {
			text = strings.Trim(documented.GetValue(), `"`)
		}
		if text != "" && text != "0" && text != "0s" && text != "[]" {
			notes = append(notes, "default: "+text)
		}
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

// choicesOf returns the closed list of a choiceFlag, or nil.
func choicesOf(flag cli.Flag) []string {
	if generic, ok := flag.(*cli.GenericFlag); ok {
		if c, ok := generic.Value.(*choice); ok {
			return c.allowed
		}
	}
	return nil
}

// splitPlaceholder takes the name of the value out of the usage, where it
// stands between backquotes.
func splitPlaceholder(flag cli.DocGenerationFlag) (placeholder, usage string) {
	usage = flag.GetUsage()
	before, rest, found := strings.Cut(usage, "`")
	if inner, after, closed := strings.Cut(rest, "`"); found && closed {
		return inner, before + inner + after
	}
	if flag.TakesValue() {
		return "VALUE", usage
	}
	return "", usage
}

// helpWriter lays help out in columns.
type helpWriter struct {
	out     *Output
	columns int
}

func (h *helpWriter) section(title string) {
	h.out.Printf("\n%s:\n", title)
}

// prose writes paragraphs; lines that begin with four spaces stay as they are.
func (h *helpWriter) prose(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "    ") {
			h.out.Printf("%s\n", line)
			continue
		}
		for _, wrapped := range wrapText(line, h.columns) {
			h.out.Printf("%s\n", wrapped)
		}
	}
}

// rows writes two columns, the second wrapped. A first part that is too long
// for its column gets a line of its own.
func (h *helpWriter) rows(rows [][2]string) {
	const indent, gap, maxFirst = 2, 2, 26
	first := 0
	for _, row := range rows {
		if width := twwidth.Width(row[0]); width <= maxFirst {
			first = max(first, width)
		}
	}
	margin := strings.Repeat(" ", indent+first+gap)
	for _, row := range rows {
		lines := wrapText(row[1], h.columns-len(margin))
		lead := fmt.Sprintf("%*s%-*s", indent, "", first+gap, row[0])
		if twwidth.Width(row[0]) > first {
			h.out.Printf("%*s%s\n", indent, "", row[0])
			lead = margin
		}
		for _, line := range lines {
			h.out.Printf("%s%s\n", lead, line)
			lead = margin
		}
	}
}

// wrapText breaks text between words into lines of at most columns. A word
// longer than a line stays whole: it may be a path or a command to copy.
func wrapText(text string, columns int) []string {
	var lines []string
	var line strings.Builder
	width := 0
	for _, word := range strings.Fields(text) {
		wordWidth := twwidth.Width(word)
		if width > 0 && width+1+wordWidth > columns {
			lines = append(lines, line.String())
			line.Reset()
			width = 0
		}
		if width > 0 {
			line.WriteByte(' ')
			width++
		}
		line.WriteString(word)
		width += wordWidth
	}
	return notCommands(append(lines, line.String()))
}

// notCommands marks lines that a log of GitHub Actions would take for a workflow command, whatever blanks stand before them: a text
// that was broken into lines may have one at any break.
func notCommands(lines []string) []string {
	for i, line := range lines {
		if rest, found := strings.CutPrefix(line, "::"); found && strings.Contains(rest, "::") {
			lines[i] = ellipsis + line
		}
	}
	return lines
}

// breakCommand breaks a command for a shell into lines of at most columns, each
// but the last ending in "\", so that it can be copied as it stands. It breaks
// between words only, never within quotes.
func breakCommand(command string, columns int) []string {
	words := shellWords(command)

	// Lines behind the first are indented by two more columns, and all but the
	// last need two for " \".
	var lines []string
	line := words[0]
	for i, word := range words[1:] {
		room := columns
		if i < len(words)-2 {
			room -= 2
		}
		if len(lines) > 0 {
			room -= 2
		}
		if twwidth.Width(line)+1+twwidth.Width(word) > room {
			lines = append(lines, line+` \`)
			line = word
			continue
		}
		line += " " + word
	}
	return append(lines, line)
}

// shellWords splits a command at the blanks outside of quotes. A flag and the
// word behind it, which is its value if it has one, stay together.
func shellWords(command string) []string {
	var words []string
	var quote rune
	start := 0
	for i, r := range command + " " {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case r == ' ':
			word := command[start:i]
			start = i + 1
			last := len(words) - 1
			if last >= 0 && strings.HasPrefix(words[last], "-") && !strings.ContainsAny(words[last], " =") && !strings.HasPrefix(word, "-") {
				words[last] += " " + word
				continue
			}
			words = append(words, word)
		}
	}
	return words
}

// writeString exists so that generated pages go out with their error.
func writeString(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

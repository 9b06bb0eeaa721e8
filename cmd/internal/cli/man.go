package cli

import (
	"fmt"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/urfave/cli/v2"
)

// newManCommand is "tapyr man [COMMAND...]".
func newManCommand() *Command {
	return &Command{
		Name:      "man",
		Usage:     "write the manual page of tapyr or of one command, for man",
		ArgsUsage: "[COMMAND...]",
		ArgsMax:   -1,
		Description: "The page is made from the same definitions as --help and names everything that tapyr reads and " +
			"returns. Where man finds it, it shows with \"man tapyr\" or \"man tapyr-version\".",
		Examples: []Example{
			{Comment: "keep the page of tapyr in a file", Line: "tapyr man -o tapyr.1"},
			{Comment: "the page of one command", Line: "tapyr man version -o tapyr-version.1"},
		},
		Flags: []cli.Flag{outputFlag()},
		Run: func(call *Call) error {
			path, err := call.namedCommand()
			if err != nil {
				return err
			}
			page := manualPage(call.root, path[len(path)-1])
			return writeString(call.Out, string(md2man.Render([]byte(page))))
		},
	}
}

// manualPage writes the page of c in the Markdown that md2man turns into roff.
func manualPage(root, c *Command) string {
	var page strings.Builder
	name := strings.ReplaceAll(c.fullName(), " ", "-")
	fmt.Fprintf(&page, "%% %s 1\n\n# NAME\n\n%s - %s\n\n", strings.ToUpper(name), name, c.Usage)
	fmt.Fprintf(&page, "# SYNOPSIS\n\n**%s**%s\n\n", c.fullName(), escapeMarkdown(strings.TrimPrefix(synopsis(c), c.fullName())))
	if c.Description != "" {
		fmt.Fprintf(&page, "# DESCRIPTION\n\n%s\n\n", c.Description)
	}
	if len(c.visible()) > 0 {
		page.WriteString("# COMMANDS\n\n")
		for _, sub := range c.visible() {
			fmt.Fprintf(&page, "**%s**\n: %s. See **%s-%s**(1).\n\n", sub.Name, sub.Usage, name, sub.Name)
		}
	}
	if c != root && len(c.Flags) > 0 {
		page.WriteString("# OPTIONS\n\n")
		writeManualFlags(&page, c.Flags)
	}
	page.WriteString("# GLOBAL OPTIONS\n\nFlags may stand before or after arguments and commands; **--** ends them.\n\n")
	writeManualFlags(&page, root.Flags)
	page.WriteString("# EXAMPLES\n\n")
	for _, example := range c.Examples {
		// man indents by 7 columns, and pages are 78 wide.
		fmt.Fprintf(&page, "%s:\n\n    %s\n\n", example.Comment, strings.Join(breakCommand(example.Line, 68), "\n      "))
	}
	page.WriteString(manualTail)
	if c != root {
		fmt.Fprintf(&page, "# SEE ALSO\n\n**%s**(1)\n", strings.ReplaceAll(c.parent.fullName(), " ", "-"))
	}
	return page.String()
}

// writeManualFlags writes each flag as a term and its definition.
func writeManualFlags(page *strings.Builder, flags []cli.Flag) {
	for _, row := range flagRows(flags) {
		written, placeholder, _ := strings.Cut(strings.TrimSpace(row[0]), " ")
		if strings.HasSuffix(written, ",") {
			long, rest, _ := strings.Cut(placeholder, " ")
			written, placeholder = written+" "+long, rest
		}
		fmt.Fprintf(page, "**%s**", written)
		if placeholder != "" {
			fmt.Fprintf(page, " *%s*", placeholder)
		}
		fmt.Fprintf(page, "\n: %s.\n\n", escapeMarkdown(row[1]))
	}
}

// escapeMarkdown keeps brackets and bars of a synopsis from being markup.
func escapeMarkdown(text string) string {
	return strings.NewReplacer(`[`, `\[`, `]`, `\]`, `*`, `\*`, `_`, `\_`, `<`, `\<`).Replace(text)
}

// manualTail is the same on every page.
const manualTail = `# ENVIRONMENT

**TAPYR_CONFIG**
: files and folders to read documents from, separated like **PATH**, where neither arguments nor **--config** name any.

**NO_COLOR**
: any value but the empty one switches colours off.

# FILES

*./tapyr.yaml*, *./tapyr/*
: where documents are looked for in the end.

# EXIT STATUS

**0**
: done, nothing to complain of.

**1**
: the answer is bad news: invalid documents, an infeasible plan, a broken audit, a failed conformance, an exhausted budget.

**2**
: could not answer: wrong usage, an unreadable file, no such name, a result that could not be written.

**130**
: interrupted.

`

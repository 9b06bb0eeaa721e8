package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/urfave/cli/v2"
)

func TestEveryCommandIsDescribed(t *testing.T) {
	newRootCommand().walk(func(c *Command) {
		name := c.fullName()
		if c.Usage == "" || strings.HasSuffix(c.Usage, ".") || strings.ToLower(c.Usage[:1]) != c.Usage[:1] {
			t.Errorf("%s: usage %q should be one line in lower case without a full stop", name, c.Usage)
		}
		if len(c.Examples) < 2 {
			t.Errorf("%s: %d examples, want at least 2", name, len(c.Examples))
		}
		for _, example := range c.Examples {
			if example.Comment == "" || !strings.Contains(example.Line, "tapyr") {
				t.Errorf("%s: example %+v says nothing about tapyr", name, example)
			}
		}
		if (c.Run == nil) != (len(c.Subcommands) > 0) {
			t.Errorf("%s: a command runs or holds commands, not both, not neither", name)
		}
		for _, flag := range c.Flags {
			if usage := flag.(cli.DocGenerationFlag).GetUsage(); usage == "" || strings.HasSuffix(usage, ".") {
				t.Errorf("%s: flag %s: usage %q", name, flag.Names()[0], usage)
			}
		}
	})
}

// Flags may stand before their command, so whether one takes a value must not
// depend on which command will follow. The same name also has to be one thing
// to the person who types it.
func TestFlagNamesMeanOneThing(t *testing.T) {
	type meaning struct {
		takesValue bool
		names      string
		command    string
	}
	known := map[string]meaning{}
	newRootCommand().walk(func(c *Command) {
		for _, flag := range c.Flags {
			for _, name := range flag.Names() {
				now := meaning{takesValue(flag), strings.Join(flag.Names(), " "), c.fullName()}
				before, seen := known[name]
				if seen && (before.takesValue != now.takesValue || before.names != now.names) {
					t.Errorf("flag %q is %q of %q and %q of %q", name, before.names, before.command, now.names, now.command)
				}
				known[name] = now
			}
		}
	})
	for _, name := range []string{"config", "help", "output", "format"} {
		if _, ok := known[name]; !ok {
			t.Errorf("no flag %q in the tree: the walk sees nothing", name)
		}
	}
}

func TestHelpFits80Columns(t *testing.T) {
	newRootCommand().walk(func(c *Command) {
		w := newWorld()
		words := append(strings.Fields(c.fullName())[1:], "--help")
		if status := runTree(t.Context(), &w.Env, newRootCommand(), words); status != ExitOK {
			t.Fatalf("%v: status %d, %s", words, status, w.stderr.String())
		}
		for line := range strings.Lines(w.stdout.String()) {
			line = strings.TrimRight(line, "\n")
			if width := twwidth.Width(line); width > defaultColumns {
				t.Errorf("%s: %d columns: %s", c.fullName(), width, line)
			}
		}
		// A long example is broken into lines that a shell joins again.
		unbroken := strings.ReplaceAll(w.stdout.String(), " \\\n      ", " ")
		for _, example := range c.Examples {
			if !strings.Contains(unbroken, "$ "+example.Line+"\n") {
				t.Errorf("%s: help does not show %q", c.fullName(), example.Line)
			}
		}
	})
}

func TestBreakCommand(t *testing.T) {
	for _, test := range []struct {
		command string
		columns int
		want    string
	}{
		{"tapyr plan a", 12, "tapyr plan a"},
		{"tapyr plan ab", 12, `tapyr plan \|ab`},
		{"tapyr plan a b c", 12, `tapyr plan \|a b c`},
		{"tapyr plan aa bb cc", 12, `tapyr plan \|aa bb cc`},
		{"tapyr plan aaa bbb cc d", 12, `tapyr plan \|aaa bbb \|cc d`},
		{`sh -c 'tapyr plan a' b`, 8, `sh \|-c 'tapyr plan a' \|b`},
		{`tapyr`, 2, `tapyr`},
		{"tapyr a --limit b c", 16, `tapyr a \|--limit b c`},
		{"tapyr --a --limit=b c", 18, `tapyr --a \|--limit=b c`},
	} {
		if got := strings.Join(breakCommand(test.command, test.columns), "|"); got != test.want {
			t.Errorf("%q in %d: %q, want %q", test.command, test.columns, got, test.want)
		}
	}
}

func TestHelpShowsAllThatAFlagTells(t *testing.T) {
	w := newWorld()
	if status := runProbe(w, nil, "group", "probe", "--help"); status != ExitOK {
		t.Fatal(w.stderr.String())
	}
	for _, want := range []string{
		"  tapyr group probe [flags] [PATH...]\n",
		"      --format FORMAT   write the result as FORMAT (table, json or csv; default:\n",
		"  -o, --output FILE ",
		"  -n N ",
		"      --strict ",
		"(default: 1)",
		"(default: now)",
		`see "tapyr --help".`,
	} {
		if !strings.Contains(w.stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, w.stdout.String())
		}
	}
	if strings.Contains(w.stdout.String(), "secret") {
		t.Error("help shows a hidden flag")
	}

	w = newWorld()
	runProbe(w, nil, "needy", "--help")
	if want := "--provider NAME  look at NAME (required)"; !strings.Contains(w.stdout.String(), want) {
		t.Errorf("no %q in\n%s", want, w.stdout.String())
	}
}

func TestHelpCommandSaysTheSameAsTheFlag(t *testing.T) {
	byFlag, byCommand := newWorld(), newWorld()
	if status := Run(t.Context(), &byFlag.Env, []string{"version", "--help"}); status != ExitOK {
		t.Fatal(byFlag.stderr.String())
	}
	if status := Run(t.Context(), &byCommand.Env, []string{"help", "version"}); status != ExitOK {
		t.Fatal(byCommand.stderr.String())
	}
	if byFlag.stdout.String() != byCommand.stdout.String() {
		t.Errorf("--help says\n%s\nhelp says\n%s", byFlag.stdout.String(), byCommand.stdout.String())
	}
	bare := newWorld()
	if status := Run(t.Context(), &bare.Env, nil); status != ExitOK || !strings.Contains(bare.stdout.String(), "Commands:") {
		t.Errorf("tapyr alone: status %d, %q", status, bare.stdout.String())
	}
}

func TestExamplesListsEveryCommand(t *testing.T) {
	all := Examples()
	newRootCommand().walk(func(c *Command) {
		if !slices.Equal(all[c.fullName()], c.Examples) {
			t.Errorf("%s: %v", c.fullName(), all[c.fullName()])
		}
	})
	if len(all) < 5 {
		t.Errorf("only %d commands", len(all))
	}
}

func TestJoin(t *testing.T) {
	for _, test := range []struct {
		list []string
		want string
	}{
		{nil, ""},
		{[]string{"a"}, "a"},
		{[]string{"a", "b"}, "a or b"},
		{[]string{"a", "b", "c"}, "a, b or c"},
	} {
		if got := join(test.list, "or"); got != test.want {
			t.Errorf("%q: %q, want %q", test.list, got, test.want)
		}
	}
}

func TestNearest(t *testing.T) {
	candidates := []string{"validate", "plan", "replay", "--format", "--quiet"}
	for word, want := range map[string]string{
		"plam": "plan", "validte": "validate", "--fromat": "--format", "reply": "replay",
		"zebra": "", "": "", "--zone": "",
	} {
		if got := nearest(word, candidates); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

package tapyr_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fenced puts lines into a block. Fences are built, so that this file has none.
func fenced(info string, lines ...string) string {
	return "```" + info + "\n" + strings.Join(lines, "\n") + "\n```\n"
}

func TestParseDoc(t *testing.T) {
	text := "# Title\n\n" +
		fenced("console", "$ tapyr version", "tapyr v1", "", "$ tapyr plan \\", ">   a.yaml", "$ true") +
		"- item\n\n  " + strings.ReplaceAll(fenced("sh exit=1", "$ false", "bad"), "\n", "\n  ") + "\n" +
		fenced("yaml", "kind: Job", "price: $ 3") + fenced("", "no commands")
	blocks, mistakes := parseDoc(text)
	want := []docBlock{
		{line: 3, commands: []docCommand{
			{line: 4, text: "tapyr version", output: []string{"tapyr v1", ""}},
			{line: 7, text: "tapyr plan \\\n  a.yaml"},
			{line: 9, text: "true"},
		}},
		{line: 13, lastStatus: 1, commands: []docCommand{{line: 14, text: "false", output: []string{"bad"}}}},
	}
	if diff := cmp.Diff(want, blocks, cmp.AllowUnexported(docBlock{}, docCommand{})); diff != "" {
		t.Error(diff)
	}
	if len(mistakes) > 0 {
		t.Errorf("mistakes %q", mistakes)
	}
}

// A command that no test runs will be wrong some day and nobody will notice.
func TestCommandsThatWouldNotRunAreMistakes(t *testing.T) {
	for name, text := range map[string]string{
		"in prose":           "Run\n\n    $ tapyr version\n",
		"in another block":   fenced("text", "$ tapyr version"),
		"in a nameless one":  fenced("", "$ tapyr version"),
		"without a prompt":   fenced("sh", "tapyr version"),
		"in an open block":   "```console\n$ tapyr version\n",
		"with unknown words": fenced("console skip", "$ tapyr version"),
	} {
		if _, mistakes := parseDoc(text); len(mistakes) != 1 {
			t.Errorf("%s: %q, want one mistake", name, mistakes)
		}
	}
	if _, mistakes := parseDoc("It costs $ 3.\n" + fenced("go", "x := 1")); len(mistakes) > 0 {
		t.Errorf("%q", mistakes)
	}
}

func TestRunDoc(t *testing.T) {
	bin, err := buildTapyr()
	if err != nil {
		t.Fatal(err)
	}
	environ := docEnviron(t, bin)
	tests := []struct {
		name, text string
		want       string // in the only mistake, "" for none
	}{
		{"output as shown", fenced("console", "$ printf 'a\\nb \\n'", "a", "b"), ""},
		{"output not shown", fenced("console", "$ echo a"), ""},
		{"other output", fenced("console", "$ echo a", "b"), `the document shows "b" in line 1`},
		{"more output", fenced("console", "$ printf 'a\\nb\\n'", "a"), "it prints more lines"},
		{"less output", fenced("console", "$ echo a", "a", "b"), `the document shows "b" in line 2`},
		{"left out", fenced("console", "$ seq 9", "1", "...", "5", "...", "9"), ""},
		{"left out, nothing there", fenced("console", "$ seq 2", "1", "...", "2"), ""},
		{"left out, wrong end", fenced("console", "$ seq 9", "1", "...", "8"), `the document shows "..." in line 2`},
		{"standard error", fenced("console exit=2", "$ tapyr xyzzy", `tapyr: unknown command "xyzzy"; see "tapyr --help"`), ""},
		{"failure", fenced("console", "$ tapyr xyzzy"), "exits with 2, not 0"},
		{"failure before the last", fenced("console", "$ tapyr xyzzy", "$ true"), "exits with 2, not 0"},
		{"no failure", fenced("console exit=1", "$ true"), "exits with 0, not 1"},
		{"end of the shell", fenced("console", "$ exit 0"), "did not end"},
		{"one session", fenced("console", "$ mkdir -p sub && cd sub", "$ basename $PWD", "sub"), ""},
		{"another session", fenced("console", "$ mkdir -p sub2 && touch sub2/x && cd sub2") + fenced("console", "$ ls sub2", "x"), ""},
		{"go run", fenced("console", "$ go run ./cmd/tapyr --version", "tapyr ...", "..."), `the document shows "tapyr ..."`},
		{"go run is tapyr", fenced("console", "$ go run ./cmd/tapyr xyzzy 2>&1 | head -c 5", "tapyr"), ""},
		{"make", fenced("console", "$ make test", "$ make"), ""},
		{"make of nothing", fenced("console", "$ make tea"), `the Makefile has no target "tea"`},
		{"more than make", fenced("console", "$ make test && echo a", "a"), "exits with 2"},
		{"install", fenced("console", "$ go install github.com/tapyr/tapyr/cmd/tapyr@latest"), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			mistakes := runDoc(t.Context(), test.text, t.TempDir(), environ)
			switch {
			case test.want == "" && len(mistakes) > 0:
				t.Errorf("mistakes %q", mistakes)
			case test.want != "" && (len(mistakes) != 1 || !strings.Contains(mistakes[0], test.want)):
				t.Errorf("mistakes %q, want only %q", mistakes, test.want)
			}
		})
	}
}

func TestIsDocument(t *testing.T) {
	for name, want := range map[string]bool{
		"README.md": true, "ARCHITECTURE.md": true, "docs/rules/a.md": true, "examples/meraki/README.md": true,
		"docs/a.svg": false, "examples/meraki/notes.md": false, "plan/README.md": false, "testdata/README.md": false,
	} {
		if got := isDocument(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestCopyFilesCopiesFromTheRoot(t *testing.T) {
	dir := copyFiles(t, []string{"LICENSE", ".ci/run"})
	info, err := os.Stat(dir + "/.ci/run")
	if err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("%v, %v", info, err)
	}
	commitAll(t, dir)
	status := exec.Command("git", "status", "--porcelain")
	status.Dir = dir
	if output, err := status.CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("git status: %v, %s", err, output)
	}
	got, err := os.ReadFile(dir + "/LICENSE")
	if err != nil || !strings.Contains(string(got), "Apache License") {
		t.Errorf("%v, %.50q", err, got)
	}
}

func TestMissingProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if got := missingProgram("Run\n" + fenced("console", "$ promtool check rules x")); got != "promtool is not installed (Debian's package prometheus has it)" {
		t.Errorf("%q", got)
	}
	if got := missingProgram("promtool is a program"); got != "" {
		t.Errorf("%q", got)
	}
}

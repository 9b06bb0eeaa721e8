package tapyr_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every command that a document shows is run here, and what the document shows
// below it is compared with what it prints.
//
// A command is a line "$ COMMAND" in a block fenced with ```console or ```sh; a
// line that ends in "\" goes on in the next. The lines below it, if any, are its
// output, standard error included; a line "..." stands for any lines, also for
// none. A command must exit with 0, except the last of a block whose fence says
// otherwise, as in "```console exit=1". A block is one shell session in the root
// of a fresh copy of the repository, which all blocks of a document share.
//
// "go run ./cmd/tapyr" runs the tapyr that was built for this test, which is the
// same and faster. What cannot run within a test is in docRecognized. A command
// anywhere else in a document is a mistake: nobody would notice when it breaks.

// docRecognized are commands that are checked by other means. Each returns an
// error where the command could not work.
var docRecognized = []struct {
	pattern *regexp.Regexp
	check   func(match []string) error
}{
	// This test runs within some, others take hours. They exist, or not.
	{regexp.MustCompile(`^make(?: ([a-z-]+))?$`), func(match []string) error { return makeTarget(match[1]) }},
	// These need the network and a release.
	{regexp.MustCompile(`^git clone https://github\.com/tapyr/tapyr(?:\.git)?$`), func([]string) error { return nil }},
	{regexp.MustCompile(`^go install github\.com/tapyr/tapyr/cmd/tapyr@(?:latest|v\d\S*)$`), func([]string) error { return nil }},
	{regexp.MustCompile(`^cd tapyr$`), func([]string) error { return nil }}, // behind git clone
}

// docPrograms are programs that documents show and that not everybody has who
// builds tapyr, with the Debian packages that have them. .ci/run installs them;
// elsewhere documents with a program that is missing are not run.
var docPrograms = map[string]string{"promtool": "prometheus"}

// missingProgram is a message where a document shows a program that is not
// installed, "" where it does not.
func missingProgram(text string) string {
	for name, debianPackage := range docPrograms {
		if _, err := exec.LookPath(name); err != nil && strings.Contains(text, "$ "+name+" ") {
			return fmt.Sprintf("%s is not installed (Debian's package %s has it)", name, debianPackage)
		}
	}
	return ""
}

// makeTarget tells whether the Makefile has a target.
func makeTarget(name string) error {
	if name == "" {
		return nil
	}
	text, err := os.ReadFile("Makefile")
	if err != nil {
		return err
	}
	if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `:`).Match(text) {
		return fmt.Errorf("the Makefile has no target %q", name)
	}
	return nil
}

// docTimeout bounds the commands of one block.
const docTimeout = 3 * time.Minute

// docBlock is a fenced block with commands.
type docBlock struct {
	line     int // of the fence, from 1
	commands []docCommand
	// lastStatus is the exit status that the last command must have.
	lastStatus int
}

// docCommand is one command and what the document says that it prints.
type docCommand struct {
	line   int
	text   string
	output []string
}

// docFence matches the beginning of a fenced block: indentation, fence, info.
var docFence = regexp.MustCompile("^( *)(```+|~~~+) *([^`]*)$")

// parseDoc finds the blocks of a document, and the commands that would not run.
func parseDoc(text string) (blocks []docBlock, mistakes []string) {
	var block *docBlock // of the open fence, if it is one with commands
	fence, indent := "", 0
	for number, line := range strings.Split(text, "\n") {
		number++
		line = strings.TrimRight(line, " \t\r")
		match := docFence.FindStringSubmatch(line)
		switch {
		case fence == "" && match != nil:
			indent, fence = len(match[1]), match[2]
			var err error
			if block, err = openBlock(match[3], number); err != nil {
				mistakes = append(mistakes, fmt.Sprintf("%d: %v", number, err))
			}
		case fence != "" && match != nil && strings.HasPrefix(match[2], fence) && match[3] == "":
			if block != nil && len(block.commands) > 0 {
				blocks = append(blocks, *block)
			}
			fence, block = "", nil
		case block != nil:
			if err := block.take(strings.TrimPrefix(line, strings.Repeat(" ", indent)), number); err != nil {
				mistakes = append(mistakes, fmt.Sprintf("%d: %v", number, err))
			}
		case strings.HasPrefix(strings.TrimSpace(line), "$ "):
			mistakes = append(mistakes, fmt.Sprintf("%d: %q is not run: put it into a block fenced with ```console", number, strings.TrimSpace(line)))
		}
	}
	if fence != "" {
		mistakes = append(mistakes, "the last fence is not closed")
	}
	return blocks, mistakes
}

// openBlock begins a block if its fence announces commands, else returns nil.
func openBlock(info string, number int) (*docBlock, error) {
	language, rest, _ := strings.Cut(strings.TrimSpace(info), " ")
	switch language {
	case "console", "sh", "shell", "bash":
	default:
		return nil, nil
	}
	block := &docBlock{line: number}
	if rest = strings.TrimSpace(rest); rest != "" {
		status, found := strings.CutPrefix(rest, "exit=")
		var err error
		if block.lastStatus, err = strconv.Atoi(status); !found || err != nil {
			return block, fmt.Errorf("%q is not exit=N", rest)
		}
	}
	return block, nil
}

// take adds a line to a block: a command, the rest of one, or output.
func (b *docBlock) take(line string, number int) error {
	if command, found := strings.CutPrefix(line, "$ "); found {
		b.commands = append(b.commands, docCommand{line: number, text: command})
		return nil
	}
	if len(b.commands) == 0 {
		if line == "" || strings.HasPrefix(line, "#") {
			return nil
		}
		return fmt.Errorf("%q is not run: begin commands with \"$ \"", line)
	}
	last := &b.commands[len(b.commands)-1]
	if len(last.output) == 0 && strings.HasSuffix(last.text, `\`) {
		last.text += "\n" + strings.TrimPrefix(line, "> ")
		return nil
	}
	last.output = append(last.output, line)
	return nil
}

// docMark ends the output of each command in that of a block; no command prints
// it.
const docMark = "\x1e"

// docScript writes a block as one shell script. Recognized commands are checked
// and left out.
func docScript(block docBlock) (string, error) {
	var script strings.Builder
	script.WriteString("exec 2>&1\n")
	for _, command := range block.commands {
		text := strings.ReplaceAll(command.text, "go run ./cmd/tapyr", "tapyr")
		for _, recognized := range docRecognized {
			if match := recognized.pattern.FindStringSubmatch(text); match != nil {
				if err := recognized.check(match); err != nil {
					return "", fmt.Errorf("%d: %s: %w", command.line, text, err)
				}
				text = "true"
			}
		}
		fmt.Fprintf(&script, "%s\nprintf '%s%%d%s' $?\n", text, docMark, docMark)
	}
	return script.String(), nil
}

// runDoc runs all blocks of a document in a folder and returns what is not as
// the document says.
func runDoc(ctx context.Context, text, dir string, environ []string) []string {
	blocks, mistakes := parseDoc(text)
	for _, block := range blocks {
		script, err := docScript(block)
		if err != nil {
			mistakes = append(mistakes, err.Error())
			continue
		}
		mistakes = append(mistakes, runBlock(ctx, block, script, dir, environ)...)
	}
	return mistakes
}

// runBlock runs the script of a block and compares.
func runBlock(ctx context.Context, block docBlock, script, dir string, environ []string) []string {
	ctx, cancel := context.WithTimeout(ctx, docTimeout)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", script)
	shell.Dir, shell.Env = dir, environ
	shell.WaitDelay = time.Second // a server left in the background keeps the pipe
	output, err := shell.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return []string{fmt.Sprintf("%d: %v", block.line, err)}
	}
	var mistakes []string
	parts := strings.Split(string(output), docMark)
	for i, command := range block.commands {
		if 2*i+1 >= len(parts) {
			return append(mistakes, fmt.Sprintf("%d: %q did not end: %v\n%s", command.line, command.text, ctx.Err(), parts[len(parts)-1]))
		}
		got, status := parts[2*i], parts[2*i+1]
		want := 0
		if i == len(block.commands)-1 {
			want = block.lastStatus
		}
		if status != strconv.Itoa(want) {
			mistakes = append(mistakes, fmt.Sprintf("%d: %q exits with %s, not %d:\n%s", command.line, command.text, status, want, got))
			continue
		}
		if message := compareOutput(command.output, got); message != "" {
			mistakes = append(mistakes, fmt.Sprintf("%d: %q: %s\nit prints:\n%s", command.line, command.text, message, got))
		}
	}
	return mistakes
}

// compareOutput returns what is wrong, "" if got is what the document shows, or
// the document shows nothing.
func compareOutput(want []string, got string) string {
	for len(want) > 0 && want[len(want)-1] == "" {
		want = want[:len(want)-1] // the empty line above the next command
	}
	if len(want) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimRight(got, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	if matchLines(want, lines) {
		return ""
	}
	for i, line := range want {
		if line == "..." || i >= len(lines) || line != lines[i] {
			return fmt.Sprintf("the document shows %q in line %d of the output", line, i+1)
		}
	}
	return "it prints more lines than the document shows"
}

// matchLines tells whether got is want, with "..." for any lines.
func matchLines(want, got []string) bool {
	for i, line := range want {
		if line == "..." {
			for skip := 0; skip <= len(got)-i; skip++ {
				if matchLines(want[i+1:], got[i+skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(got) || got[i] != line {
			return false
		}
	}
	return len(want) == len(got)
}

// isDocument tells whether the commands in a file are run.
func isDocument(name string) bool {
	switch {
	case name == "README.md", name == "ARCHITECTURE.md", name == "CHANGELOG.md", name == "CONTRIBUTING.md":
		return true
	case strings.HasPrefix(name, "docs/"):
		return strings.HasSuffix(name, ".md")
	case strings.HasPrefix(name, "examples/"):
		return path.Base(name) == "README.md"
	}
	return false
}

// docBin is the folder that buildTapyr builds into.
var docBin string

// buildTapyr builds tapyr, once for all tests.
var buildTapyr = sync.OnceValues(func() (string, error) {
	output, err := exec.Command("go", "build", "-o", filepath.Join(docBin, "tapyr"), "./cmd/tapyr").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return docBin, nil
})

func TestMain(m *testing.M) {
	var err error
	if docBin, err = os.MkdirTemp("", "tapyr-doc-test-"); err != nil {
		panic(err)
	}
	status := m.Run()
	_ = os.RemoveAll(docBin)
	os.Exit(status)
}

// TestDocuments runs the commands of all documents.
func TestDocuments(t *testing.T) {
	files := trackedFiles(t)
	for _, name := range files {
		if !isDocument(name) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if missing := missingProgram(string(text)); missing != "" {
				if os.Getenv("CI") != "" {
					t.Fatal(missing)
				}
				t.Skip(missing)
			}
			var dir string
			var environ []string
			if bytes.Contains(text, []byte("$ ")) {
				bin, err := buildTapyr()
				if err != nil {
					t.Fatal(err)
				}
				dir, environ = copyFiles(t, files), docEnviron(t, bin)
				commitAll(t, dir)
			}
			for _, mistake := range runDoc(t.Context(), string(text), dir, environ) {
				t.Errorf("%s:%s", name, mistake)
			}
		})
	}
}

// docEnviron is the environment of the commands: this process's, with tapyr on
// PATH and without what would change the output.
func docEnviron(t *testing.T, bin string) []string {
	t.Helper()
	environ := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"PATH", "HOME", "TZ", "LANG", "LC_ALL", "NO_COLOR", "TAPYR_CONFIG"}, name)
	})
	return append(environ,
		"PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "HOME="+t.TempDir(), "TZ=UTC", "LC_ALL=C.UTF-8")
}

// copyFiles copies files of the repository to a new folder.
func copyFiles(t *testing.T, files []string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, data, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// commitAll makes a folder the clone that a reader of the documents has: one
// commit, and nothing changed since.
func commitAll(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"add", "--all", "--force"},
		{"-c", "user.name=tapyr", "-c", "user.email=tapyr@example.org", "-c", "commit.gpgSign=false", "commit", "--quiet", "--message=copy"},
	} {
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Dir = dir
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args[0], err, output)
		}
	}
}

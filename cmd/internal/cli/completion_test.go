package cli

import (
	"context"
	"strings"
	"testing"
)

// completeProbe returns the answer for the words behind "tapyr", each line cut
// to its word. The last word is the one to complete; "_" stands for an empty one.
func completeProbe(t *testing.T, line string) string {
	t.Helper()
	words := []string{completeWord}
	for _, word := range strings.Fields(line) {
		words = append(words, strings.ReplaceAll(word, "_", ""))
	}
	w := newWorld()
	if status := runTree(context.Background(), &w.Env, probeTree(nil), words); status != ExitOK || w.stderr.Len() > 0 {
		t.Fatalf("status %d, %s", status, w.stderr.String())
	}
	var got []string
	for line := range strings.Lines(w.stdout.String()) {
		word, _, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		got = append(got, word)
	}
	return strings.Join(got, " ")
}

func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"":                                 "group needy",
		"_":                                "group needy",
		"gr":                               "group",
		"gr _":                             "",
		"group _":                          "probe",
		"group probe _":                    ":files",
		"group probe a _":                  ":files",
		"group probe --str":                "--strict",
		"group probe --qu":                 "--quiet",
		"group probe --sec":                "",
		"--fo":                             "", // of a command that is not there yet
		"--log":                            "--log-level --log-format",
		"group probe --format _":           "table json csv",
		"group probe --format j":           "json",
		"group probe --format=":            "--format=table --format=json --format=csv",
		"group probe --format=c":           "--format=csv",
		"--format json group _":            "probe",
		"--log-level w":                    "warn",
		"-c _":                             ":files",
		"-c x gr":                          "group",
		"group probe -o _":                 ":files",
		"group probe --config=":            ":files",
		"group probe --at _":               "",
		"group probe --strict _":           ":files",
		"group probe -- --st":              ":files",
		"needy a b _":                      "",
		"--help group pro":                 "probe",
		"group probe --unknown --format c": "csv",
	} {
		if got := completeProbe(t, line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestCompletionOfArguments(t *testing.T) {
	w := newWorld()
	Run(t.Context(), &w.Env, []string{completeWord, "completion", ""})
	if got := w.stdout.String(); got != "bash\t\nzsh\t\nfish\t\n" {
		t.Errorf("%q", got)
	}
	w = newWorld()
	Run(t.Context(), &w.Env, []string{completeWord, "vers"})
	if got := w.stdout.String(); got != "version\tshow which tapyr this is, and what it was built with\n" {
		t.Errorf("%q", got)
	}
}

// Every flag and command that completion offers is one that the parser takes:
// nothing is offered that then fails.
func TestCompletionOffersOnlyWhatParses(t *testing.T) {
	offered := 0
	newRootCommand().walk(func(c *Command) {
		before := strings.Fields(c.fullName())[1:]
		for _, current := range []string{"", "--"} {
			for _, candidate := range completions(newRootCommand(), before, current).candidates {
				offered++
				words := append(append([]string{}, before...), candidate.word)
				if flag := lookUpward([]*Command{newRootCommand(), c}, strings.TrimLeft(candidate.word, "-")); flag != nil && takesValue(flag) {
					words = append(words, "x")
				}
				if _, err := arrange(newRootCommand(), words); err != nil {
					t.Errorf("%q is offered, but: %v", words, err)
				}
			}
		}
	})
	if offered < 20 {
		t.Errorf("only %d words offered: the test sees nothing", offered)
	}
}

func TestCompletionIntoAClosedPipe(t *testing.T) {
	w := newWorld()
	w.Stdout = failingWriter{context.Canceled}
	if status := Run(t.Context(), &w.Env, []string{completeWord, ""}); status != ExitCannotAnswer {
		t.Errorf("status %d", status)
	}
}

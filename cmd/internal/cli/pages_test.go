package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// run runs tapyr itself and returns its standard output.
func run(t *testing.T, words ...string) string {
	t.Helper()
	w := newWorld()
	if status := Run(t.Context(), &w.Env, words); status != ExitOK {
		t.Fatalf("%q: status %d, %s", words, status, w.stderr.String())
	}
	return w.stdout.String()
}

// The manual is made from the definitions: it names every command and flag.
func TestManualNamesEverything(t *testing.T) {
	roff := strings.NewReplacer(`\-`, "-", `\fB`, "", `\fP`, "", `\fI`, "")
	newRootCommand().walk(func(c *Command) {
		words := append([]string{"man"}, strings.Fields(c.fullName())[1:]...)
		page := run(t, words...)
		if !strings.Contains(page, ".TH \""+strings.ToUpper(strings.ReplaceAll(c.fullName(), " ", "-"))+"\"") &&
			!strings.Contains(page, ".TH "+strings.ToUpper(strings.ReplaceAll(c.fullName(), " ", "-"))+" 1") {
			t.Errorf("%q: no title in\n%.300s", words, page)
		}
		page = roff.Replace(page)
		wanted := []string{c.Usage, "EXIT STATUS", "TAPYR_CONFIG", "--config"}
		for _, sub := range c.visible() {
			wanted = append(wanted, sub.Usage)
		}
		for _, row := range flagRows(c.Flags) {
			wanted = append(wanted, strings.TrimSpace(row[0]))
		}
		for _, want := range wanted {
			if !strings.Contains(page, want) {
				t.Errorf("%q: no %q in\n%s", words, want, page)
			}
		}
	})
}

func TestManualOfNoCommand(t *testing.T) {
	w := newWorld()
	if status := Run(t.Context(), &w.Env, []string{"man", "versionn"}); status != ExitCannotAnswer {
		t.Errorf("status %d", status)
	}
	if want := "tapyr: \"tapyr\" has no command \"versionn\"; did you mean \"version\"? see \"tapyr --help\"\n"; w.stderr.String() != want {
		t.Errorf("%q, want %q", w.stderr.String(), want)
	}
}

func TestVersionJSON(t *testing.T) {
	var got versionInfo
	decoder := json.NewDecoder(bytes.NewReader([]byte(run(t, "version", "--format", "json"))))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got != readVersion() {
		t.Errorf("%+v, want %+v", got, readVersion())
	}
	if got.Version == "" || !strings.HasPrefix(got.Go, "go1.") || !strings.Contains(got.Platform, "/") {
		t.Errorf("%+v", got)
	}
}

func TestVersionText(t *testing.T) {
	defer func(old string) { version = old }(version)
	version = "v1.2.3"
	for _, words := range [][]string{{"version"}, {"--version"}, {"man", "--version"}} {
		if text := run(t, words...); !strings.HasPrefix(text, "tapyr v1.2.3\n") || !strings.Contains(text, "built with go1.") {
			t.Errorf("%q: %q", words, text)
		}
	}
	w := newWorld()
	err := w.withStdout(func(out *Output) error {
		return writeVersion(out, versionInfo{
			Version: "v1.2.3", Commit: "abc", CommitTime: "2026-11-30T00:00:00Z", Modified: true, Go: "go1.26.8", Platform: "linux/amd64",
		}, "table")
	})
	want := "tapyr v1.2.3\ncommit abc of 2026-11-30T00:00:00Z, with changes\nbuilt with go1.26.8 for linux/amd64\n"
	if err != nil || w.stdout.String() != want {
		t.Errorf("%v, %q, want %q", err, w.stdout.String(), want)
	}
}

func TestWrapTextKeepsWords(t *testing.T) {
	for _, test := range []struct {
		text    string
		columns int
		want    string
	}{
		{"", 10, ""},
		{"a b c", 3, "a b|c"},
		{"a  verylongword b", 5, "a|verylongword|b"},
		{"网络 网络", 5, "网络|网络"},
		{"网络 网络", 9, "网络 网络"},
	} {
		if got := strings.Join(wrapText(test.text, test.columns), "|"); got != test.want {
			t.Errorf("%q in %d: %q, want %q", test.text, test.columns, got, test.want)
		}
	}
}

package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNowObeysAt(t *testing.T) {
	for words, want := range map[string]time.Time{
		"":                                    testTime,
		"--at 2026-02-01T03:04:05Z":           time.Date(2026, 2, 1, 3, 4, 5, 0, time.UTC),
		"--at=2026-02-01T03:04:05.25+05:30":   time.Date(2026, 1, 31, 21, 34, 5, 250e6, time.UTC),
		"--at 2026-02-01T03:04:05-00:30 file": time.Date(2026, 2, 1, 3, 34, 5, 0, time.UTC),
	} {
		w := newWorld()
		var got time.Time
		status := runProbe(w, func(call *Call) error { got = call.Now(); return nil },
			append([]string{"group", "probe"}, strings.Fields(words)...)...)
		if status != ExitOK || !got.Equal(want) {
			t.Errorf("%q: %v, want %v (status %d, %s)", words, got, want, status, w.stderr.String())
		}
	}
}

func TestZoneObeysTZ(t *testing.T) {
	for words, want := range map[string]string{
		"":                    "UTC+1",
		"--tz Asia/Kathmandu": "Asia/Kathmandu",
		"--tz=UTC":            "UTC",
	} {
		w := newWorld()
		var got *time.Location
		status := runProbe(w, func(call *Call) error { got = call.Zone(); return nil },
			append([]string{"group", "probe"}, strings.Fields(words)...)...)
		if status != ExitOK || got.String() != want {
			t.Errorf("%q: %v, want %v (status %d)", words, got, want, status)
		}
	}
}

func TestOnlyIsRepeatable(t *testing.T) {
	w := newWorld()
	var got []Selector
	status := runProbe(w, func(call *Call) error { got = call.Only(); return nil },
		"--only", "job/devices", "group", "probe", "--only=provider/meraki", "x", "--only", "account/a/b")
	want := []Selector{{"job", "devices"}, {"provider", "meraki"}, {"account", "a/b"}}
	if diff := cmp.Diff(want, got); status != ExitOK || diff != "" {
		t.Errorf("status %d: %s", status, diff)
	}
	if text := want[0].String(); text != "job/devices" {
		t.Errorf("selector reads %q", text)
	}
}

func TestFlagValuesStayWhole(t *testing.T) {
	w := newWorld()
	var headers []string
	var format string
	status := runProbe(w, func(call *Call) error {
		headers, format = call.StringSlice("header"), call.Format()
		return nil
	}, "group", "probe", "--header", "A: 1, 2 ", "--header", " B", "--format", "csv")
	if diff := cmp.Diff([]string{"A: 1, 2 ", " B"}, headers); status != ExitOK || diff != "" || format != "csv" {
		t.Errorf("status %d, format %q: %s", status, format, diff)
	}
}

// Arguments win over --config, --config over the environment, that over the
// working folder.
func TestConfigPaths(t *testing.T) {
	list := "a" + string(filepath.ListSeparator) + "b"
	tests := []struct {
		name    string
		words   []string
		environ string
		create  []string // a name that ends in "/" is a folder
		want    []string
	}{
		{"arguments", []string{"x", "y", "-c", "z"}, list, []string{"tapyr.yaml"}, []string{"x", "y"}},
		{"standard input", []string{"-"}, list, nil, []string{"-"}},
		{"flag", []string{"-c", "z", "--config", "u,v"}, list, []string{"tapyr.yaml"}, []string{"z", "u,v"}},
		{"environment", nil, list, []string{"tapyr.yaml"}, []string{"a", "b"}},
		{"file", nil, "", []string{"tapyr.yaml", "tapyr/"}, []string{"tapyr.yaml"}},
		{"folder", nil, "", []string{"tapyr/"}, []string{"tapyr"}},
		{"a folder is no file", nil, "", []string{"tapyr.yaml/", "tapyr/"}, []string{"tapyr"}},
		{"a file is no folder", nil, "", []string{"tapyr"}, nil},
		{"nothing", nil, "", nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for _, name := range test.create {
				create(t, name)
			}
			w := newWorld()
			w.environ["TAPYR_CONFIG"] = test.environ
			var got []string
			status := runProbe(w, func(call *Call) (err error) {
				got, err = call.ConfigPaths()
				return err
			}, append([]string{"group", "probe"}, test.words...)...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if test.want == nil && (status != ExitCannotAnswer || !strings.Contains(w.stderr.String(), "no documents: ")) {
				t.Errorf("status %d, %q", status, w.stderr.String())
			}
		})
	}
}

// create makes an empty file, or a folder where the name ends in "/".
func create(t *testing.T, name string) {
	t.Helper()
	if folder, ok := strings.CutSuffix(name, "/"); ok {
		if err := os.Mkdir(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(name, nil, 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestNotesAndLogs(t *testing.T) {
	say := func(call *Call) error {
		call.Note("read %d files", 3)
		call.Log.Debug("fine")
		call.Log.Info("told", "job", "devices")
		call.Log.Error("bad")
		return nil
	}
	tests := []struct {
		words          string
		note           bool
		debug, info, e bool
	}{
		{"", true, false, true, true},
		{"--log-level debug", true, true, true, true},
		{"--log-level error", true, false, false, true},
		{"--quiet", false, false, false, true},
		{"--quiet --log-level debug", false, false, false, true},
	}
	for _, test := range tests {
		w := newWorld()
		words := append([]string{"group", "probe"}, strings.Fields(test.words)...)
		if status := runProbe(w, say, words...); status != ExitOK {
			t.Fatalf("%q: status %d", test.words, status)
		}
		text := w.stderr.String()
		for part, want := range map[string]bool{
			"read 3 files\n": test.note, "msg=fine": test.debug, "msg=told job=devices": test.info, "msg=bad": test.e,
		} {
			if strings.Contains(text, part) != want {
				t.Errorf("%q: %q in stderr should be %v:\n%s", test.words, part, want, text)
			}
		}
	}
}

func TestLogFormatJSON(t *testing.T) {
	w := newWorld()
	runProbe(w, func(call *Call) error {
		call.Log.Warn("stretched", "job", "devices")
		return nil
	}, "--log-format=json", "group", "probe")
	var record map[string]any
	if err := json.Unmarshal(w.stderr.Bytes(), &record); err != nil {
		t.Fatalf("%v in %q", err, w.stderr.String())
	}
	if record["level"] != "WARN" || record["msg"] != "stretched" || record["job"] != "devices" {
		t.Errorf("%v", record)
	}
}

func TestStdin(t *testing.T) {
	w := newWorld()
	w.Stdin = strings.NewReader("kind: Job\n")
	var got []byte
	status := runProbe(w, func(call *Call) (err error) {
		got, err = io.ReadAll(call.Stdin())
		return err
	}, "group", "probe", "-")
	if status != ExitOK || string(got) != "kind: Job\n" {
		t.Errorf("status %d, %q, %s", status, got, w.stderr.String())
	}
}

func TestInterruptEndsAReadThatWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	typed, terminal := io.Pipe() // nobody types
	defer terminal.Close()
	w := newWorld()
	w.Stdin = typed
	status := runTree(ctx, &w.Env, probeTree(func(call *Call) error {
		reader := call.Stdin()
		cancel()
		_, err := io.ReadAll(reader)
		return err
	}), []string{"group", "probe", "-"})
	if status != ExitInterrupted {
		t.Errorf("status %d, want %d: %s", status, ExitInterrupted, w.stderr.String())
	}
}

func TestUsagefNamesTheCommand(t *testing.T) {
	w := newWorld()
	status := runProbe(w, func(call *Call) error { return call.Usagef("no such job %q", "x") }, "group", "probe")
	if want := "tapyr: no such job \"x\"; see \"tapyr group probe --help\"\n"; status != ExitCannotAnswer || w.stderr.String() != want {
		t.Errorf("status %d, %q", status, w.stderr.String())
	}
}

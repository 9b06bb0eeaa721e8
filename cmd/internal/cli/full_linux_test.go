package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/ledger/disktest"
)

// A disk that is really full is told by everything that "tapyr run" serves: metrics, API and page. The probes still say that it does its
// work, which it does: whoever restarts it because of a full disk loses the counts that only its memory has.
func TestRunTellsOfAFullDisk(t *testing.T) {
	disk := disktest.Small(t)
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"count": 42}`) }))
	defer vendor.Close()
	address, documents := freeListen(t), filepath.Join(t.TempDir(), "tapyr.yaml")
	text := strings.TrimSuffix(fmt.Sprintf(statusPageDocuments, vendor.URL, filepath.Join(disk, "tapyr.db")+", flushInterval: 50ms", address), statusPagePolicy)
	if err := os.WriteFile(documents, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var output lockedBuffer
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	status := make(chan int)
	env := &Env{
		Stdin: strings.NewReader(""), Stdout: &output, Stderr: &output, Now: time.Now, Local: time.UTC,
		Getenv: func(name string) string {
			return map[string]string{"KEY": "key", "TOKEN": "token-0123456789-0123456789"}[name]
		},
	}
	go func() { status <- Run(ctx, env, []string{"run", "-c", documents}) }()
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("never: %s\n%s\n%s", what, output.String(), read(address, "/metrics"))
			}
		}
	}
	says := func(path string, words ...string) func() bool {
		return func() bool {
			served := read(address, path)
			for _, word := range words {
				if !strings.Contains(served, word) {
					return false
				}
			}
			return true
		}
	}
	well := says("/metrics", "\nvendor_things 42\n", "\ntapyr_state_ok 1\n")
	until("a first run and a state", well)
	if !says("/metrics", "\ntapyr_state_flush_errors_total 0\n")() {
		t.Error("writes failed before the disk was full")
	}
	free := disktest.Fill(t, disk)
	until("the metric of a state that cannot be written", says("/metrics", "\ntapyr_state_ok 0\n"))
	if says("/metrics", "\ntapyr_state_flush_errors_total 0\n")() {
		t.Error("no failed write was counted")
	}
	for path, want := range map[string][]string{
		"/":              {"The state cannot be written (full)"},
		"/api/v1/status": {`"fault": "full"`},
		"/healthz":       {`"status": "ok"`}, "/readyz": {`"status": "ready"`},
	} {
		until(fmt.Sprintf("%s says %q with a full disk", path, want), says(path, want...))
	}
	free()
	until("a state that is written again", well)
	until("a page that says no more of it", func() bool {
		served := read(address, "/")
		return served != "" && !strings.Contains(served, "cannot be written")
	})
	stop()
	if code := <-status; code != 0 {
		t.Errorf("tapyr run ends with %d\n%s", code, output.String())
	}
}

package daemon_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/disktest"
	"github.com/tapyr/tapyr/ledger/sqlite"
)

// A disk that is really full, with the state and an output on it: calls go on and are counted, what cannot be written is said loudly, an
// output's run fails and leaves whole lines only, and when there is space again, everything that was counted is written.
func TestADiskThatIsReallyFull(t *testing.T) {
	dir := disktest.Small(t)
	var answers atomic.Int64
	r := newRig(t, strings.ReplaceAll(strings.ReplaceAll(provider(`  circuitBreaker: { failures: 100000 }
  limits: [{ name: day, kind: quota, max: 1000000, window: { period: day } }]`)+
		one("x", "")+one("lines", `  outputs: [{ jsonl: { path: "@DISK/out.jsonl" } }]
`), "interval: 1h", "interval: 30ms")+
		"---\napiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\nspec: { state: { path: \"@DISK/tapyr.db\", flushInterval: 50ms } }\n",
		"@DISK", dir), func(w http.ResponseWriter, _ *http.Request) {
		reply(w, []map[string]any{{"n": answers.Add(1), "text": strings.Repeat("x", 3000)}})
	})
	stop := r.start(r.daemon)
	r.until("lines", func() bool { return r.daemon.Snapshot().Jobs[1].Lines > 2 })
	free := disktest.Fill(t, dir)
	r.until("the fault", func() bool { return !r.daemon.Snapshot().State.OK })
	r.until("a run without its output", func() bool { return r.daemon.Snapshot().Jobs[1].Error != "" })
	before := r.daemon.Snapshot()
	r.until("calls without a state", func() bool { return r.daemon.Snapshot().Jobs[0].Runs["ok"] > before.Jobs[0].Runs["ok"]+5 })
	s := r.daemon.Snapshot()
	if s.State.Fault != string(ledger.FaultFull) || s.State.Error == "" || s.State.Since == nil || s.State.Failures == 0 {
		t.Errorf("the state is shown as %+v", s.State)
	}
	if !strings.Contains(s.Jobs[1].Error, "no space left") {
		t.Errorf("the job's error is %q", s.Jobs[1].Error)
	}
	for _, want := range []string{"THE STATE CANNOT BE WRITTEN", "an output could not be written"} {
		if !strings.Contains(r.logs.String(), want) {
			t.Errorf("the log does not say %q", want)
		}
	}
	free()
	r.until("the state is written again", func() bool { return r.daemon.Snapshot().State.OK })
	r.until("lines again", func() bool {
		s := r.daemon.Snapshot()
		return s.Jobs[1].Error == "" && s.Jobs[1].Lines > before.Jobs[1].Lines
	})
	stop()
	s = r.daemon.Snapshot()
	if s.State.DroppedRows != 0 || s.State.PendingRows != 0 || !s.State.OK {
		t.Errorf("in the end: %+v", s.State)
	}
	checkLines(t, filepath.Join(dir, "out.jsonl"), s.Jobs[1].Lines)
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "tapyr.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rows := int64(0)
	for _, err := range store.Journal(t.Context(), ledger.Interval{}) {
		if err != nil {
			t.Fatal(err)
		}
		rows++
	}
	if rows != s.Totals.Granted {
		t.Errorf("%d requests were sent, %d are in the journal", s.Totals.Granted, rows)
	}
	for c, err := range store.Counters(t.Context(), ledger.Interval{}) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Used != s.Totals.Granted || c.Lease != 0 {
			t.Errorf("%d units are written, with a lease of %d; %d requests were sent", c.Used, c.Lease, s.Totals.Granted)
		}
	}
}

// checkLines asserts that a file has so many lines, all of them whole.
func checkLines(t *testing.T, name string, want int64) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := int64(0)
	for line := range strings.Lines(string(text)) {
		lines++
		if !strings.HasSuffix(line, "\n") || !json.Valid([]byte(line)) {
			t.Errorf("half a line: %.80q", line)
		}
	}
	if lines != want {
		t.Errorf("%d lines in the file, %d were said to be written", lines, want)
	}
}

package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/report"
	"github.com/tapyr/tapyr/spend/spendtest"
)

const reconciledPolicy = `apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: money }
spec:
  version: v1
  unit: EUR
  account: { limit: "10", bands: [0.5, 0.9] }
  routes: { hand: { cost: "2" } }
  capabilities: { manual: { limit: "10", routes: [hand], fallback: reject } }
  reconcile: { every: 50ms, folder: "@DIR/settled", apply: true, map: { event_id: id } }
`

// put writes a file of the folder, at once as a rename does.
func (c *counter) put(name, text string) {
	c.t.Helper()
	folder := filepath.Join(c.dir, "settled")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		c.t.Fatal(err)
	}
	part := filepath.Join(folder, "."+name)
	if err := os.WriteFile(part, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(part, filepath.Join(folder, name)); err != nil {
		c.t.Fatal(err)
	}
}

// reconciled waits until the standing is as wanted.
func (c *counter) reconciled(d *daemon.Daemon, what string, want func(*report.Reconciling) bool) *report.Reconciling {
	c.t.Helper()
	c.until(what, func() bool {
		r := d.Reconciling("money")
		return r != nil && want(r)
	})
	return d.Reconciling("money")
}

// A settled file is read once, whatever it is called and however often tapyr starts; what is left open is in the log with file and
// line; a file that cannot be read stays and is told of once; bands are told of once, whoever crossed them.
func TestSettledFilesAreComparedOnce(t *testing.T) {
	c := newCounter(t, "", reconciledPolicy, priced)
	c.admit("manual", "a", "b", "c") // by another process: 6 of 10
	c.put("october.csv", "id,amount,settled_at\na,1.50,2026-11-01T00:00:00Z\nnobody,1,2026-11-01T00:00:00Z\nb,two,2026-11-01T00:00:00Z\n")
	c.put("broken.csv", "event,price\na,1\n")
	c.put("latin.csv", "id,amount,settled_at\nc,2,2026-11-01T00:00:00Z\nd\xe9,2,2026-11-01T00:00:00Z\n")
	stop := c.start(c.daemon)
	c.reaches("a", book.Settled)
	r := c.reconciled(c.daemon, "three files", func(r *report.Reconciling) bool { return r.Files == 1 && r.BadFiles == 2 })
	if !r.Applies || r.LookedAt == nil || r.Last == nil || r.Last.Name != "october.csv" || r.Last.Settled != 1 || r.Last.BadRows != 1 || r.Last.UnmatchedRows != 1 || r.Problem == "" {
		t.Errorf("%+v, %+v", r, r.Last)
	}
	c.admit("manual", "d", "e") // 1.5 + 8 = 9.5 of 10
	c.until("the second band", func() bool { return strings.Contains(c.logs.String(), "band=0.9") })
	stop()

	// Another daemon, and the same content under another name: nothing is done again.
	c.put("copy of october.csv", "id,amount,settled_at\na,1.50,2026-11-01T00:00:00Z\nnobody,1,2026-11-01T00:00:00Z\nb,two,2026-11-01T00:00:00Z\n")
	again := c.make(daemon.Options{})
	stop = c.start(again)
	r = c.reconciled(again, "the bad files again", func(r *report.Reconciling) bool { return r.BadFiles == 2 })
	if r.Files != 1 || r.Last == nil || r.Last.Name != "october.csv" {
		t.Errorf("after a restart: %+v, %+v", r, r.Last)
	}
	c.put("november.csv", "id,amount,settled_at\nb,2.00,2026-12-01T00:00:00Z\n")
	c.reaches("b", book.Settled)
	c.reconciled(again, "another file", func(r *report.Reconciling) bool { return r.Files == 2 })
	stop()

	log := c.logs.String()
	for text, times := range map[string]int{
		"a settled file was compared with the book": 2,
		"line=4": 1, `amount \"two\" is not a number`: 1, "event=nobody": 1,
		`msg="a settled file cannot be read`: 4, "line 3: byte 0xe9 is not UTF-8": 2, `column \"id\" is missing; the file has event, price`: 2,
		`was reached" policy=money band=0.9`: 1, `had been reached before" policy=money band=0.9`: 1, "band=0.5": 2,
	} {
		if n := strings.Count(log, text); n != times {
			t.Errorf("%q stands %d times in the log, want %d:\n%s", text, n, times, log)
		}
	}
	spendtest.CheckBook(t, c.store, "money")
	if e := c.event("c"); e.State != book.Reserved {
		t.Errorf("an event of a file that could not be read: %+v", e)
	}
}

// Without apply, a file changes nothing; without a cadence nobody looks.
func TestSettledFilesChangeNothingWithoutApply(t *testing.T) {
	c := newCounter(t, "", strings.Replace(reconciledPolicy, "apply: true", "apply: false", 1), priced)
	c.admit("manual", "a")
	c.put("october.csv", "id,amount,settled_at\na,1.50,2026-11-01T00:00:00Z\n")
	stop := c.start(c.daemon)
	r := c.reconciled(c.daemon, "a file", func(r *report.Reconciling) bool { return r.Files == 1 })
	stop()
	if e := c.event("a"); e.State != book.Reserved || r.Applies || r.Last.Corrected != 1 || r.Last.Settled != 0 {
		t.Errorf("%+v, %+v", e, r.Last)
	}
}

// A folder that is not there is told of, and looked for again.
func TestSettledFolderMayComeLater(t *testing.T) {
	c := newCounter(t, "", reconciledPolicy, priced)
	c.admit("manual", "a")
	stop := c.start(c.daemon)
	c.reconciled(c.daemon, "no folder", func(r *report.Reconciling) bool { return strings.Contains(r.Problem, "no such file") })
	c.put("october.csv", "id,amount,settled_at\na,1.50,2026-11-01T00:00:00Z\n")
	c.reaches("a", book.Settled)
	c.reconciled(c.daemon, "no problem", func(r *report.Reconciling) bool {
		return r.Problem == "" && r.Files == 1 && time.Since(*r.LookedAt) < time.Minute
	})
	stop()
}

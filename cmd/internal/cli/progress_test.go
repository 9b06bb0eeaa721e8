package cli

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lockedBuffer is a terminal: the bar's goroutine and the test both use it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// showProgress does work of that length and returns what the terminal got until
// just before the end, and at the end.
func showProgress(t *testing.T, columns int, total int64, length time.Duration, words ...string) (before, after string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var terminal lockedBuffer
		w := newWorld()
		w.Stderr, w.StderrColumns = &terminal, columns
		runTree(t.Context(), &w.Env, probeTree(func(call *Call) error {
			p := call.startProgress("rows", total)
			p.Add(250)
			time.Sleep(length)
			before = terminal.String()
			p.finish()
			after = terminal.String()
			p.finish() // twice is harmless, so that it can be deferred too
			return nil
		}), append([]string{"group", "probe"}, words...))
	})
	return before, after
}

func TestProgressOfLongWork(t *testing.T) {
	before, after := showProgress(t, 80, 1000, 3*time.Second)
	if !strings.Contains(before, "rows") || !strings.Contains(before, "25 %") {
		t.Errorf("terminal got %q", before)
	}
	// The last thing is to clear the line.
	if !strings.HasSuffix(after, "\x1b[J") {
		t.Errorf("the bar stays: %q", after)
	}
}

func TestProgressThatReachesItsTotal(t *testing.T) {
	if _, after := showProgress(t, 80, 250, 3*time.Second); !strings.HasSuffix(after, "\x1b[J") {
		t.Errorf("the bar stays: %q", after)
	}
}

func TestProgressOfUnknownTotalCounts(t *testing.T) {
	if before, _ := showProgress(t, 80, 0, 3*time.Second); !strings.Contains(before, "250 rows") {
		t.Errorf("terminal got %q", before)
	}
}

func TestNoProgress(t *testing.T) {
	for name, show := range map[string]func() (string, string){
		"short work": func() (string, string) { return showProgress(t, 80, 1000, 900*time.Millisecond) },
		"pipe":       func() (string, string) { return showProgress(t, 0, 1000, 3*time.Second) },
		"--quiet":    func() (string, string) { return showProgress(t, 80, 1000, 3*time.Second, "--quiet") },
	} {
		if _, after := show(); after != "" {
			t.Errorf("%s: terminal got %q", name, after)
		}
	}
}

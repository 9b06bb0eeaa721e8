package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/ledger"
)

// The kill test runs this test binary as a writer, and kills it: nothing of the process survives to tidy up.

const (
	writerEnv = "TAPYR_TEST_WRITER"
	keys      = 3
	maxLease  = 20
)

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		if err := writeUntilKilled(path, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func key(i int) ledger.CounterKey {
	return ledger.CounterKey{Provider: "p", Limit: "daily", ScopeKey: fmt.Sprint(i), StartNanos: now.UnixNano()}
}

// writeUntilKilled counts requests as an engine does: a unit is spent, and told, only once the store covers it. What it tells:
//
//	s KEY USED     a count as it was restored
//	u KEY USED     a count, spent
//	f ROW          all rows up to this one are flushed
func writeUntilKilled(path string, out io.Writer) error {
	ctx := context.Background()
	store, err := Open(ctx, path, Options{Mode: Owner})
	if err != nil {
		return err
	}
	snap, err := store.Restore(ctx, now, time.Hour)
	if err != nil {
		return err
	}
	recorder := ledger.NewRecorder(ledger.RecorderOptions{MinLease: 2, MaxLease: maxLease})
	recorder.Restored(snap)
	var used [keys]int64
	for _, c := range snap.Counters {
		var i int
		fmt.Sscan(c.ScopeKey, &i)
		used[i] = c.Used
		fmt.Fprintln(out, "s", i, c.Used)
	}
	run := os.Getpid()
	for n := 0; ; n++ {
		i := n % keys
		used[i]++
		counter := ledger.Counter{CounterKey: key(i), EndNanos: now.Add(time.Hour).UnixNano(), Used: used[i], UpdatedNanos: now.UnixNano()}
		minute := ledger.Minute{CounterKey: key(i), Used: used[i]}
		covered := recorder.Counter(counter)
		if !recorder.Minute(minute) || !covered {
			if err := recorder.Flush(ctx, store, now, false); err != nil {
				return err
			}
			fmt.Fprintln(out, "f", n-1)
		}
		fmt.Fprintln(out, "u", i, used[i])
		recorder.Row(ledger.Row{
			ID: fmt.Sprintf("%d-%d", run, n), At: now, Request: ledger.RowRequest{Provider: "p", Account: fmt.Sprint(i)},
		})
	}
}

// told is what a writer said before it died.
type told struct {
	restored, spent [keys]int64
	flushed         int
	pid             int
}

// runAndKill runs a writer for a while.
func runAndKill(t *testing.T, path string, life time.Duration) told {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), writerEnv+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	result := told{flushed: -1, pid: cmd.Process.Pid}
	reader := bufio.NewReader(out)
	var timer *time.Timer
	for {
		line, err := reader.ReadString('\n')
		if err != nil { // what is half a line was not told
			break
		}
		if timer == nil { // it has begun: from here on at any instant
			timer = time.AfterFunc(life, func() { cmd.Process.Kill() })
		}
		var kind string
		var a, b int64
		fmt.Sscan(line, &kind, &a, &b)
		switch kind {
		case "s":
			result.restored[a] = b
		case "u":
			result.spent[a] = b
		case "f":
			result.flushed = int(a)
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the writer ended by itself: %v", err)
	}
	return result
}

// TestKill: a writer is killed at random instants. Afterwards the file opens and is sound; no count is lower than what was spent,
// or higher by more than the lease; every row that was flushed is there, once. TAPYR_SOAK=1 does it 200 times.
func TestKill(t *testing.T) {
	rounds := 10
	if os.Getenv("TAPYR_SOAK") != "" {
		rounds = 200
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 9))
	path := filepath.Join(t.TempDir(), "state.db")
	var before [keys]int64 // as the file had it
	rowsFlushed := map[int]int{}
	for round := range rounds {
		told := runAndKill(t, path, time.Duration(random.Int64N(int64(150*time.Millisecond))))
		s, err := Open(t.Context(), path, Options{Mode: Owner})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		sound(t, s)
		snap, err := s.Restore(t.Context(), now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		counts, minutes := [keys]int64{}, [keys]int64{}
		for _, c := range snap.Counters {
			counts[c.ScopeKey[0]-'0'] = c.Used
		}
		for _, m := range snap.Minutes {
			minutes[m.ScopeKey[0]-'0'] = m.Used
		}
		for i := range keys {
			if round > 0 && told.restored[i] != before[i] && told.spent[i] > 0 {
				t.Errorf("round %d: the writer restored %d, the file had %d", round, told.restored[i], before[i])
			}
			spent := max(told.spent[i], before[i])
			for what, got := range map[string]int64{"counter": counts[i], "minute": minutes[i]} {
				// One more unit may have been covered and not told.
				if got < spent || (told.spent[i] > 0 && got > spent+1+maxLease) {
					t.Errorf("round %d: %s %d is %d after %d were spent, with a lease of at most %d", round, what, i, got, spent, maxLease)
				}
			}
		}
		before = counts
		rowsFlushed[told.pid] = told.flushed
		checkRows(t, s, rowsFlushed)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// checkRows: for every writer, its rows are there without a gap, each once, at least to the last one it knew flushed.
func checkRows(t *testing.T, s *Store, flushed map[int]int) {
	t.Helper()
	seen := map[int]map[int]int{}
	for row, err := range s.Journal(t.Context(), ledger.Interval{}) {
		if err != nil {
			t.Fatal(err)
		}
		var pid, n int
		fmt.Sscanf(row.ID, "%d-%d", &pid, &n)
		if seen[pid] == nil {
			seen[pid] = map[int]int{}
		}
		seen[pid][n]++
	}
	for pid, last := range flushed {
		for n := range max(last+1, len(seen[pid])) {
			if seen[pid][n] != 1 {
				t.Errorf("row %d of writer %d is there %d times; it knew %d flushed", n, pid, seen[pid][n], last)
				return
			}
		}
	}
}

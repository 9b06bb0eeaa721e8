package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
	"github.com/tapyr/tapyr/spend/spendtest"
)

const crashDocument = `
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: crash }
spec:
  version: v1
  unit: EUR
  account: { limit: "%d.50", bands: [0.5, 0.95] }
  routes:
    standard: { cost: "2.00", class: gold }
    economy: { cost: "0.75" }
  capabilities:
    tracking: { limit: "%d", protected: "%d", routes: [standard, economy], fallback: minimal }
    summary: { limit: "%d", routes: [economy], fallback: defer, deadline: 1h }
    proof: { limit: "%d", routes: [standard], fallback: reject }
`

// accountCrash is too small for what the workers ask for: the account's limit is met, and that of every capability.
func accountCrash(n int) string {
	return fmt.Sprintf(crashDocument, n/2, n/3, n/10, n, n/5)
}

// capabilityCrash leaves the account headroom for everything; only tracking comes to its limit.
func capabilityCrash(n int) string {
	return fmt.Sprintf(crashDocument, 10*n, n/10, n/100, 10*n, 10*n)
}

const (
	crashProcesses = 8
	crashThreads   = 8
	// crashEnv tells the test binary that it is a worker: FILE|NUMBER|ADMISSIONS A THREAD|SEED.
	crashEnv = "TAPYR_TEST_SPEND_WORKER"
	// soakEnv makes the long form of the tests.
	soakEnv = "TAPYR_SOAK"
)

// Eight processes with eight threads each admit into one store, a third of it again, and are killed at random and started
// again. Afterwards a program that shares no code with this one looks at the export. TAPYR_SOAK=1 makes 204,800 admissions a run.
//
// In one run a capability comes to its limit while the account has headroom: it follows its fallback, the others go on as
// before. In the other the account does, and its limit holds across all of them. Every outcome names the one version.
func TestSpendSurvivesKills(t *testing.T) {
	total, kills := 1536, 4 // a multiple of processes, threads and capabilities
	switch {
	case os.Getenv(soakEnv) != "":
		total, kills = 204_800, 60
	case testing.Short():
		t.Skip("short: eight processes on one store")
	}
	t.Run("account", func(t *testing.T) {
		used, mix := crashRun(t, accountCrash(total), total, kills)
		limit := spendtest.Units(t, fmt.Sprintf("%d.50", total/2))
		if used.Cmp(limit) > 0 || limit.Sub(used).Cmp(spendtest.Units(t, fmt.Sprint(total/10))) > 0 {
			t.Errorf("the account has used %s of %s, want it near its limit and not over", used, limit)
		}
		for _, want := range []string{"tracking minimal", "summary defer", "proof reject", "tracking dispatch"} {
			if mix[want] == 0 {
				t.Errorf("no event was decided as %s: %v", want, mix)
			}
		}
	})
	t.Run("capability", func(t *testing.T) {
		_, mix := crashRun(t, capabilityCrash(total), total, kills)
		want := map[string]int64{"summary dispatch": int64(total / 4), "proof dispatch": int64(total / 4)}
		for key, n := range mix {
			if !strings.HasPrefix(key, "tracking ") && n != want[key] {
				t.Errorf("%d events were decided as %s, want %d: all others route as before", n, key, want[key])
			}
		}
		if mix["tracking minimal"] == 0 || mix["tracking dispatch"] == 0 || mix["tracking minimal"]+mix["tracking dispatch"] != int64(total/2) {
			t.Errorf("the exhausted capability was decided as %v, want its fallback from its limit on", mix)
		}
	})
}

// crashRun runs the workers on a new store, checks it, and returns what the account has used and how many events of each
// capability were decided how.
func crashRun(t *testing.T, document string, total, kills int) (used book.Units, mix map[string]int64) {
	path := filepath.Join(t.TempDir(), "state.db")
	store, err := OpenSpend(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	spendtest.Publish(t, store, time.Now(), spendtest.Policy(t, document))
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	start := time.Now()
	c := &crash{t: t, path: path, each: total / crashProcesses / crashThreads, random: rand.New(rand.NewPCG(seed, 1)), kills: kills}
	c.run()
	t.Logf("%d admissions in %v, %d processes killed", total, time.Since(start).Round(time.Millisecond), c.killed)
	checkExport(t, path, c.logs())
	store, err = OpenSpend(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	spendtest.CheckBook(t, store, "crash")
	used = spendtest.Units(t, spendtest.Used(t, store, "crash", "", time.Time{}))
	mix = make(map[string]int64)
	err = store.View(context.Background(), func(tx book.Tx) error {
		for e, err := range tx.Events(book.Query{Policy: "crash"}) {
			if err != nil {
				return err
			}
			mix[e.Capability+" "+string(e.Disposition)]++
			if e.Version != "v1" {
				t.Errorf("event %s names version %q", e.ID, e.Version)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return used, mix
}

// crash runs the workers.
type crash struct {
	t      *testing.T
	path   string
	each   int
	random *rand.Rand
	kills  int
	killed int
}

func (c *crash) log(worker int) string { return fmt.Sprintf("%s.%d.log", c.path, worker) }

func (c *crash) logs() []string {
	var files []string
	for worker := range crashProcesses {
		files = append(files, c.log(worker))
	}
	return files
}

// start runs a worker in a process of its own; the channel gets how it ended.
func (c *crash) start(worker int) (*exec.Cmd, chan error) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestSpendWorker$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d|%d|%d", crashEnv, c.path, worker, c.each, c.random.Uint64()))
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			err = errKilled
		} else if err != nil {
			err = fmt.Errorf("worker %d: %w\n%s", worker, err, output.String())
		}
		ended <- err
	}()
	return cmd, ended
}

var errKilled = errors.New("killed")

func (c *crash) run() {
	type process struct {
		cmd   *exec.Cmd
		ended chan error
	}
	running := make(map[int]process)
	for worker := range crashProcesses {
		cmd, ended := c.start(worker)
		running[worker] = process{cmd, ended}
	}
	defer func() {
		for _, p := range running { // only where the test has failed
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}()
	for len(running) > 0 {
		time.Sleep(time.Duration(20+c.random.IntN(120)) * time.Millisecond)
		for worker, p := range running {
			select {
			case err := <-p.ended:
				delete(running, worker)
				if errors.Is(err, errKilled) { // some other test run's doing, or ours below
					cmd, ended := c.start(worker)
					running[worker] = process{cmd, ended}
				} else if err != nil {
					c.t.Fatal(err)
				}
			default:
				if c.killed < c.kills && c.random.IntN(len(running)) == 0 {
					_ = p.cmd.Process.Kill()
					c.killed++
				}
			}
		}
	}
}

// TestSpendWorker is not a test: it is what the processes of TestSpendSurvivesKills run.
func TestSpendWorker(t *testing.T) {
	fields := strings.Split(os.Getenv(crashEnv), "|")
	if len(fields) != 4 {
		t.Skip("a worker of TestSpendSurvivesKills")
	}
	number, _ := strconv.Atoi(fields[1])
	each, _ := strconv.Atoi(fields[2])
	seed, _ := strconv.ParseUint(fields[3], 10, 64)
	store, err := OpenSpend(context.Background(), fields[0], Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	log, done := openLog(t, fmt.Sprintf("%s.%d.log", fields[0], number))
	var wg sync.WaitGroup
	for thread := range crashThreads {
		w := &crashWorker{
			t: t, machine: spend.New(store, "crash"), log: log, number: number, thread: thread, each: each,
			random: rand.New(rand.NewPCG(seed, uint64(thread))), done: done,
		}
		wg.Go(w.run)
	}
	wg.Wait()
}

// openLog opens the list of the answers that a worker got, and reads how far each thread had come. The last line may be cut off.
func openLog(t *testing.T, path string) (*os.File, map[string]bool) {
	done := make(map[string]bool)
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(log)
	for in.Scan() {
		if fields := strings.Fields(in.Text()); len(fields) == 4 {
			done[fields[0]] = true
		}
	}
	if _, err := log.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	return log, done
}

type crashWorker struct {
	t                    *testing.T
	machine              *spend.Machine
	log                  *os.File
	number, thread, each int
	random               *rand.Rand
	done                 map[string]bool
}

func crashID(worker, thread, i int) string { return fmt.Sprintf("w%d-t%d-%d", worker, thread, i) }

// run admits the thread's events. What it had no answer for when it was killed it admits again; that, and a third of the rest
// on purpose, are retries.
func (w *crashWorker) run() {
	for i := range w.each {
		id := crashID(w.number, w.thread, i)
		if w.done[id] && w.random.IntN(10) != 0 {
			continue
		}
		w.admit(id, i)
		for w.random.IntN(100) < 30 { // a retry of anybody's event
			other, thread, j := w.random.IntN(crashProcesses), w.random.IntN(crashThreads), w.random.IntN(i+1)
			if other == w.number && thread == w.thread {
				w.admit(crashID(other, thread, j), j)
			} else {
				w.retryIfKnown(crashID(other, thread, j))
			}
		}
		w.finish(id)
	}
}

var crashCapabilities = []string{"tracking", "tracking", "summary", "proof"}

func (w *crashWorker) admit(id string, i int) {
	out, err := w.machine.Admit(context.Background(), time.Now(), spend.Admission{
		EventID: id, Capability: crashCapabilities[i%len(crashCapabilities)], Reference: "ref " + id,
	})
	if err != nil {
		w.t.Errorf("admit %s: %v", id, err)
		return
	}
	w.answered(out)
}

func (w *crashWorker) answered(out spend.Outcome) {
	route := "-"
	if out.Route != nil {
		route = *out.Route
	}
	line := fmt.Sprintf("%s %s %s %s\n", out.EventID, out.Disposition, route, out.EntryHash)
	if _, err := w.log.WriteString(line); err != nil {
		w.t.Error(err)
	}
}

// retryIfKnown asks again for an event of another thread, which may not have come to it yet.
func (w *crashWorker) retryIfKnown(id string) {
	x, err := w.machine.Explain(context.Background(), id)
	if err != nil {
		return
	}
	out, err := w.machine.Admit(context.Background(), time.Now(), spend.Admission{EventID: id, Capability: x.Decision.Capability})
	if err != nil || !out.Repeated {
		w.t.Errorf("retry of %s: %+v, %v", id, out, err)
		return
	}
	w.answered(out)
}

// finish settles or releases some events. The amounts are the events' own, so that doing it again is nothing.
func (w *crashWorker) finish(id string) {
	ctx, now := context.Background(), time.Now()
	var err error
	switch len(id) % 3 * w.random.IntN(2) {
	case 1:
		var actual book.Units
		if actual, err = book.ParseUnits("0.5"); err == nil {
			_, err = w.machine.Settle(ctx, now, id, actual)
		}
	case 2:
		_, err = w.machine.Release(ctx, now, id, "canceled")
	}
	var state *book.StateError
	if err != nil && !errors.As(err, &state) { // an event without units cannot be settled
		w.t.Errorf("finish %s: %v", id, err)
	}
}

// checkExport writes the chain and runs the independent program on it.
func checkExport(t *testing.T, path string, logs []string) {
	t.Helper()
	export := filepath.Join(t.TempDir(), "chain.jsonl")
	writeExport(t, path, export)
	out, err := exec.Command(buildChecker(t), append([]string{export}, logs...)...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("the checker found problems: %v", err)
	}
}

// buildChecker builds the independent program.
func buildChecker(t *testing.T) string {
	t.Helper()
	checker := filepath.Join(t.TempDir(), "checkspend")
	if out, err := exec.Command("go", "build", "-o", checker, "./testdata/checkspend").CombinedOutput(); err != nil {
		t.Fatalf("build the checker: %v\n%s", err, out)
	}
	return checker
}

func writeExport(t *testing.T, path, export string) {
	t.Helper()
	store, err := OpenSpend(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	f, err := os.Create(export)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	err = store.View(context.Background(), func(tx book.Tx) error {
		_, err := chain.Write(w, tx.Entries(1))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

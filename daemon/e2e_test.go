package daemon_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/simulate"
)

// soak tells that long tests run in full.
func soak() bool { return os.Getenv("TAPYR_SOAK") != "" }

// baseURLOf the example providers, which the tests point at a simulated vendor instead.
var baseURLOf = regexp.MustCompile(`baseURL: https://[^/\s]+(/\S*)?`)

// ownOutputs are those of the examples' jobs, for which withOutputs has others; declaredBurst are buckets; largeEstimates are of
// fleets at which the slowest vendors would answer for minutes.
var (
	ownOutputs     = regexp.MustCompile(`(?m)^  outputs:\n(?:    .*\n?)+`)
	declaredBurst  = regexp.MustCompile(`burst: \d+`)
	largeEstimates = regexp.MustCompile(`items: (?:[5-9]\d|\d{3,})\b`)
)

// example is a folder of examples as one text, its provider's name, and its base URL replaced by @URL.
func example(t testing.TB, folder string) (documents, provider string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "examples", folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no example %s: %v", folder, err)
	}
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSpace(string(text)))
	}
	documents = baseURLOf.ReplaceAllString(strings.Join(all, "\n---\n"), `baseURL: "@URL$1"`)
	documents = ownOutputs.ReplaceAllString(documents, "")
	documents = largeEstimates.ReplaceAllString(documents, "items: 4")
	match := regexp.MustCompile(`kind: Provider\nmetadata: \{ name: (\S+) \}`).FindStringSubmatch(documents)
	if match == nil {
		t.Fatalf("example %s has no provider", folder)
	}
	return documents, match[1]
}

// exampleFolders are the folders of examples that have a provider and jobs.
func exampleFolders(t testing.TB) (folders []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "examples", "*", "provider.yaml"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range found {
		folders = append(folders, filepath.Base(filepath.Dir(file)))
	}
	return folders
}

// withOutputs gives every job a file, so that all of its items are kept somewhere.
func withOutputs(documents string) string {
	return regexp.MustCompile(`(?m)^kind: Job\nmetadata: \{ name: (\S+) \}\nspec:\n`).
		ReplaceAllString(documents, "$0  outputs: [{ jsonl: { path: \"@DIR/out/$1.jsonl\" } }]\n")
}

// vendor is a simulated provider, and what it has answered.
type vendor struct {
	*rig
	statuses [600]atomic.Int64
}

// newVendor serves an example's provider with faults.
func newVendor(t testing.TB, documents, provider string, options simulate.ServerOptions) *vendor {
	t.Helper()
	// The vendor's buckets hold a few tokens more than ours: requests reach it later than they were let go, and not all by the same
	// time. Whoever does not keep to the rate has used them up at once.
	const spare = 3
	enforced := declaredBurst.ReplaceAllStringFunc(documents, func(text string) string {
		burst, err := strconv.Atoi(strings.TrimPrefix(text, "burst: "))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("burst: %d", burst+spare)
	})
	config, err := configOf(strings.NewReplacer("@URL", "http://vendor.test", "@DIR", t.TempDir()).Replace(enforced))
	if err != nil {
		t.Fatal(err)
	}
	server, err := simulate.NewServer(config, provider, options)
	if err != nil {
		t.Fatal(err)
	}
	v := new(vendor)
	v.rig = newRig(t, documents, func(w http.ResponseWriter, q *http.Request) {
		counted := &statusWriter{ResponseWriter: w, status: 200}
		server.ServeHTTP(counted, q)
		v.statuses[counted.status].Add(1)
	})
	for _, a := range config.Accounts {
		for _, ref := range a.Spec.Credentials {
			v.env[ref.Env] = plantedKey
		}
	}
	return v
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// kept is what a folder's files and a daemon's metrics hold, sorted.
func (v *vendor) kept() []string {
	v.t.Helper()
	out := metrics(v.t, v.daemon)
	files, err := filepath.Glob(filepath.Join(v.dir, "out", "*.jsonl"))
	if err != nil {
		v.t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			v.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			out = append(out, filepath.Base(file)+": "+strings.TrimSpace(line))
		}
	}
	slices.Sort(out)
	return out
}

// Every example, against a vendor that enforces its limits and has faults: no limit is exceeded as the vendor counts, and what is
// kept is the same as from a vendor without faults, to the item.
func TestExamplesCollectEverythingInsideTheLimitsDespiteFaults(t *testing.T) {
	for _, folder := range exampleFolders(t) {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			documents, provider := example(t, folder)
			documents = strings.ReplaceAll(withOutputs(documents), "maxAttempts: 4, initial: 1s", "maxAttempts: 8, initial: 10ms")
			if !strings.Contains(documents, "retry:") {
				documents = strings.Replace(documents, "  errors:\n", "  retry: { maxAttempts: 8, initial: 10ms, max: 100ms }\n  errors:\n", 1)
			}
			documents = strings.Replace(documents, "  retry:", "  circuitBreaker: { failures: 50 }\n  retry:", 1)
			calm := newVendor(t, documents, provider, simulate.ServerOptions{Seed: 7})
			if err := calm.once(); err != nil {
				t.Fatalf("without faults: %v\n%s", err, calm.logs)
			}
			want := calm.kept()
			if len(want) < 5 {
				t.Fatalf("only %d things were kept: the test sees nothing", len(want))
			}
			rough := newVendor(t, documents, provider, simulate.ServerOptions{Seed: 7, Faults: simulate.Faults{
				Latency: 5 * time.Millisecond, Jitter: 4 * time.Millisecond, Errors: 0.1, Resets: 0.03, Slow: 0.02, Missing: 0.1,
			}})
			if err := rough.once(); err != nil {
				t.Fatalf("with faults: %v\n%s", err, rough.logs)
			}
			if got := rough.kept(); !slices.Equal(got, want) {
				t.Errorf("with faults %d things were kept, without %d; the first difference: %s", len(got), len(want), difference(got, want))
			}
			for name, v := range map[string]*vendor{"calm": calm, "rough": rough} {
				if n := v.statuses[429].Load(); n != 0 {
					t.Errorf("the %s vendor refused %d of %d requests", name, n, len(v.seen()))
				}
			}
			if rough.statuses[503].Load() == 0 {
				t.Error("there were no faults: the test sees nothing")
			}
		})
	}
}

func difference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return "missing " + want[i]
		case i >= len(want):
			return "too much: " + got[i]
		case got[i] != want[i]:
			return "got " + got[i] + ", want " + want[i]
		}
	}
	return "none"
}

// A daemon in a process of its own is hung up, killed and stopped in the middle of its work, and started again: no limit is exceeded
// as the vendor counts, across all of its lives, inventories are there at once, and the counts are exact after a clean stop.
func TestSignalsInTheMiddleOfTheWork(t *testing.T) {
	lives, kills := int64(3), int64(0)
	if soak() {
		lives = 30
	}
	quota := 50 * lives // so that there is something left for the last of them
	documents, provider := example(t, "meraki")
	documents = regexp.MustCompile(`interval: \d+[mh]|maxInterval: \d+[mh].*`).ReplaceAllStringFunc(documents, func(found string) string {
		if strings.HasPrefix(found, "max") {
			return "maxInterval: 1d"
		}
		return "interval: 1s"
	})
	documents = strings.Replace(documents, "max: 12000", fmt.Sprintf("max: %d", quota), 1) + `
---
apiVersion: tapyr/v1alpha1
kind: Settings
metadata: { name: default }
spec: { state: { path: "@DIR/tapyr.db", flushInterval: 200ms } }
`
	v := newVendor(t, documents, provider, simulate.ServerOptions{Seed: 3, Faults: simulate.Faults{Latency: 5 * time.Millisecond, Jitter: 3 * time.Millisecond}})
	calls := func(n int) func() bool {
		return func() bool { return len(v.seen()) >= n }
	}
	for life := range lives {
		p := v.spawn(documents)
		v.until("calls in a new life", calls(len(v.seen())+8))
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		v.until("the reload", func() bool { return strings.Contains(p.logs.String(), "new documents are in force") })
		v.until("calls after the reload", calls(len(v.seen())+3))
		if life%2 == 0 {
			kills++
			_ = p.Process.Kill()
			_ = p.end(t)
			continue
		}
		stop(t, p)
	}
	// The last life ends well, so that its counts are exact.
	p := v.spawn(documents)
	v.until("calls in the last life", calls(len(v.seen())+1))
	stop(t, p)
	if n := v.statuses[429].Load(); n != 0 {
		t.Errorf("the vendor refused %d of %d requests", n, len(v.seen()))
	}
	if v.statuses[200].Load() != int64(len(v.seen())) {
		t.Errorf("%d of %d requests succeeded", v.statuses[200].Load(), len(v.seen()))
	}
	v.set(documents)
	least := int64(len(v.seen()))
	d := v.make(daemon.Options{})
	halt := v.start(d)
	s := d.Snapshot()
	halt()
	if len(s.Scopes) != 1 || s.Scopes[0].Max != quota || s.Scopes[0].Usable != quota {
		t.Fatalf("scopes: %+v", s.Scopes)
	}
	// A kill may cost the count a lease, and what was about to leave. It is never too low, unless the day has just ended.
	most, used := int64(len(v.seen()))+kills*(quota/100+16), s.Scopes[0].Used
	if used > most || used < least && s.Scopes[0].WindowStart.Before(time.Now().Add(-5*time.Minute)) {
		t.Errorf("the count is %d, which is not from %d to %d", used, least, most)
	}
	if s.Inventories[0].Items == 0 || s.Inventories[1].Items == 0 {
		t.Errorf("the inventories are gone: %+v", s.Inventories)
	}
	t.Logf("%d lives, %d requests, count %d", lives+1, len(v.seen()), used)
}

// stop ends a process as an operator does.
func stop(t testing.TB, p *process) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.end(t); err != nil {
		t.Errorf("the process ended with %v\n%s", err, p.logs)
	}
}

// No secret gets anywhere: not into logs, errors, files, the state, its journal, metrics or the status, not even where a vendor
// echoes it.
func TestNoSecretGetsAnywhere(t *testing.T) {
	r := newRig(t, provider(oauth+`
  limits: [{ name: day, kind: quota, max: 1000, window: { period: day }, sync: { remainingHeader: X-Left } }]
  errors: { rateLimited: { match: "body.contains('slow down')" , defaultPenalty: 1ms } }`)+
		job("echo", `  interval: 1h
  request: { endpoint: /echo, headers: { X-Trace: "1" } }
  inventory: { items: response.list, vars: { v: item } }
  metrics: [{ name: echo, items: response.list, labels: { l: item }, value: "1.0" }]
  outputs: [{ jsonl: { path: "@DIR/out/echo.jsonl", items: response.list } }]
`)+job("bad", `  interval: 1h
  request: { endpoint: /bad }
  metrics: [{ name: bad, value: "1.0" }]
`)+job("away", `  interval: 1h
  request: { endpoint: /away }
  metrics: [{ name: away, value: "1.0" }]
`), func(w http.ResponseWriter, q *http.Request) {
		authorization := q.Header.Get("Authorization")
		w.Header().Set("X-Left", "900 "+authorization)
		switch q.URL.Path {
		case "/v1/token":
			reply(w, map[string]any{"access_token": plantedToken, "token_type": "bearer"})
		case "/v1/echo":
			reply(w, map[string]any{"list": []string{authorization, "key " + plantedKey, "plain"}})
		case "/v1/away":
			w.Header().Set("Location", "http://elsewhere.test/?leak="+authorization)
			w.WriteHeader(http.StatusFound)
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, "slow down, your %s and %s", authorization, plantedKey)
		}
	})
	err := r.once()
	var failed *daemon.FailedRunsError
	if !errors.As(err, &failed) || failed.Failed != 2 {
		t.Fatalf("%v\n%s", err, r.logs)
	}
	text := fmt.Sprint(err, r.logs.String(), metrics(t, r.daemon), fmt.Sprintf("%+v", r.daemon.Snapshot()))
	for _, name := range filesIn(t, r.dir) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text += string(content)
	}
	for _, secret := range []string{plantedKey, plantedToken} {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("a secret got out: …%s…", text[max(0, at-200):min(len(text), at+100)])
		}
	}
	if !strings.Contains(text, "[secret]") || !strings.Contains(text, "plain") {
		t.Error("nothing was echoed: the test sees nothing")
	}
}

const plantedToken = "PLANTED-t0ken-9876543210"

func filesIn(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

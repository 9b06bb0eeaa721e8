package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/spendtest"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const paidDocuments = `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: carrier }
spec:
  baseURL: @URL/v1
  auth: { type: bearer, credential: key }
  limits:
    - { name: rate, kind: rate, rate: 80/s, burst: 10, scope: { by: [account] } }
    - { name: at-once, kind: concurrency, max: 8, scope: { by: [account] } }
    - { name: daily, kind: quota, max: 20000, window: { period: day }, scope: { by: [account] } }
  errors: { rateLimited: { defaultPenalty: 20ms } }
  retry: { maxAttempts: 4, initial: 20ms, max: 100ms }
  circuitBreaker: { failures: 20, openFor: 300ms }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: first }
spec: { provider: carrier, credentials: { key: { env: FIRST } } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: second }
spec: { provider: carrier, credentials: { key: { env: SECOND } } }
---
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: logistics }
spec:
  version: v1
  unit: EUR
  account: { limit: "@LIMIT" }
  routes:
    standard:
      cost: "2"
      account: first
      idempotent: true
      request: { method: POST, endpoint: "/track/{event_id}", headers: { Idempotency-Key: "{event_id}" } }
      actual: response.price
    economy:
      cost: "1"
      account: second
      idempotent: true
      request: { method: POST, endpoint: "/cheap/{event_id}", headers: { Idempotency-Key: "{event_id}" } }
      actual: response.price
    label: { cost: "3", account: second, request: { method: POST, endpoint: "/label/{event_id}" }, actual: response.price }
  capabilities:
    tracking: { limit: "@LIMIT", routes: [standard, economy], fallback: defer, onUnavailable: next }
    labels: { limit: "@LIMIT", routes: [label], fallback: defer, deadline: 1h }
---
apiVersion: tapyr/v1alpha1
kind: Settings
metadata: { name: default }
spec:
  state: { path: @DIR/state.db, flushInterval: 200ms }
  status: { listen: "@LISTEN", token: { env: TOKEN } }
`

// carrier is a simulated vendor that sells: it charges for what it does, once for an event that it knows by its key, and has faults of
// its own before and after it has done it.
type carrier struct {
	server *simulate.Server

	mu     sync.Mutex
	chance *rand.Rand
	// charged are the prices by event and account, calls how often an event was asked for.
	charged map[string]map[string][]string
	answers map[string][]byte
	calls   int
	cut     bool // the first account is cut off
	refused int  // by the limits, as the simulated vendor counts
	twice   []string
}

func (c *carrier) done() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.charged)
}

// draw decides about faults.
func (c *carrier) draw() (before, after float64, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	return c.chance.Float64(), c.chance.Float64(), c.cut
}

func (c *carrier) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	account := "second"
	if q.Header.Get("Authorization") == "Bearer key-of-the-first-account" {
		account = "first"
	}
	before, after, cut := c.draw()
	id := filepath.Base(q.URL.Path)
	switch {
	case account == "first" && cut:
		w.WriteHeader(http.StatusPaymentRequired)
		return
	case strings.HasSuffix(id, "bad"):
		w.WriteHeader(http.StatusNotFound)
		return
	case before < 0.03:
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case before < 0.05:
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	recorder := httptest.NewRecorder()
	c.server.ServeHTTP(recorder, q)
	body := recorder.Body.Bytes()
	if len(body) == 0 {
		panic(http.ErrAbortHandler) // the connection broke, or who asked has been killed, before anything was done
	}
	if recorder.Code == http.StatusOK {
		body = c.charge(id, account, q.Header.Get("Idempotency-Key") != "", body)
	}
	if recorder.Code == http.StatusTooManyRequests {
		c.mu.Lock()
		c.refused++
		c.mu.Unlock()
	}
	switch {
	case after < 0.02:
		panic(http.ErrAbortHandler) // done, and nobody hears of it
	case after < 0.03:
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	for name, values := range recorder.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(body)
}

// charge writes down what an event cost, and gives the answer: the first one again, where the event is known by its key.
func (c *carrier) charge(id, account string, keyed bool, body []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if keyed && c.answers[account+id] != nil {
		return c.answers[account+id]
	}
	var answer struct {
		Price json.Number `json:"price"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Price == "" {
		panic(fmt.Sprintf("an answer without a price: %s", body))
	}
	if c.charged[id] == nil {
		c.charged[id] = make(map[string][]string)
	}
	c.charged[id][account] = append(c.charged[id][account], answer.Price.String())
	if len(c.charged[id]) > 1 || len(c.charged[id][account]) > 1 {
		c.twice = append(c.twice, id)
	}
	c.answers[account+id] = body
	return body
}

// paidRun is a folder, a vendor, and the program that runs in the folder against it.
type paidRun struct {
	t       *testing.T
	dir     string
	address string
	vendor  *carrier
}

func newPaidRun(t *testing.T, limit string) *paidRun {
	t.Helper()
	r := &paidRun{t: t, dir: t.TempDir(), vendor: &carrier{
		chance: rand.New(rand.NewPCG(7, 7)), charged: make(map[string]map[string][]string), answers: make(map[string][]byte),
	}}
	server := httptest.NewServer(r.vendor)
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = listener.Addr().String()
	_ = listener.Close()
	text := strings.NewReplacer("@URL", server.URL, "@DIR", r.dir, "@LISTEN", r.address, "@LIMIT", limit).Replace(paidDocuments)
	if err := os.WriteFile(filepath.Join(r.dir, "tapyr.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// The vendor's bucket holds a few more than ours: requests reach it later than they left, and not all by the same time.
	enforced := strings.Replace(text, "rate: 80/s, burst: 10", "rate: 100/s, burst: 20", 1)
	r.vendor.server, err = simulate.NewServer(validatetest.Config(t, enforced), "carrier", simulate.ServerOptions{
		Seed: 3, Faults: simulate.Faults{Latency: 8 * time.Millisecond, Jitter: 6 * time.Millisecond, Errors: 0.02},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tapyr is the program: this test binary under its name, see TestMain.
func (r *paidRun) tapyr(args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Args[0] = "tapyr"
	command.Dir = r.dir
	command.Env = append(os.Environ(), "FIRST=key-of-the-first-account", "SECOND=key-of-the-second-account", "TOKEN=token-of-the-api")
	return command
}

// do runs a command to its end, which must be good.
func (r *paidRun) do(args ...string) string {
	r.t.Helper()
	out, err := r.tapyr(args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("tapyr %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// start starts "tapyr run".
func (r *paidRun) start() *exec.Cmd {
	r.t.Helper()
	command := r.tapyr("run", "-c", "tapyr.yaml")
	log, err := os.OpenFile(filepath.Join(r.dir, "run.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = log.Close() })
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = command.Process.Kill() })
	return command
}

// post admits events over HTTP, again and again until all are durable: tapyr may be killed meanwhile.
func (r *paidRun) post(events []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.address+"/api/v1/spend/events", strings.NewReader(strings.Join(events, "\n")))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/x-ndjson")
		request.Header.Set("Authorization", "Bearer token-of-the-api")
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode == http.StatusAccepted {
				return nil
			}
			err = fmt.Errorf("status %d: %s", response.StatusCode, text)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// until waits for something that must come.
func (r *paidRun) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(90 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(r.dir, "run.log"))
			r.t.Fatalf("never: %s\n%s", what, log[max(0, len(log)-6000):])
		}
	}
}

// events reads the book.
func (r *paidRun) events() (all []*book.Event) {
	r.t.Helper()
	store, err := sqlite.OpenSpend(r.t.Context(), filepath.Join(r.dir, "state.db"), sqlite.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	defer store.Close()
	spendtest.CheckBook(r.t, store, "logistics")
	err = store.View(r.t.Context(), func(tx book.Tx) error {
		for e, err := range tx.Events(book.Query{Policy: "logistics"}) {
			if err != nil {
				return err
			}
			all = append(all, e)
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// paidEvents are events to admit: the first as arguments of the command line, the others as lines of JSON. Some are of a kind that the
// vendor refuses.
func paidEvents(count, lines int) (calls, posts []string) {
	for i := range count {
		capability, id := "tracking", fmt.Sprintf("event-%d", i)
		if i%4 == 3 {
			capability = "labels"
		}
		if i%25 == 7 {
			id += "-bad"
		}
		if i < lines {
			calls = append(calls, id+" "+capability)
			continue
		}
		posts = append(posts, fmt.Sprintf(`{"event_id":%q,"capability":%q}`, id, capability))
	}
	return calls, posts
}

// Events from the command line and over HTTP, a vendor with faults, an account that is cut off for a while, and kills in the
// middle: every event is delivered or in the state that it belongs in, none is charged twice, what is settled is what the vendor
// charged, no limit is exceeded as the vendor counts, and the chain holds.
func TestPaidCallsAreDeliveredThroughKillsAndFaults(t *testing.T) {
	count, lines, lives := 300, 12, 1
	if os.Getenv("TAPYR_SOAK") != "" {
		count, lines, lives = 3000, 150, 12
	}
	// Not all fit at once: some wait for what others give back.
	r := newPaidRun(t, fmt.Sprint(count*2-count/4))
	r.do("spend", "publish", "tapyr.yaml", "--change", "CR-1", "--approve", "routing:ALICE", "--approve", "budget:BOB")
	calls, posts := paidEvents(count, lines)
	run := r.start()
	posted := make(chan error, 1)
	go func() {
		for from := 0; from < len(posts); from += 40 {
			if err := r.post(posts[from:min(from+40, len(posts))]); err != nil {
				posted <- err
				return
			}
		}
		posted <- nil
	}()
	for life := range lives {
		r.until("calls before the kill", func() bool { return r.vendor.done() >= (life+1)*count/(lives+4) })
		_ = run.Process.Kill()
		_ = run.Wait()
		run = r.start()
	}
	for _, call := range calls {
		id, capability, _ := strings.Cut(call, " ")
		r.do("spend", "admit", id, capability, "--state", "state.db")
	}
	r.vendor.mu.Lock()
	r.vendor.cut = true
	r.vendor.mu.Unlock()
	if err := <-posted; err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	r.vendor.mu.Lock()
	r.vendor.cut = false
	r.vendor.mu.Unlock()
	r.until("the end of all events", func() bool {
		pending := 0
		for _, e := range r.events() {
			if e.Outbox || e.State == book.Deferred {
				pending++
			}
		}
		return pending == 0
	})
	if err := run.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); err != nil {
		t.Errorf("tapyr run ended with %v", err)
	}
	if out := r.do("spend", "verify", "--state", "state.db"); !strings.Contains(out, "whole") {
		t.Errorf("verify: %s", out)
	}
	r.check(count)
}

// check compares the book with what the vendor has charged.
func (r *paidRun) check(count int) {
	r.t.Helper()
	events := r.events()
	if len(events) != count {
		r.t.Errorf("%d events are in the book, want %d", len(events), count)
	}
	tally := make(map[string]int)
	for _, e := range events {
		charged := r.vendor.charged[e.ID]
		word := string(e.State)
		switch {
		case e.State == book.Settled:
			price := charged[map[string]string{"standard": "first"}[e.Route]+map[string]string{"economy": "second", "label": "second"}[e.Route]]
			if len(price) != 1 || spendtest.Units(r.t, price[0]).Cmp(e.Actual) != 0 {
				r.t.Errorf("%s is settled with %s by %s; the vendor charged %v", e.ID, e.Actual, e.Route, charged)
			}
		case e.State == book.Released && strings.HasSuffix(e.ID, "bad"):
		case e.State == book.Dispatched && e.InDoubt && (e.Route == "label" || strings.HasSuffix(e.ID, "bad") && len(charged) == 0):
			word = "in doubt, " + e.Result
		default:
			r.t.Errorf("%s is %s by %s, in doubt %v, after %s; the vendor charged %v", e.ID, e.State, e.Route, e.InDoubt, e.Result, charged)
		}
		tally[word+" by "+e.Route]++
	}
	if len(r.vendor.twice) > 0 {
		r.t.Errorf("charged twice: %v", r.vendor.twice)
	}
	if r.vendor.refused > 0 {
		r.t.Errorf("the vendor's limits were exceeded %d times in %d calls", r.vendor.refused, r.vendor.calls)
	}
	if tally["settled by economy"] == 0 || tally["settled by standard"] == 0 || tally["settled by label"] == 0 {
		r.t.Error("a route was not used: the test sees nothing")
	}
	r.t.Logf("%d calls: %v", r.vendor.calls, tally)
}

package daemon_test

import (
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
)

// scripted answers each event with what its script says, one word a request, the last one for ever:
// a status, "reset" (the connection breaks), or "free" (200 without a cost).
type scripted struct {
	t       testing.TB
	mu      sync.Mutex
	scripts map[string][]string
	calls   map[string]int
}

func script(t testing.TB, scripts map[string]string) *scripted {
	s := &scripted{t: t, scripts: make(map[string][]string), calls: make(map[string]int)}
	for id, text := range scripts {
		s.scripts[id] = strings.Fields(text)
	}
	return s
}

// next is what an event is answered with, by the route and the event's id.
func (s *scripted) next(q *http.Request) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := path.Base(q.URL.Path)
	route := path.Base(path.Dir(q.URL.Path))
	words := s.scripts[route+"/"+id]
	if words == nil {
		words = s.scripts[id]
	}
	n := s.calls[route+"/"+id]
	s.calls[route+"/"+id]++
	if len(words) == 0 || route == "moved" || route == "done" {
		return "200"
	}
	return words[min(n, len(words)-1)]
}

func (s *scripted) of(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[call]
}

// set replaces a script.
func (s *scripted) set(id, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[id] = strings.Fields(text)
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	switch word := s.next(q); word {
	case "200":
		priced(w, q)
	case "free":
		reply(w, map[string]any{})
	case "billed-404":
		w.WriteHeader(http.StatusNotFound)
		reply(w, map[string]any{"cost": "0.25"})
	case "reset":
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			s.t.Error(err)
			return
		}
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	case "303":
		w.Header().Set("Location", "/v1/done/"+path.Base(q.URL.Path))
		w.WriteHeader(http.StatusSeeOther)
	case "307":
		w.Header().Set("Location", "/v1/moved/"+path.Base(q.URL.Path))
		w.WriteHeader(http.StatusTemporaryRedirect)
	case "away":
		w.Header().Set("Location", "http://elsewhere.test/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		status := 0
		for _, digit := range word {
			status = status*10 + int(digit-'0')
		}
		w.WriteHeader(status)
	}
}

// calm is a provider whose breaker does not open, and that is asked again soon.
const calm = "  circuitBreaker: { failures: 1000, openFor: 100ms }\n  errors: { rateLimited: { defaultPenalty: 1ms } }\n"

// What became of one event: its state, what it takes, how often the vendor was asked, and the last result.
func TestWhatBecomesOfAnEventFollowsFromTheAnswers(t *testing.T) {
	tests := []struct {
		name, capability, script string
		state                    book.State
		units, result            string
		calls                    int64
		doubt                    bool
	}{
		{"an answer with its cost", "safe", "200", book.Settled, "1.25", "ok", 1, false},
		{"done, at the reserved cost", "once", "200", book.Settled, "3", "ok", 1, false},
		{"refused for good", "once", "404", book.Released, "0", "rejected", 1, false},
		{"refused, and billed", "safe", "billed-404", book.Settled, "0.25", "rejected", 1, false},
		{"rate limited, then done", "once", "429 429 200", book.Settled, "3", "ok", 3, false},
		{"busy, then done", "once", "503 200", book.Settled, "3", "ok", 2, false},
		{"failed, and perhaps done", "once", "500 200", book.Dispatched, "3", "server-error", 1, true},
		{"silent, and perhaps done", "once", "reset 200", book.Dispatched, "3", "no-answer", 1, true},
		{"failed, but the vendor knows the event", "safe", "500 reset 200", book.Settled, "1.25", "ok", 3, false},
		{"failed, then refused, with a doubt left", "safe", "500 404", book.Dispatched, "2", "rejected", 2, true},
		{"failed for longer than a round", "safe", "500 500 500 500 200", book.Settled, "1.25", "ok", 5, false},
		{"done, and nobody knows what it cost", "safe", "free", book.Dispatched, "2", "unpriced", 1, true},
		{"led elsewhere on the vendor's side", "once", "307", book.Settled, "3", "ok", 1, false},
		{"led to the result of what is done", "once", "303", book.Settled, "3", "ok", 1, false},
		{"led to where nobody may go", "once", "away", book.Dispatched, "3", "redirected", 1, true},
		{"a method that is not there", "once", "501", book.Released, "0", "server-error", 1, false},
	}
	scripts := make(map[string]string)
	for _, test := range tests {
		scripts[strings.ReplaceAll(test.name, " ", "-")] = test.script
	}
	vendor := script(t, scripts)
	c := newCounter(t, calm, paidPolicy, vendor.ServeHTTP)
	stop := c.start(c.daemon)
	for _, test := range tests {
		c.admit(test.capability, strings.ReplaceAll(test.name, " ", "-"))
	}
	for _, test := range tests {
		id := strings.ReplaceAll(test.name, " ", "-")
		c.until(test.name, func() bool { e := c.event(id); return e.State == test.state && !e.Outbox })
		e := c.event(id)
		if e.Units().String() != test.units || e.Result != test.result || e.Attempts != test.calls || e.InDoubt != test.doubt {
			t.Errorf("%s: %s %s after %d attempts, in doubt %v, want %s %s after %d, %v",
				test.name, e.Units(), e.Result, e.Attempts, e.InDoubt, test.units, test.result, test.calls, test.doubt)
		}
		if sent := vendor.of(test.capability + "/" + id); int64(sent) != test.calls {
			t.Errorf("%s: the vendor was asked %d times, want %d", test.name, sent, test.calls)
		}
	}
	stop()
	c.whole()
}

func TestAnEventThatCannotBeSentIsReleased(t *testing.T) {
	c := newCounter(t, "", paidPolicy, priced)
	if _, err := c.machine.Admit(t.Context(), time.Now(), spend.Admission{EventID: "poor", Capability: "safe"}); err != nil {
		t.Fatal(err)
	}
	c.admit("safe", "two\nlines")
	c.start(c.daemon)
	for id, why := range map[string]string{"poor": `has no variable \"country\"`, "two\nlines": "control character"} {
		e := c.reaches(id, book.Released)
		if e.Result != "unsendable" || !strings.Contains(c.logs.String(), why) {
			t.Errorf("%q: %+v\n%s", id, e, c.logs)
		}
	}
	if len(c.seen()) != 0 {
		t.Errorf("sent %v", c.seen())
	}
	c.whole()
}

// A cut-off account: events that may take the next route do, with its reservation, and the others wait until it is back.
func TestARouteThatIsDownIsWaitedForOrTheNextIsTaken(t *testing.T) {
	vendor := script(t, map[string]string{"once/m1": "401", "once/m2": "401", "safe/w1": "401", "safe/w2": "401"})
	c := newCounter(t, strings.Replace(calm, "100ms", "300ms", 1), paidPolicy, vendor.ServeHTTP)
	c.start(c.daemon)
	c.admit("moves", "m1", "m2")
	for _, id := range []string{"m1", "m2"} {
		if e := c.reaches(id, book.Settled); e.Route != "spare" || e.Actual.String() != "5" || e.WindowStart != (time.Time{}) {
			t.Errorf("%s: %+v", id, e)
		}
	}
	c.admit("safe", "w1", "w2")
	c.until("both wait", func() bool { return c.event("w1").Waiting && c.event("w2").Waiting })
	if e := c.event("w1"); e.State != book.Dispatched || e.Route != "safe" || e.Units().String() != "2" || e.InDoubt {
		t.Errorf("w1 waits so: %+v", e)
	}
	before := c.event("w2").Attempts
	vendor.set("safe/w1", "200")
	vendor.set("safe/w2", "200")
	c.reaches("w1", book.Settled)
	c.reaches("w2", book.Settled)
	if after := c.event("w2").Attempts; after > before+2 {
		t.Errorf("a route that is down was asked %d times by an event that only waited", after-before)
	}
	c.whole()
}

// What waits for a route that is down expires at its deadline, on time, and gives its units back; whoever has the units then is
// delivered.
func TestTimeAloneChangesWhatWaits(t *testing.T) {
	policy := `apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: money }
spec:
  version: v1
  unit: EUR
  account: { limit: "4", window: { every: 3s } }
  routes:
    dead: { cost: "3", account: first, request: { endpoint: "/dead/{event_id}" } }
    live: { cost: "2", account: second, request: { endpoint: "/live/{event_id}" } }
  capabilities:
    dead: { limit: "4", routes: [dead], fallback: reject, deadline: 1s, onDeadline: minimal }
    live: { limit: "4", routes: [live], fallback: defer, deadline: 1h }
`
	vendor := script(t, map[string]string{"dead/d": "402"})
	c := newCounter(t, calm, policy, vendor.ServeHTTP)
	// The window must not end between the steps.
	for time.Now().UnixNano()%int64(3*time.Second) > int64(time.Second) {
		time.Sleep(10 * time.Millisecond)
	}
	c.start(c.daemon)
	c.admit("dead", "d")
	c.admit("live", "l1", "l2", "l3")
	if e := c.event("l1"); e.State != book.Deferred {
		t.Fatalf("l1 is %s, want it to find no room", e.State)
	}
	e := c.reaches("d", book.Expired)
	if late := e.UpdatedAt.Sub(e.Deadline); late < 0 || late > 5*time.Second || e.Disposition != book.Minimal {
		t.Errorf("expired %v after its deadline, with %s", late, e.Disposition)
	}
	for _, id := range []string{"l1", "l2", "l3"} { // two in this window, one when the next opens
		c.reaches(id, book.Settled)
	}
	if third, second := c.event("l3"), c.event("l2"); !third.DecidedAt.After(second.DecidedAt) {
		t.Errorf("l2 was decided at %v, l3 at %v: want the oldest first", second.DecidedAt, third.DecidedAt)
	}
	c.whole()
}

// An open breaker is a route that is down for all: nothing is sent meanwhile.
func TestAnOpenBreakerMovesEventsWithoutARequest(t *testing.T) {
	vendor := script(t, nil)
	for _, id := range []string{"a", "b", "c"} {
		vendor.set("once/"+id, "503")
	}
	c := newCounter(t, "  circuitBreaker: { failures: 3, openFor: 1h }\n", paidPolicy, vendor.ServeHTTP)
	c.start(c.daemon)
	c.admit("moves", "a")
	c.reaches("a", book.Settled)
	c.until("the breaker is open", func() bool { return vendor.of("once/a") == 3 })
	c.admit("moves", "b", "c")
	for _, id := range []string{"b", "c"} {
		if e := c.reaches(id, book.Settled); e.Route != "spare" {
			t.Errorf("%s went by %s", id, e.Route)
		}
		if n := vendor.of("once/" + id); n != 0 {
			t.Errorf("%s was sent %d times to an account whose breaker is open", id, n)
		}
	}
	c.whole()
}

// A new version decides for what comes, and what was decided is delivered as its own version says; documents alone change nothing.
func TestAPublishedVersionIsTheOneThatHolds(t *testing.T) {
	vendor := script(t, map[string]string{"old": "503 503 200"})
	c := newCounter(t, calm, paidPolicy, vendor.ServeHTTP)
	d := c.daemon
	c.start(d)
	c.admit("once", "old")
	next := strings.NewReplacer("version: v1", "version: v2", "/once/", "/twice/").Replace(c.documents)
	c.set(next)
	d.Reload()
	c.until("the reload says what differs", func() bool { return strings.Contains(c.logs.String(), "declared=v2 in-force=v1") })
	c.admit("once", "before")
	c.reaches("before", book.Settled)
	c.publish()
	c.admit("once", "after")
	c.reaches("after", book.Settled)
	c.reaches("old", book.Settled)
	for call, want := range map[string]int{"once/before": 1, "twice/before": 0, "once/after": 0, "twice/after": 1, "once/old": 3, "twice/old": 0} {
		if got := vendor.of(call); got != want {
			t.Errorf("%s was called %d times, want %d", call, got, want)
		}
	}
	c.whole()
}

// An account that the documents do not have is no outage: nothing is released, moved or expired for it.
func TestAMissingAccountHoldsItsEvents(t *testing.T) {
	c := newCounter(t, calm, paidPolicy, priced)
	whole := c.documents
	c.set(strings.NewReplacer(
		"metadata: { name: first }", "metadata: { name: other }", "account: first", "account: second", "version: v1", "version: v2",
	).Replace(whole))
	c.start(c.daemon)
	c.admit("moves", "m")
	c.until("the log says why", func() bool { return strings.Contains(c.logs.String(), "no account ") })
	if e := c.event("m"); e.Route != "once" || e.Waiting || e.Attempts != 0 || len(c.seen()) != 0 {
		t.Errorf("m: %+v", e)
	}
	c.set(whole)
	c.daemon.Reload()
	if e := c.reaches("m", book.Settled); e.Route != "once" {
		t.Errorf("m went by %s", e.Route)
	}
	c.whole()
}

package web

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tapyr/tapyr/daemon"
)

// Daemon is what a daemon offers to be shown and steered; *daemon.Daemon is one. Its methods may be called by many goroutines at
// once. One that also has Healthy() error is asked by /healthz what does not work; the others are healthy while they answer. One that
// also has Remedies, as *daemon.Daemon has, is asked what would help a plan that is infeasible.
type Daemon interface {
	// Snapshot is all there is to show, as of now. It belongs to the caller, apart from its Plan.
	Snapshot() daemon.Snapshot
	// Ready is nil once documents, state and plan are there; an error says what is missing.
	Ready() error
	// Pause stops the starts of a job's runs, Resume lets them go on, Trigger starts one of every instance at once and tells how
	// many. An error says why it cannot be, to the operator who asked: a *daemon.NoSuchJobError, or what else stands against it.
	Pause(job string) error
	Resume(job string) error
	Trigger(job string) (started int, err error)
	// Reload has the documents loaded again, soon.
	Reload()
}

var _ Daemon = (*daemon.Daemon)(nil)

// Options of New.
type Options struct {
	// Daemon is required.
	Daemon Daemon
	// Series are the metrics that jobs make of answers; nil for none. Names that begin with tapyr_ are left out: they are taken.
	Series prometheus.Collector
	// Spend admits paid calls and reports on them; nil where no policy is declared.
	Spend Spend
	// Now is the clock of admissions, required with Spend.
	Now func() time.Time
	// Token is the bearer token in force, empty where only loopback may ask: a reload can change it. nil is as empty.
	Token func() string
	// Exposed tells that the address can be reached from other machines: then requests from this one need the token as well, since a
	// tunnel or a forwarded port makes any client look like it. /healthz and /readyz are for everybody.
	Exposed bool
	// Hosts are names, apart from those of loopback, that a request without a token may use as its host.
	Hosts []string
	// Redact takes secrets out of a text before it is shown; nil leaves texts as they are. What a daemon shows is redacted already
	// where it is recorded; this is the second wall.
	Redact func(string) string
	// Log hears of requests that were refused and of what could not be served; nil for nobody.
	Log *slog.Logger
}

// server answers requests. It has no state of its own, so all its methods may be called by many goroutines.
type server struct {
	Options
	metrics http.Handler
}

// New makes the handler of all routes. It panics where what is required is missing: that is a mistake of the program, not of its
// user.
func New(o Options) http.Handler {
	if o.Daemon == nil || o.Spend != nil && o.Now == nil {
		panic("web: Options without Daemon, or with Spend and without Now")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Token == nil {
		o.Token = func() string { return "" }
	}
	if o.Redact == nil {
		o.Redact = func(text string) string { return text }
	}
	s := &server{Options: o}
	s.metrics = s.metricsHandler()
	return s.guard(s.routes())
}

// routes binds paths to what answers them. A path with another method is 405 with Allow, by ServeMux, but in our form.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET "+healthPath, s.probe("ok", s.healthy))
	mux.HandleFunc("GET "+readyPath, s.probe("ready", s.Daemon.Ready))
	mux.Handle("GET /metrics", s.metrics)
	mux.HandleFunc("GET /api/v1/status", s.status)
	mux.HandleFunc("GET /api/v1/plan", s.plan)
	mux.HandleFunc("GET /api/v1/scopes", s.scopes)
	mux.HandleFunc("GET /api/v1/jobs", s.jobs)
	mux.HandleFunc("GET /api/v1/jobs/{job}", s.job)
	mux.HandleFunc("POST /api/v1/jobs/{job}/pause", s.steer(func(job string) (any, error) { return nil, s.Daemon.Pause(job) }))
	mux.HandleFunc("POST /api/v1/jobs/{job}/resume", s.steer(func(job string) (any, error) { return nil, s.Daemon.Resume(job) }))
	mux.HandleFunc("POST /api/v1/jobs/{job}/trigger", s.steer(s.trigger))
	mux.HandleFunc("POST /api/v1/reload", s.reload)
	mux.HandleFunc("GET /api/v1/spend", s.spend)
	mux.HandleFunc("POST /api/v1/spend/admit", s.admit)
	mux.HandleFunc("POST /api/v1/spend/events", s.events)
	mux.HandleFunc("POST /api/v1/spend/settle", s.settle)
	mux.HandleFunc("POST /api/v1/spend/release", s.release)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" {
			s.noRoute(w, r, mux)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// noRoute answers what no route does: 405 where another method would do, else 404.
func (s *server) noRoute(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern == "" || method == r.Method {
			continue
		}
		allow := method
		if method == http.MethodGet {
			allow = "GET, HEAD"
		}
		w.Header().Set("Allow", allow)
		s.fail(w, http.StatusMethodNotAllowed, "method "+quoted(r.Method)+" is not for this path; allowed: "+allow)
		return
	}
	s.fail(w, http.StatusNotFound, "there is nothing at "+quoted(r.URL.Path)+"; the page is at /, the API below /api/v1/")
}

func (s *server) healthy() error {
	if d, ok := s.Daemon.(interface{ Healthy() error }); ok {
		return d.Healthy()
	}
	return nil
}

// probeAnswer is the body of a probe.
type probeAnswer struct {
	Status string `json:"status"`
	Error  string `json:"error,omitzero"`
}

// probe answers with a word; who may ask for more is told what a check says, too.
func (s *server) probe(word string, check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(); err != nil {
			answer := probeAnswer{Status: "not " + word}
			if status, _ := s.refusal(s.accessOf(r), r); status == 0 {
				answer.Error = s.Redact(err.Error())
			}
			s.writeJSON(w, http.StatusServiceUnavailable, answer)
			return
		}
		s.writeJSON(w, http.StatusOK, probeAnswer{Status: word})
	}
}

// errNoSpend tells that no policy is declared.
var errNoSpend = errors.New("no SpendPolicy is declared, so there is nothing to admit")

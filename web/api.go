package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/plan/planjson"
	"github.com/tapyr/tapyr/spend/report"
)

// writeJSON writes a value: sorted keys, empty lists instead of null, one line for people. It is marshalled as a whole first, so
// that a failure does not become half an answer.
func (s *server) writeJSON(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value, json.Deterministic(true), jsontext.WithIndent("  "), jsontext.EscapeForHTML(true))
	if err != nil {
		s.Log.Error("an answer could not be written", "problem", s.Redact(err.Error()))
		status, text = http.StatusInternalServerError, []byte(`{"error":"a mistake in tapyr: this could not be written; the log says why","status":500}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // who has gone away does not need the answer
}

// failure is the body of an error.
type failure struct {
	Error  string `json:"error"`
	Status int    `json:"status"`
}

func (s *server) fail(w http.ResponseWriter, status int, why string) {
	s.writeJSON(w, status, failure{s.Redact(why), status})
}

// quoted is a text of a client in an answer: in quotes, and not longer than a line.
func quoted(text string) string {
	const most = 120
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strconv.QuoteToASCII(text)
}

// snapshot is the daemon's, without secrets, in UTC.
func (s *server) snapshot() *daemon.Snapshot {
	snapshot := s.Daemon.Snapshot()
	s.clean(&snapshot)
	return &snapshot
}

func (s *server) status(w http.ResponseWriter, r *http.Request) {
	snapshot := s.snapshot()
	if s.Spend != nil && len(s.Spend.Machines()) > 0 {
		reports, err := s.reports(r)
		if err != nil {
			s.spendFailed(w, err)
			return
		}
		snapshot.Spend = reports
	}
	s.writeJSON(w, http.StatusOK, snapshot)
}

// How long an answer waits for remedies: a program wants them, the page can be asked again.
const (
	remediesForPrograms = 20 * time.Second
	remediesForPage     = 300 * time.Millisecond
)

// remedies are those of a plan, as far as they are found in time.
func (s *server) remedies(ctx context.Context, of *plan.Plan, patience time.Duration) (remedies []plan.Remedy, ready bool) {
	d, ok := s.Daemon.(interface {
		Remedies(ctx context.Context, of *plan.Plan, patience time.Duration) ([]plan.Remedy, bool)
	})
	if !ok {
		return nil, true
	}
	return d.Remedies(ctx, of, patience)
}

func (s *server) plan(w http.ResponseWriter, r *http.Request) {
	snapshot := s.snapshot()
	if snapshot.Plan == nil {
		w.Header().Set("Retry-After", "1")
		s.fail(w, http.StatusServiceUnavailable, "there is no plan yet: the daemon is starting")
		return
	}
	remedies, ready := s.remedies(r.Context(), snapshot.Plan, remediesForPrograms)
	if !ready {
		w.Header().Set("Retry-After", "10") // the plan is there, and what would help is not yet
	}
	document := planjson.Of(snapshot.Plan, remedies)
	clean(&document, s.Redact)
	s.writeJSON(w, http.StatusOK, document)
}

// scopes can be asked for one provider, limit or key.
func (s *server) scopes(w http.ResponseWriter, r *http.Request) {
	snapshot, query := s.snapshot(), r.URL.Query()
	matches := func(name, value string) bool { return !query.Has(name) || query.Get(name) == value }
	answer := struct {
		At     time.Time           `json:"at"`
		Scopes []daemon.ScopeState `json:"scopes"`
	}{At: snapshot.At}
	for _, scope := range snapshot.Scopes {
		if matches("provider", scope.Provider) && matches("limit", scope.Limit) && matches("key", scope.Key) {
			answer.Scopes = append(answer.Scopes, scope)
		}
	}
	s.writeJSON(w, http.StatusOK, answer)
}

func (s *server) jobs(w http.ResponseWriter, _ *http.Request) {
	snapshot := s.snapshot()
	s.writeJSON(w, http.StatusOK, struct {
		At   time.Time         `json:"at"`
		Jobs []daemon.JobState `json:"jobs"`
	}{snapshot.At, snapshot.Jobs})
}

func (s *server) job(w http.ResponseWriter, r *http.Request) {
	if job := s.findJob(w, r); job != nil {
		s.writeJSON(w, http.StatusOK, job)
	}
}

// findJob is the job of the path; where there is none, it has answered and returns nil.
func (s *server) findJob(w http.ResponseWriter, r *http.Request) *daemon.JobState {
	name, snapshot := r.PathValue("job"), s.snapshot()
	for i := range snapshot.Jobs {
		if snapshot.Jobs[i].Job == name {
			return &snapshot.Jobs[i]
		}
	}
	s.fail(w, http.StatusNotFound, "there is no job "+quoted(name)+"; /api/v1/jobs lists them")
	return nil
}

// steer does something with a job and answers with what came of it; 204 where there is nothing to tell.
func (s *server) steer(do func(job string) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		job := r.PathValue("job")
		result, err := do(job)
		var missing *daemon.NoSuchJobError
		switch {
		case errors.As(err, &missing) && !missing.Silent:
			s.fail(w, http.StatusNotFound, "there is no job "+quoted(job)+"; /api/v1/jobs lists them")
			return
		case err != nil:
			s.fail(w, http.StatusConflict, err.Error())
			return
		}
		s.Log.Info("job steered", "path", r.URL.Path, "remote", r.RemoteAddr)
		if result == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		s.writeJSON(w, http.StatusOK, result)
	}
}

// triggered is the body of an answer to trigger.
type triggered struct {
	Instances int `json:"instances"`
}

func (s *server) trigger(job string) (any, error) {
	started, err := s.Daemon.Trigger(job)
	return triggered{started}, err
}

func (s *server) reload(w http.ResponseWriter, r *http.Request) {
	s.Daemon.Reload()
	s.Log.Info("reload asked for", "remote", r.RemoteAddr)
	w.WriteHeader(http.StatusAccepted)
}

// spendAnswer is the body of /api/v1/spend.
type spendAnswer struct {
	At       time.Time        `json:"at"`
	Policies []*report.Report `json:"policies"`
	// Unpublished are policies that are declared and have no version yet: they admit nothing.
	Unpublished []string `json:"unpublished,omitempty"`
}

func (s *server) spend(w http.ResponseWriter, r *http.Request) {
	answer := spendAnswer{At: s.snapshot().At}
	var err error
	if s.Spend != nil {
		if answer.Policies, err = s.reports(r); err != nil {
			s.spendFailed(w, err)
			return
		}
		answer.Unpublished = s.unpublished(answer.Policies)
	}
	s.writeJSON(w, http.StatusOK, answer)
}

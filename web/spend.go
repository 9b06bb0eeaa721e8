package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/report"
)

// Machine admits the paid calls of one policy. *spend.Machine is one; a daemon may put itself around it, to deliver at once what
// was admitted.
type Machine interface {
	Admit(ctx context.Context, now time.Time, a spend.Admission) (spend.Outcome, error)
	Settle(ctx context.Context, now time.Time, event string, actual book.Units) (spend.Outcome, error)
	Release(ctx context.Context, now time.Time, event, reason string) (spend.Outcome, error)
}

// Spend are paid calls: who admits them, and the book to report from.
type Spend interface {
	// Machines are those of the policies, by the policy's name. The map is not changed by the receiver.
	Machines() map[string]Machine
	// Report is where a policy stands.
	Report(ctx context.Context, now time.Time, policy string) (*report.Report, error)
}

// BookSpend is the Spend of a book: one spend.Machine for each policy, and nothing around it.
type BookSpend struct {
	store    book.Store
	machines map[string]Machine
}

// NewBookSpend makes machines for policies over a store, which stays the caller's to close.
func NewBookSpend(store book.Store, policies ...string) *BookSpend {
	b := &BookSpend{store, make(map[string]Machine)}
	for _, policy := range policies {
		b.machines[policy] = spend.New(store, policy)
	}
	return b
}

// Machines implements Spend.
func (b *BookSpend) Machines() map[string]Machine { return b.machines }

// Report implements Spend.
func (b *BookSpend) Report(ctx context.Context, now time.Time, policy string) (*report.Report, error) {
	return report.Make(ctx, b.store, policy, now)
}

// maxEvents bounds the events of one request: each is a transaction that is waited for.
const maxEvents = 1000

// reports are those of all policies, by name. A policy of which no version was published has none.
func (s *server) reports(r *http.Request) ([]*report.Report, error) {
	return s.reportsAt(r.Context(), s.Now())
}

func (s *server) reportsAt(ctx context.Context, now time.Time) ([]*report.Report, error) {
	reports := []*report.Report{}
	for _, policy := range slices.Sorted(maps.Keys(s.Spend.Machines())) {
		one, err := s.Spend.Report(ctx, now, policy)
		var none *spend.NoPolicyError
		if errors.As(err, &none) {
			continue
		}
		if err != nil {
			return nil, err
		}
		clean(one, s.Redact)
		reports = append(reports, one)
	}
	return reports, nil
}

// unpublished are the policies that are declared and have no report, because no version of them is published.
func (s *server) unpublished(reports []*report.Report) []string {
	if s.Spend == nil {
		return nil
	}
	var names []string
	for _, policy := range slices.Sorted(maps.Keys(s.Spend.Machines())) {
		if !slices.ContainsFunc(reports, func(r *report.Report) bool { return r.Policy == policy }) {
			names = append(names, policy)
		}
	}
	return names
}

// policyName is part of every body; it may be left out where there is one policy.
type policyName struct {
	Policy string `json:"policy"`
}

type admission struct {
	policyName
	spend.Admission
}

func (s *server) admit(w http.ResponseWriter, r *http.Request) {
	var body admission
	if machine := s.readSpend(w, r, &body, &body.policyName); machine != nil {
		outcome, err := machine.Admit(r.Context(), s.Now(), body.Admission)
		s.answerSpend(w, outcome, err)
	}
}

func (s *server) settle(w http.ResponseWriter, r *http.Request) {
	var body struct {
		policyName
		EventID string `json:"event_id"`
		// Actual is a string, or a number as it is written: a binary float would not be what was spent.
		Actual jsontext.Value `json:"actual"`
	}
	machine := s.readSpend(w, r, &body, &body.policyName)
	if machine == nil {
		return
	}
	actual, err := unitsOf(body.Actual)
	if err != nil {
		s.spendFailed(w, err)
		return
	}
	outcome, err := machine.Settle(r.Context(), s.Now(), body.EventID, actual)
	s.answerSpend(w, outcome, err)
}

// unitsOf is an amount as JSON: "2.50" or 2.50.
func unitsOf(value jsontext.Value) (book.Units, error) {
	text := string(value)
	switch value.Kind() {
	case '"':
		if err := json.Unmarshal(value, &text); err != nil {
			return book.Units{}, err
		}
	case '0':
	default:
		return book.Units{}, &bodyError{"\"actual\" is required: the amount that was spent, as \"2.50\""}
	}
	return book.ParseUnits(text)
}

func (s *server) release(w http.ResponseWriter, r *http.Request) {
	var body struct {
		policyName
		EventID string `json:"event_id"`
		Reason  string `json:"reason"`
	}
	if machine := s.readSpend(w, r, &body, &body.policyName); machine != nil {
		outcome, err := machine.Release(r.Context(), s.Now(), body.EventID, body.Reason)
		s.answerSpend(w, outcome, err)
	}
}

// readSpend reads a body of one object and finds its machine; where that fails it has answered and returns nil.
func (s *server) readSpend(w http.ResponseWriter, r *http.Request, body any, policy *policyName) Machine {
	if err := wantType(r, "application/json"); err != nil {
		s.spendFailed(w, err)
		return nil
	}
	if err := json.UnmarshalRead(r.Body, body, json.RejectUnknownMembers(true)); err != nil {
		s.spendFailed(w, unreadable(err))
		return nil
	}
	machine, err := s.machine(policy.Policy)
	if err != nil {
		s.spendFailed(w, err)
		return nil
	}
	return machine
}

// machine is that of a policy, which may be nameless where there is one.
func (s *server) machine(policy string) (Machine, error) {
	if s.Spend == nil {
		return nil, errNoSpend
	}
	machines := s.Spend.Machines()
	names := slices.Sorted(maps.Keys(machines))
	if len(names) == 0 {
		return nil, errNoSpend
	}
	if policy == "" && len(names) == 1 {
		policy = names[0]
	}
	if machine := machines[policy]; machine != nil {
		return machine, nil
	}
	return nil, &bodyError{fmt.Sprintf("\"policy\" is %s; there are %s", quoted(policy), strings.Join(names, ", "))}
}

// eventResult is what became of one event of several: a decision, or an error and its status.
type eventResult struct {
	EventID string         `json:"event_id"`
	Outcome *spend.Outcome `json:"outcome"`
	Error   string         `json:"error,omitzero"`
	Status  int            `json:"status"`
}

// events admits a stream of events, one JSON object after the other. Each is a transaction of its own: what was admitted stays,
// whatever the next one is, and the same request again changes nothing. The answer has a result for each event that was read; its
// status is 202 where all are durable, otherwise that of the first that is not, after which only events follow that could still
// be decided.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	if err := wantType(r, "application/json", "application/jsonl", "application/x-ndjson"); err != nil {
		s.spendFailed(w, err)
		return
	}
	answer := struct {
		Error  string        `json:"error,omitzero"`
		Status int           `json:"status"`
		Events []eventResult `json:"events"`
	}{Status: http.StatusAccepted}
	decoder := jsontext.NewDecoder(r.Body)
	for {
		result, err := s.nextEvent(r.Context(), decoder, len(answer.Events))
		if errors.Is(err, io.EOF) {
			break
		}
		result.Status = http.StatusAccepted
		if err != nil {
			result.Status, result.Error = spendStatus(err), s.Redact(err.Error())
			if answer.Error == "" {
				answer.Status, answer.Error = result.Status, fmt.Sprintf("event %d: %s", len(answer.Events)+1, result.Error)
			}
		}
		answer.Events = append(answer.Events, result)
		var broken *bodyError
		var storage *book.StorageError
		if errors.As(err, &broken) || errors.As(err, &storage) || errors.Is(err, errNoSpend) {
			break // nothing behind it can be read, or kept
		}
	}
	s.writeJSON(w, answer.Status, answer)
}

// nextEvent reads an event and admits it. io.EOF is the end of the stream.
func (s *server) nextEvent(ctx context.Context, decoder *jsontext.Decoder, before int) (eventResult, error) {
	var body admission
	if err := json.UnmarshalDecode(decoder, &body, json.RejectUnknownMembers(true)); err != nil {
		if errors.Is(err, io.EOF) && before > 0 {
			return eventResult{}, io.EOF
		}
		return eventResult{EventID: body.EventID}, unreadable(err)
	}
	result := eventResult{EventID: body.EventID}
	if before >= maxEvents {
		return result, &bodyError{fmt.Sprintf("more than %d events in one request; send the rest in another", maxEvents)}
	}
	machine, err := s.machine(body.Policy)
	if err != nil {
		return result, err
	}
	outcome, err := machine.Admit(ctx, s.Now(), body.Admission)
	if err == nil {
		result.Outcome = &outcome
	}
	return result, err
}

// bodyError is a body that cannot be understood.
type bodyError struct{ reason string }

func (e *bodyError) Error() string { return e.reason }

// mediaError is a body of a type that is not taken.
type mediaError struct{ got, want string }

func (e *mediaError) Error() string {
	return "content type " + quoted(e.got) + " is not taken; allowed: " + e.want
}

// unreadable is the error of a body that did not decode. Its text quotes no more of the body than where the mistake is.
func unreadable(err error) error {
	var large *http.MaxBytesError
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &large):
		return large
	case errors.Is(err, io.EOF), errors.As(err, &syntax) && syntax.ByteOffset == 0 && errors.Is(err, io.ErrUnexpectedEOF):
		return &bodyError{"the body is empty; send a JSON object"}
	case errors.As(err, &syntax):
		return &bodyError{fmt.Sprintf("the body is not JSON: %v at byte %d", syntax.Err, syntax.ByteOffset)}
	case errors.As(err, &semantic) && semantic.Err != nil:
		return &bodyError{fmt.Sprintf("the body is not what is expected at %s: %v", quoted(string(semantic.JSONPointer)), semantic.Err)}
	case errors.As(err, &semantic):
		return &bodyError{fmt.Sprintf("the body is not what is expected at %s: a JSON %s", quoted(string(semantic.JSONPointer)), semantic.JSONKind)}
	}
	return &bodyError{"the body could not be read"}
}

// wantType refuses bodies that do not say what they are: a form of another site's page could not say so.
func wantType(r *http.Request, allowed ...string) error {
	got := r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(got)
	if err != nil || !slices.Contains(allowed, media) {
		return &mediaError{got, strings.Join(allowed, ", ")}
	}
	return nil
}

func (s *server) answerSpend(w http.ResponseWriter, outcome spend.Outcome, err error) {
	if err != nil {
		s.spendFailed(w, err)
		return
	}
	s.writeJSON(w, http.StatusOK, outcome)
}

func (s *server) spendFailed(w http.ResponseWriter, err error) {
	status := spendStatus(err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	s.fail(w, status, err.Error())
}

// spendStatus is the status of an error of package spend, or of reading what it was asked.
func spendStatus(err error) int {
	var (
		input      *spend.InputError
		units      *book.UnitsError
		body       *bodyError
		media      *mediaError
		large      *http.MaxBytesError
		capability *spend.UnknownCapabilityError
		event      *spend.UnknownEventError
		policy     *spend.NoPolicyError
		settled    *spend.SettledError
		state      *book.StateError
		pruned     *spend.PrunedError
		storage    *book.StorageError
	)
	switch {
	case errors.As(err, &input), errors.As(err, &units), errors.As(err, &body):
		return http.StatusBadRequest
	case errors.As(err, &media):
		return http.StatusUnsupportedMediaType
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case errors.As(err, &capability), errors.As(err, &event), errors.Is(err, errNoSpend):
		return http.StatusNotFound
	case errors.As(err, &policy), errors.As(err, &settled), errors.As(err, &state):
		return http.StatusConflict
	case errors.As(err, &pruned):
		return http.StatusGone
	case errors.As(err, &storage) && storage.Full:
		return http.StatusInsufficientStorage
	}
	return http.StatusServiceUnavailable // the store is busy, broken or gone: nothing was kept, and it can be asked again
}

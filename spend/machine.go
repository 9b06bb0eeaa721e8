package spend

import (
	"context"
	"sync"
	"time"

	"github.com/tapyr/tapyr/spend/book"
)

// Machine decides for one policy over a store. Any number of machines, in any number of processes, may share a store. Its
// methods may be called from many goroutines at once.
type Machine struct {
	store  book.Store
	policy string
	// bare leaves everything out of the chain but the admissions' seven members, which is the form of the published vectors.
	bare bool

	// mu guards compiled, the versions that were read from the store: a version never changes, so none is read twice.
	mu       sync.Mutex
	compiled map[string]*Policy
}

// New makes a machine for the policy of this name. The store stays the caller's to close.
func New(store book.Store, policy string) *Machine {
	return &Machine{store: store, policy: policy, compiled: make(map[string]*Policy)}
}

// Rehearse makes a machine on a store of its own in which the policy is in force without approvals: for dry runs. It is the same
// machine; only nobody can spend by it.
func Rehearse(ctx context.Context, now time.Time, p *Policy) (*Machine, book.Store, error) {
	m := New(book.NewMemory(), p.Name)
	return m, m.store, m.rehearse(ctx, now, p)
}

func (m *Machine) rehearse(ctx context.Context, now time.Time, p *Policy) error {
	err := m.store.Update(ctx, func(tx book.Tx) error {
		s := &step{m: m, tx: tx, now: now}
		return s.activate(p, nil)
	})
	if err == nil {
		m.remember(p)
	}
	return err
}

// remember keeps a version that is stored: what is stored never changes.
func (m *Machine) remember(p *Policy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.compiled[p.Version] = p
}

// Decision is what was decided for an event.
type Decision struct {
	EventID     string           `json:"event_id"`
	Capability  string           `json:"capability"`
	Disposition book.Disposition `json:"disposition"`
	// Route is null where none was taken.
	Route *string `json:"route"`
	// ReservedUnits is the cost that was reserved; 0 without a route.
	ReservedUnits book.Units `json:"reserved_units"`
	// ActualUnits is what was really spent, once the event is settled; null before.
	ActualUnits   *book.Units `json:"actual_units,omitempty"`
	PolicyVersion string      `json:"policy_version"`
	PreviousHash  string      `json:"previous_hash"`
	// State is where the event stands now.
	State book.State `json:"state"`
	// At is when the decision was made, and EntryHash its entry in the chain.
	At        time.Time `json:"at"`
	EntryHash string    `json:"entry_hash"`
}

// Outcome is what a step came to.
type Outcome struct {
	// Decision is the one that holds for the event.
	Decision
	// Repeated tells that the step had been taken before and nothing was changed now.
	Repeated bool `json:"repeated,omitempty"`
	// Others are the decisions about other events that changed in the same step: they expired, or their turn came.
	Others []Decision `json:"others,omitempty"`
	// Crossed are the bands of the account's limit that were reached in the same step. Each is reported once in a window.
	Crossed []book.Crossing `json:"crossed,omitempty"`
}

// step is one transaction of a machine.
type step struct {
	m      *Machine
	tx     book.Tx
	now    time.Time
	policy *Policy
	// status is a copy that end stores where it changed.
	status  *book.Status
	changed bool
	// freed tells that units of the current window came back, so that deferred events may fit.
	freed   bool
	others  []Decision
	crossed []book.Crossing
}

// run takes a step: it lets time pass, does what the caller wants, offers what that made possible, and stores it all.
func (m *Machine) run(ctx context.Context, now time.Time, do func(*step) (Outcome, error)) (Outcome, error) {
	var out Outcome
	err := m.store.Update(ctx, func(tx book.Tx) error {
		s := &step{m: m, tx: tx, now: now.UTC()}
		out = Outcome{}
		if err := s.begin(); err != nil {
			return err
		}
		var err error
		if out, err = do(s); err != nil {
			return err
		}
		if s.freed {
			if err := s.offer(causeFreed); err != nil {
				return err
			}
		}
		out.Others, out.Crossed = s.others, s.crossed
		return s.end()
	})
	if err != nil {
		return Outcome{}, err
	}
	return out, nil
}

// begin loads where the policy stands and lets time pass.
func (s *step) begin() error {
	if err := s.load(); err != nil {
		return err
	}
	return s.advance()
}

// load reads where the policy stands.
func (s *step) load() error {
	record, err := s.tx.Get(book.StatusKey(s.m.policy))
	if err != nil {
		return err
	}
	if record == nil {
		return s.noPolicy()
	}
	s.status = record.(*book.Status)
	s.policy, err = s.m.version(s.tx, s.status.Active)
	return err
}

func (s *step) noPolicy() error {
	e := &NoPolicyError{Policy: s.m.policy}
	for r, err := range s.tx.List(book.KindStatus, "") {
		if err != nil {
			return err
		}
		e.Known = append(e.Known, r.Key().Policy)
	}
	return e
}

// version is a published version, ready to decide.
func (m *Machine) version(tx book.Tx, version string) (*Policy, error) {
	m.mu.Lock()
	p := m.compiled[version]
	m.mu.Unlock()
	if p != nil {
		return p, nil
	}
	record, err := tx.Get(book.VersionKey(m.policy, version))
	if err != nil {
		return nil, err
	}
	v, ok := record.(*book.Version)
	if !ok {
		return nil, &PolicyError{m.policy, version, "its content is not in the store"}
	}
	if p, err = restore(v); err != nil {
		return nil, err
	}
	if p.hash != v.Hash {
		return nil, &PolicyError{m.policy, version, "its stored content is not the one that was published: run \"tapyr spend verify\""}
	}
	m.remember(p)
	return p, nil
}

// edit is the status to change.
func (s *step) edit() *book.Status {
	if !s.changed {
		s.status, s.changed = s.status.Clone(), true
	}
	return s.status
}

func (s *step) end() error {
	if !s.changed {
		return nil
	}
	return s.tx.Put(s.status)
}

// Tick lets time pass: what is due expires, and where a window opened, deferred events are offered. Every other method does the
// same first, so Tick is for times when nothing else happens.
func (m *Machine) Tick(ctx context.Context, now time.Time) (Outcome, error) {
	return m.run(ctx, now, func(*step) (Outcome, error) { return Outcome{}, nil })
}

// Active is the version that decides, and where the policy stands, as a transaction of the machine's store sees it. The error is
// a *NoPolicyError where nothing was published.
func (m *Machine) Active(tx book.Tx) (*Policy, *book.Status, error) {
	s := &step{m: m, tx: tx}
	if err := s.load(); err != nil {
		return nil, nil, err
	}
	return s.policy, s.status, nil
}

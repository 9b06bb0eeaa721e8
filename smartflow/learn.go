package smartflow

import (
	"context"
	"errors"
	"strings"
)

// Learn takes in what a successful response to a GET teaches: which networks and
// devices belong to which organization. body is the response as encoding/json decodes
// it into an any; nil stands for none. The organization of the URL beats that of the
// body, and learning of an organization creates its bucket.
func (l *Limiter) Learn(url string, body any) {
	l.warning(l.learn(url, body))
}

// learn fails in the reference dialect only.
func (l *Limiter) learn(url string, body any) error {
	found := l.dialect.scan(url, false)
	org := found.org
	if org == "" {
		value := l.learner.bodyValue(body)
		id, ok, err := l.dialect.id(value)
		if err != nil && !isEmpty(value) {
			return err
		}
		if !ok || !l.dialect.usable(id) {
			return nil
		}
		org = id
	}
	l.register(org)
	var changed int64
	if found.network != "" {
		changed += l.set(l.networks, found.network, org)
	}
	if found.device != "" && l.dialect.teachesSerial(found.device) {
		changed += l.set(l.devices, found.device, org)
	}
	for _, found := range l.learner.bodyKeys(body) {
		id, ok, err := l.dialect.id(found.value)
		if err != nil {
			return err
		}
		if ok {
			changed += l.set(l.mapOf(found.kind), id, org)
		}
	}
	if changed == 0 {
		return nil
	}
	return l.learned(changed)
}

// isEmpty tells whether v is an array or an object without contents: nothing that
// the reference would try to use as a key.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

func (l *Limiter) mapOf(kind string) *table[orgEntry] {
	if kind == Network {
		return l.networks
	}
	return l.devices
}

// set stores a mapping and returns 1 if that changed anything, else 0.
func (l *Limiter) set(m *table[orgEntry], id, org string) int64 {
	to := l.orgOf(org)
	if m.get(id) == to || m.swap(strings.Clone(id), to) == to {
		return 0
	}
	l.changes.Add(1)
	return 1
}

// register sees to it that an organization has a bucket.
func (l *Limiter) register(org string) {
	l.bucketOf(l.orgOf(org), int64(l.clock.Monotonic()))
}

// RegisterOrg makes an organization known, with a full bucket.
func (l *Limiter) RegisterOrg(organization string) {
	if organization != "" || l.dialect.anyID {
		l.register(organization)
	}
}

// RegisterNetwork says that a network belongs to an organization. Registered
// mappings are stored with the others, but do not make a flush due. Empty
// identifiers are ignored.
func (l *Limiter) RegisterNetwork(id, organization string) {
	l.registerID(l.networks, id, organization)
}

// RegisterDevice says that the device with a serial belongs to an organization, as
// RegisterNetwork does for networks.
func (l *Limiter) RegisterDevice(serial, organization string) {
	l.registerID(l.devices, serial, organization)
}

func (l *Limiter) registerID(m *table[orgEntry], id, org string) {
	if (id != "" && org != "") || l.dialect.anyID {
		l.set(m, id, org)
	}
}

// flight is one look-up in progress, which later callers wait for.
type flight struct {
	done chan struct{}
	// aborted tells, once done is closed, that the look-up ended because the caller
	// that ran it went away. Another one has to take over.
	aborted bool
}

// within is the chain of look-ups that a context belongs to.
type within struct {
	key   Key
	outer *within
}

type withinKey struct{}

func (w *within) contains(key Key) bool {
	for ; w != nil; w = w.outer {
		if w.key == key {
			return true
		}
	}
	return false
}

// lookup asks the resolver for the organization of target, unless someone is asking
// already: then it waits for that answer. Only ctx makes it fail; a resolver that
// fails leaves target unknown. The caller finds the answer in the mappings.
func (l *Limiter) lookup(ctx context.Context, target Key) error {
	if l.resolver == nil || !target.scoped() {
		return nil
	}
	key := target
	if l.dialect.lookupByID {
		key.Kind = ""
	}
	outer, _ := ctx.Value(withinKey{}).(*within)
	if outer.contains(key) {
		return nil // the resolver asks about what it is resolving
	}
	for {
		l.mu.Lock()
		f, underway := l.flights[key]
		if !underway {
			f = &flight{done: make(chan struct{})}
			l.flights[key] = f
		}
		l.mu.Unlock()
		if !underway {
			l.fly(context.WithValue(ctx, withinKey{}, &within{key, outer}), key, target, f)
			return ctx.Err()
		}
		// Two look-ups that waited for each other would never end, so one within
		// another does not wait.
		if outer != nil {
			return nil
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !f.aborted {
			return nil
		}
	}
}

// fly runs the look-up f. It ends f even when the resolver panics.
func (l *Limiter) fly(ctx context.Context, key, target Key, f *flight) {
	defer func() {
		l.mu.Lock()
		delete(l.flights, key)
		l.mu.Unlock()
		f.aborted = ctx.Err() != nil
		close(f.done)
	}()
	org, err := l.resolver(ctx, target)
	if err != nil {
		l.lookupFailed(ctx, err)
		return
	}
	if org == "" {
		return
	}
	l.set(l.mapOf(target.Kind), target.ID, org)
	l.register(org)
	l.dirty.Add(1)
	if l.hydrator != nil && l.firstOf(org) {
		if err := l.hydrator(ctx, org); err != nil {
			// The mapping stays, and the organization counts as hydrated: a hydrator
			// that fails would fail again for each of its networks.
			l.lookupFailed(ctx, err)
			return
		}
	}
	l.warning(l.learned(0))
}

// lookupFailed passes the error of a callback on, unless it is only the caller's.
func (l *Limiter) lookupFailed(ctx context.Context, err error) {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		l.warning(err)
	}
}

// firstOf tells whether org is hydrated for the first time.
func (l *Limiter) firstOf(org string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hydrated[org] {
		return false
	}
	l.hydrated[org] = true
	return true
}

package smartflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// rig runs one sequence and notes what happens.
type rig struct {
	s       *sequence
	clock   *steppedClock
	dialect dialect
	file    cacheFile
	ttl     ttl
	limiter *Limiter
	calls   map[Key]int // calls of the resolver so far

	// What the current operation did.
	charges, resolved, hydrated []any
	lastOrg                     any
	saved                       string
}

func newRig(s *sequence, d dialect, file cacheFile) *rig {
	t0 := nanoseconds(*s.T0)
	r := &rig{
		s:       s,
		clock:   &steppedClock{now: t0, wall: epoch(*s.Wall0).Add(-time.Duration(t0)), advance: s.Sleep == "advance"},
		dialect: d,
		file:    file,
		ttl:     ttl{length: defaultTTL},
		calls:   make(map[Key]int),
	}
	return r
}

// setTTL takes a number of seconds, or null for a file that never expires.
func (r *rig) setTTL(text jsontext.Value) error {
	if text == nil {
		return nil
	}
	length, limited, err := numberOrNull("cache_ttl", text)
	r.ttl = ttl{length: duration(length), never: !limited}
	return err
}

// prepare makes what is there before the first limiter is.
func (r *rig) prepare() error {
	if r.s.CacheFile != nil {
		if err := r.file.write([]byte(*r.s.CacheFile)); err != nil {
			return err
		}
	}
	return r.setTTL(r.s.Config.CacheTTL)
}

// open makes a new limiter; on failure, the old one stays.
func (r *rig) open() error {
	rateOr := func(v *float64, byDefault float64) float64 {
		if v == nil {
			return byDefault
		}
		return *v
	}
	c := r.s.Config
	set := settings{
		orgRate: rateOr(c.Rate, defaultOrgRate), orgCapacity: rateOr(c.Capacity, defaultOrgRate),
		globalRate: rateOr(c.GlobalRate, defaultGlobalRate),
		ttl:        r.ttl, flushEvery: defaultFlushEvery, clock: r.clock, dialect: r.dialect,
		trace: &trace{charge: r.charge, save: func(result string) { r.saved = result }},
	}
	set.globalCapacity = math.Trunc(set.globalRate)
	if c.Cache {
		set.cache = r.file
	}
	if r.s.Resolver != nil {
		set.resolver = r.resolve
	}
	if r.s.Hydrator != nil {
		set.hydrator = r.hydrate
	}
	l, err := newLimiter(set)
	if err != nil {
		return err
	}
	r.limiter = l
	return nil
}

func (r *rig) charge(org string, global bool, res reservation) {
	kind, name := "org", jsonID(org)
	if global {
		kind, name = "global", nil
	} else {
		r.lastOrg = name
	}
	r.charges = append(r.charges, []any{kind, name, res.waitSeconds, res.tokensAfter})
}

var errRecorded = errors.New("the recording says that this fails")

func (r *rig) chargeGlobal(ctx context.Context, times int64) error {
	for range times {
		var res reservation
		r.limiter.reserve(r.limiter.global, "", r.clock.now, &res)
		if err := r.limiter.wait(ctx, r.limiter.global, &res); err != nil {
			return err
		}
	}
	return nil
}

// resolve plays the resolver: the n-th call for a key gets the n-th answer, and the
// last one is repeated.
func (r *rig) resolve(ctx context.Context, key Key) (string, error) {
	r.resolved = append(r.resolved, []any{key.Kind, key.ID})
	answers := r.s.Resolver.Network[key.ID]
	if key.Kind == Device {
		answers = r.s.Resolver.Device[key.ID]
	}
	if len(answers) == 0 {
		return "", nil
	}
	a := answers[min(r.calls[key], len(answers)-1)]
	r.calls[key]++
	if err := r.chargeGlobal(ctx, a.ChargeGlobal); err != nil {
		return "", err
	}
	if a.Reenter != nil {
		if err := r.limiter.Acquire(ctx, *a.Reenter); err != nil {
			return "", err
		}
	}
	if a.Fail {
		return "", errRecorded
	}
	if a.Org == nil { // null: it does not know
		return "", nil
	}
	return *a.Org, nil
}

func (r *rig) hydrate(ctx context.Context, org string) error {
	r.hydrated = append(r.hydrated, org)
	h := r.s.Hydrator[org]
	if err := r.chargeGlobal(ctx, h.ChargeGlobal); err != nil {
		return err
	}
	for _, id := range h.Networks {
		r.limiter.RegisterNetwork(id, org)
	}
	for _, id := range h.Devices {
		r.limiter.RegisterDevice(id, org)
	}
	if h.Fail {
		return errRecorded
	}
	return nil
}

// step does one operation and compares what happened.
func (r *rig) step(o *operation) error {
	if err := timeOf("t", *o.T); err != nil {
		return err
	}
	t := nanoseconds(*o.T)
	if t < r.clock.now {
		return fmt.Errorf("t is %v: the clock already shows %v", *o.T, seconds(r.clock.now))
	}
	r.clock.now = t
	r.charges, r.resolved, r.hydrated, r.lastOrg, r.saved = nil, nil, nil, nil, ""
	before := r.limiter
	networks, devices, buckets := pairsOf(before.networks), pairsOf(before.devices), before.buckets()
	exp, err := r.do(o)
	var unusable *inputError
	if errors.As(err, &unusable) {
		return err
	}
	if o.Op == "reopen" {
		if err != nil {
			exp = map[string]any{"raises": pythonName(err)}
		} else {
			exp = r.contents()
		}
		return compare("exp", inOrder(o.Exp), exp)
	}
	if err != nil {
		exp["raises"] = pythonName(err)
	}
	r.common(o, exp)
	note(exp, "networks", pairs(changed(networks, pairsOf(before.networks))))
	note(exp, "devices", pairs(changed(devices, pairsOf(before.devices))))
	var created []any
	for org := range before.buckets() {
		if _, existed := buckets[org]; !existed {
			created = append(created, jsonID(org))
		}
	}
	note(exp, "new_buckets", sorted(created))
	return compare("exp", inOrder(o.Exp), exp)
}

// note adds a list that is not empty.
func note(exp map[string]any, name string, list []any) {
	if len(list) > 0 {
		exp[name] = list
	}
}

// common adds what any operation may have done.
func (r *rig) common(o *operation, exp map[string]any) {
	note(exp, "charges", r.charges)
	note(exp, "resolver", r.resolved)
	note(exp, "hydrator", r.hydrated)
	if r.clock.now != nanoseconds(*o.T) {
		exp["t_end"] = seconds(r.clock.now)
	}
	switch o.Op {
	case "acquire", "learn", "save", "register_org", "register_network", "register_device":
		exp["dirty"] = float64(r.limiter.dirty.Load())
	}
	if r.saved == "" {
		return
	}
	exp["save"] = r.saved
	if r.saved != "ok" {
		return
	}
	savedAt, networks, devices := r.written()
	exp["saved_at"] = savedAt
	if o.Op == "save" {
		exp["file"] = map[string]any{"networks": networks, "devices": devices}
	} else {
		exp["saved_counts"] = []any{float64(len(networks)), float64(len(devices))}
	}
}

// inputError says that an operation cannot be done as it is written.
type inputError struct{ err error }

func (e *inputError) Error() string { return e.err.Error() }

// do does an operation and returns what only this operation has to tell.
func (r *rig) do(o *operation) (map[string]any, error) {
	l, exp := r.limiter, map[string]any{}
	var err error
	switch o.Op {
	case "acquire":
		err = l.Acquire(context.Background(), *o.URL)
		exp["org"] = r.lastOrg
	case "rate_limited":
		l.RateLimited(*o.URL, 0)
		r.rates(*o.URL, exp)
	case "success":
		l.Success(*o.URL)
		r.rates(*o.URL, exp)
	case "set_rate":
		b := l.global
		if org := plain(o.Org); org != nil {
			b = l.bucketOf(l.orgOf(l.dialect.value(org)), r.clock.now)
		}
		b.setRate(*o.Value)
		exp["rate"], _, _ = b.look()
	case "resolve":
		target := l.dialect.target(*o.URL)
		exp["org"], exp["scoped"] = l.resolved(target), target.scoped()
	case "learn":
		err = l.learn(*o.URL, plain(o.Body))
	case "register_org":
		l.RegisterOrg(l.dialect.value(plain(o.Org)))
	case "register_network":
		l.RegisterNetwork(l.dialect.value(plain(o.ID)), l.dialect.value(plain(o.Org)))
	case "register_device":
		l.RegisterDevice(l.dialect.value(plain(o.ID)), l.dialect.value(plain(o.Org)))
	case "save":
		err = l.Save()
	case "state":
		r.state(exp)
	default:
		err = r.surroundings(o)
	}
	return exp, err
}

// surroundings does the operations that are not about the limiter itself.
func (r *rig) surroundings(o *operation) error {
	switch o.Op {
	case "wall":
		if err := timeOf("add", *o.Add); err != nil {
			return &inputError{err}
		}
		r.clock.wall = r.clock.wall.Add(time.Duration(nanoseconds(*o.Add)))
	case "write_file":
		text, err := rawBytes(o.Raw)
		if err != nil {
			return &inputError{err}
		}
		return r.file.write(text)
	case "delete_file":
		return r.file.remove()
	case "fault":
		return r.file.setFault(*o.On)
	case "reopen":
		if err := r.setTTL(o.CacheTTL); err != nil {
			return &inputError{err}
		}
		return r.open()
	}
	return nil
}

// rates tells what the operations that adapt rates leave behind.
func (r *rig) rates(url string, exp map[string]any) {
	target := r.limiter.dialect.target(url)
	exp["org"], exp["org_rate"] = r.limiter.resolved(target), nil
	if b := r.limiter.existing(target); b != nil {
		exp["org_rate"], _, _ = b.look()
	}
	exp["global_rate"], _, _ = r.limiter.global.look()
}

// contents is what init and reopen tell.
func (r *rig) contents() map[string]any {
	l := r.limiter
	return map[string]any{"fresh": l.fresh, "networks": pairs(pairsOf(l.networks)), "devices": pairs(pairsOf(l.devices))}
}

// state is a snapshot of everything.
func (r *rig) state(exp map[string]any) {
	l := r.limiter
	row := func(b *bucket) []any {
		rate, tokens, last := b.look()
		return []any{rate, tokens, seconds(last)}
	}
	orgs := []any{}
	for org, b := range l.buckets() {
		orgs = append(orgs, append([]any{jsonID(org)}, row(b)...))
	}
	hydrated := []any{}
	for org := range l.hydrated {
		hydrated = append(hydrated, org)
	}
	exp["global"], exp["orgs"] = row(l.global), sorted(orgs)
	exp["networks_all"], exp["devices_all"] = pairs(pairsOf(l.networks)), pairs(pairsOf(l.devices))
	exp["dirty"], exp["fresh"], exp["hydrated"] = float64(l.dirty.Load()), l.fresh, sorted(hydrated)
}

// written reads the file back with the eyes of someone else.
func (r *rig) written() (savedAt any, networks, devices []any) {
	text, err := r.file.Load()
	if err != nil {
		return err.Error(), nil, nil
	}
	var file map[string]any
	if err := json.Unmarshal(text, &file); err != nil {
		return err.Error(), nil, nil
	}
	list := func(name, member string) []any {
		out := []any{}
		entries, _ := file[name].([]any)
		for _, entry := range entries {
			id, _ := memberOf(entry, member)
			org, _ := memberOf(entry, "organization")
			orgID, _ := memberOf(org, "id")
			out = append(out, []any{id, orgID})
		}
		return sorted(out)
	}
	return file["saved_at"], list("networks", "id"), list("devices", "serial")
}

// resolved is resolve_org as JSON.
func (l *Limiter) resolved(target Key) any {
	if org, ok := l.resolveID(target); ok {
		return jsonID(org)
	}
	return nil
}

// jsonID is an identifier of the reference dialect as a JSON value.
func jsonID(id string) any { return plain(jsontext.Value(reference.jsonOf(id))) }

// changed returns the entries of after that before does not have.
func changed(before, after map[string]string) map[string]string {
	out := map[string]string{}
	for id, org := range after {
		if was, existed := before[id]; !existed || was != org {
			out[id] = org
		}
	}
	return out
}

func asAny(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = jsonID(v)
	}
	return out
}

// pairs is a mapping as a sorted list.
func pairs(m map[string]string) []any {
	out := []any{}
	for id, org := range m {
		out = append(out, []any{jsonID(id), jsonID(org)})
	}
	return sorted(out)
}

// pythonName is the exception that the reference raises where this limiter returns
// err, for the sequences that recorded one.
func pythonName(err error) string {
	var cacheErr *CacheError
	switch {
	case errors.Is(err, errStalled):
		return "ZeroDivisionError"
	case errors.Is(err, errEncoding):
		return "UnicodeDecodeError"
	case errors.Is(err, errNoObject):
		return "AttributeError"
	case errors.Is(err, errUnhashable), errors.Is(err, errShape):
		return "TypeError"
	case errors.As(err, &cacheErr):
		return "FileExistsError"
	}
	return err.Error()
}

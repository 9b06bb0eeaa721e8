package smartflow

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// This file reads the form of recorded sequences; conform_rig.go runs them.

// sequence is one recording: a limiter, its surroundings, and what was done with it.
type sequence struct {
	ID        string         `json:"id"`
	Profile   string         `json:"profile"`
	Tags      []string       `json:"tags"`
	Config    sequenceConfig `json:"config"`
	Sleep     string         `json:"sleep"`
	T0        *float64       `json:"t0"`
	Wall0     *float64       `json:"wall0"`
	CacheFile *string        `json:"cache_file"`
	Resolver  *struct {
		Network map[string][]answer `json:"network"`
		Device  map[string][]answer `json:"device"`
	} `json:"resolver"`
	Hydrator map[string]hydration `json:"hydrator"`
	Init     map[string]any       `json:"init"`
	Ops      []jsontext.Value     `json:"ops"`
}

type sequenceConfig struct {
	Rate       *float64       `json:"rate"`
	Capacity   *float64       `json:"capacity"`
	GlobalRate *float64       `json:"global_rate"`
	Cache      bool           `json:"cache"`
	CacheTTL   jsontext.Value `json:"cache_ttl"` // null = never expires
}

// answer is what the resolver does when it is called.
type answer struct {
	ChargeGlobal int64   `json:"charge_global"`
	Reenter      *string `json:"reenter"`
	Fail         bool    `json:"fail"`
	Org          *string `json:"org"`
}

// hydration is what the hydrator does for an organization.
type hydration struct {
	ChargeGlobal int64    `json:"charge_global"`
	Networks     []string `json:"networks"`
	Devices      []string `json:"devices"`
	Fail         bool     `json:"fail"`
}

// operation is one step. Which inputs it has depends on its op.
type operation struct {
	Op       string         `json:"op"`
	T        *float64       `json:"t"`
	URL      *string        `json:"url"`
	Org      jsontext.Value `json:"org"`
	ID       jsontext.Value `json:"id"`
	Value    *float64       `json:"value"`
	Body     jsontext.Value `json:"body"`
	Add      *float64       `json:"add"`
	Raw      jsontext.Value `json:"raw"`
	On       *bool          `json:"on"`
	CacheTTL jsontext.Value `json:"cache_ttl"`
	Exp      map[string]any `json:"exp"`
}

// inputs returns the names of the inputs that are present.
func (o *operation) inputs() []string {
	var names []string
	for name, present := range map[string]bool{
		"url": o.URL != nil, "org": o.Org != nil, "id": o.ID != nil, "value": o.Value != nil,
		"body": o.Body != nil, "add": o.Add != nil, "raw": o.Raw != nil, "on": o.On != nil,
		"cache_ttl": o.CacheTTL != nil,
	} {
		if present {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// opInputs are the inputs of each operation, sorted. The one that reopen has may be
// left out.
var opInputs = map[string][]string{
	"acquire": {"url"}, "rate_limited": {"url"}, "success": {"url"}, "resolve": {"url"},
	"set_rate": {"org", "value"}, "learn": {"body", "url"},
	"register_org": {"org"}, "register_network": {"id", "org"}, "register_device": {"id", "org"},
	"save": {}, "wall": {"add"}, "write_file": {"raw"}, "delete_file": {}, "fault": {"on"},
	"reopen": {"cache_ttl"}, "state": {},
}

func (o *operation) check() error {
	want, known := opInputs[o.Op]
	switch {
	case o.Op == "":
		return missing("op")
	case !known:
		return fmt.Errorf("unknown op %q: the ops are %v", o.Op, slices.Sorted(maps.Keys(opInputs)))
	case o.T == nil:
		return missing("t")
	case o.Exp == nil:
		return missing("exp")
	}
	got := o.inputs()
	if o.Op == "reopen" && len(got) == 0 {
		return nil
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("op %s has the inputs %v: it must have %v", o.Op, got, want)
	}
	return nil
}

func (s *sequence) check() error {
	switch {
	case s.ID == "":
		return missing("id")
	case s.T0 == nil || s.Wall0 == nil:
		return missing("t0 or wall0")
	case s.Init == nil:
		return missing("init")
	case s.Sleep != "advance" && s.Sleep != "frozen":
		return fmt.Errorf("sleep is %q: it must be advance or frozen", s.Sleep)
	case !slices.Contains([]string{"core", "conflict", "quirk"}, s.Profile):
		return fmt.Errorf("profile is %q: it must be core, conflict or quirk", s.Profile)
	case len(s.Ops) == 0:
		return missing("ops")
	}
	if s.Resolver != nil {
		for _, ids := range []map[string][]answer{s.Resolver.Network, s.Resolver.Device} {
			for id, answers := range ids {
				for i, a := range answers {
					if err := timesOf(fmt.Sprintf("resolver: %s[%d]", id, i), a.ChargeGlobal); err != nil {
						return err
					}
				}
			}
		}
	}
	for org, h := range s.Hydrator {
		if err := timesOf("hydrator: "+org, h.ChargeGlobal); err != nil {
			return err
		}
	}
	return errors.Join(timeOf("t0", *s.T0), epochOf("wall0", *s.Wall0))
}

// mostCharges is how often a callback may charge the global bucket: far more than any
// callback sends requests, and little enough to be done.
const mostCharges = 10_000

func timesOf(where string, n int64) error {
	if n < 0 || n > mostCharges {
		return fmt.Errorf("%s: charge_global is %d: it must be between 0 and %d", where, n, mostCharges)
	}
	return nil
}

func (r *reporter) sequences(top map[string]jsontext.Value) {
	for name := range top {
		if !slices.Contains([]string{"$comment", "version", "seed", "source", "license", "sequences"}, name) {
			r.fail("", "unknown member %q beside the sequences", name)
		}
	}
	var list []jsontext.Value
	if err := jsonv2.Unmarshal(top["sequences"], &list); err != nil {
		r.fail("", "sequences: %v", readable(err))
		return
	}
	for i, text := range list {
		var s sequence
		err := strictly(text, &s)
		name := nameIn(text, "id")
		if name == "" {
			name = fmt.Sprintf("sequences[%d]", i)
		}
		if err == nil {
			err = s.check()
		}
		if err == nil {
			err = r.sequence(&s)
		}
		r.run(name, err)
	}
}

func (r *reporter) sequence(s *sequence) error {
	rig := newRig(s, r.dialect, r.newFile())
	if err := rig.prepare(); err != nil {
		return err
	}
	if err := rig.open(); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	if err := compare("init", inOrder(s.Init), rig.contents()); err != nil {
		return err
	}
	for i, text := range s.Ops {
		var o operation
		err := strictly(text, &o)
		if err == nil {
			err = o.check()
		}
		if err == nil {
			err = rig.step(&o)
		}
		if err != nil {
			op := nameIn(text, "op")
			if op == "" {
				return fmt.Errorf("ops[%d]: %w", i, err)
			}
			return fmt.Errorf("ops[%d] (%s): %w", i, op, err)
		}
	}
	return nil
}

// plain decodes a value that is known to be valid JSON.
func plain(text jsontext.Value) any {
	var v any
	if err := jsonv2.Unmarshal(text, &v); err != nil {
		return nil
	}
	return v
}

// nameIn reads a member that names what a failure is about, whatever is wrong with the
// others; empty if it is no string.
func nameIn(text jsontext.Value, member string) string {
	object, _ := plain(text).(map[string]any)
	name, _ := object[member].(string)
	return name
}

// rawBytes is the content of a write_file: text, or bytes in hexadecimal.
func rawBytes(text jsontext.Value) ([]byte, error) {
	switch raw := plain(text).(type) {
	case string:
		return []byte(raw), nil
	case map[string]any:
		if digits, ok := raw["hex"].(string); ok && len(raw) == 1 {
			return hex.DecodeString(digits)
		}
	}
	return nil, fmt.Errorf("raw is %s: it must be a text or {\"hex\": digits}", show(text))
}

// sets are the members of an expectation whose lists have no order.
var sets = []string{"networks", "devices", "new_buckets", "networks_all", "devices_all", "orgs", "hydrated"}

// inOrder sorts the lists of an expectation that are sets.
func inOrder(exp map[string]any) map[string]any {
	out := make(map[string]any, len(exp))
	for name, v := range exp {
		switch list := v.(type) {
		case []any:
			if slices.Contains(sets, name) {
				v = sorted(list)
			}
		case map[string]any:
			v = inOrder(list) // the file of a save
		}
		out[name] = v
	}
	return out
}

// sorted orders a list by the JSON text of its entries.
func sorted(list []any) []any {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b any) int { return slices.Compare(jsonText(a), jsonText(b)) })
	return out
}

func jsonText(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // what a decoder returned always marshals
		return nil
	}
	return text
}

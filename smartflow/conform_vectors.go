package smartflow

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// This file runs the form of vectors that is published with the specification: a
// section for each part of it, with independent cases.

// section is the frame of all of them; two have maps that all cases share.
type section struct {
	Comment      string            `json:"$comment"`
	NetworkToOrg map[string]string `json:"network_to_org"`
	SerialToOrg  map[string]string `json:"serial_to_org"`
	Cases        []jsontext.Value  `json:"cases"`
}

// heading is what cases of all sections have.
type heading struct {
	Name  string `json:"name"`
	Notes string `json:"notes"`
}

// vectorSections runs a case of each section.
var vectorSections = map[string]func(dialect, section, jsontext.Value) error{
	"token_bucket":             bucketCase,
	"rate_setter_floor":        floorCase,
	"resolve_org":              resolveCase,
	"is_unresolved_scoped_url": scopedCase,
	"aimd":                     aimdCase,
	"learn_from_response":      learnCase,
	"cache_freshness":          freshCase,
	"saved_at_format":          savedAtCase,
}

func sectionNames() []string { return slices.Sorted(maps.Keys(vectorSections)) }

func (r *reporter) vectors(top map[string]jsontext.Value) {
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if name == "$comment" || name == "version" {
			continue
		}
		run, known := vectorSections[name]
		if !known {
			r.fail(name, "unknown section; the sections are %v", sectionNames())
			continue
		}
		var s section
		if err := strictly(top[name], &s); err != nil {
			r.fail(name, "%v", err)
			continue
		}
		if (s.NetworkToOrg != nil || s.SerialToOrg != nil) && name != "resolve_org" {
			r.fail(name, "network_to_org and serial_to_org belong to resolve_org only")
		}
		if len(s.Cases) == 0 {
			r.fail(name, "no cases: the list cases is missing or empty")
		}
		for i, text := range s.Cases {
			r.run(caseName(name, i, text), run(r.dialect, s, text))
		}
	}
}

// caseName is what a case is called in the report.
func caseName(section string, i int, text jsontext.Value) string {
	name := nameIn(text, "name")
	if name == "" {
		return fmt.Sprintf("%s[%d]", section, i)
	}
	return section + "/" + name
}

// missing complains about a member that a case cannot do without.
func missing(name string) error { return fmt.Errorf("member %q is missing", name) }

// numberOrNull reads a member that is a number, or null for none.
func numberOrNull(name string, text jsontext.Value) (v float64, ok bool, err error) {
	switch v := plain(text).(type) {
	case float64:
		return v, true, nil
	case nil:
		return 0, false, nil
	}
	return 0, false, fmt.Errorf("%s is %s: it must be a number or null", name, text)
}

// compare is difference as an error.
func compare(name string, want, got any) error {
	if d := difference(name, want, got); d != "" {
		return errors.New(d)
	}
	return nil
}

// How far from 0 the times of a vector may be, in seconds: three centuries in
// nanoseconds nearly fill an int64, and days have dates for much longer.
const (
	longestSeconds = 9e9
	latestEpoch    = 1e11
)

// timeOf checks a time of the monotonic clock, or a length of time.
func timeOf(name string, s float64) error { return inBounds(name, s, longestSeconds) }

// epochOf checks a time of day.
func epochOf(name string, s float64) error { return inBounds(name, s, latestEpoch) }

func inBounds(name string, s, most float64) error {
	if math.Abs(s) <= most {
		return nil
	}
	return fmt.Errorf("%s is %v: it must be a number of seconds between -%v and %v", name, s, most, most)
}

// nanoseconds converts the seconds of a vector.
func nanoseconds(s float64) int64 {
	whole, part := math.Modf(s)
	return int64(whole)*int64(time.Second) + int64(math.Round(part*1e9))
}

// bench is a limiter with a clock that stands still.
func bench(d dialect, orgRate, globalRate float64) (*Limiter, error) {
	return newLimiter(settings{
		orgRate: orgRate, orgCapacity: defaultOrgRate,
		globalRate: globalRate, globalCapacity: math.Trunc(globalRate),
		flushEvery: defaultFlushEvery, clock: &steppedClock{}, dialect: d,
	})
}

func bucketCase(_ dialect, _ section, text jsontext.Value) error {
	var c struct {
		heading    `json:",inline"`
		Rate       *float64 `json:"rate"`
		Capacity   *float64 `json:"capacity"`
		InitTokens *float64 `json:"init_tokens"`
		InitLast   *float64 `json:"init_last"`
		Steps      []struct {
			Now         *float64 `json:"now"`
			TokensAfter *float64 `json:"tokens_after"`
			Wait        *float64 `json:"wait"`
		} `json:"steps"`
	}
	if err := strictly(text, &c); err != nil {
		return err
	}
	if c.Rate == nil || c.Capacity == nil || c.InitTokens == nil || c.InitLast == nil || len(c.Steps) == 0 {
		return missing("rate, capacity, init_tokens, init_last or steps")
	}
	if err := timeOf("init_last", *c.InitLast); err != nil {
		return err
	}
	b := newBucket(*c.Rate, *c.Capacity, nanoseconds(*c.InitLast))
	b.tokens = *c.InitTokens
	before := *c.InitLast
	for i, step := range c.Steps {
		if step.Now == nil || step.TokensAfter == nil || step.Wait == nil {
			return fmt.Errorf("steps[%d]: %w", i, missing("now, tokens_after or wait"))
		}
		at := fmt.Sprintf("steps[%d]", i)
		if err := timeOf(at+".now", *step.Now); err != nil {
			return err
		}
		if *step.Now < before {
			return fmt.Errorf("%s.now is %v: the clock already shows %v", at, *step.Now, before)
		}
		before = *step.Now
		var r reservation
		b.reserve(nanoseconds(*step.Now), &r)
		if err := compare(at+".tokens_after", *step.TokensAfter, r.tokensAfter); err != nil {
			return err
		}
		if err := compare(at+".wait", *step.Wait, r.waitSeconds); err != nil {
			return err
		}
	}
	return nil
}

func floorCase(_ dialect, _ section, text jsontext.Value) error {
	var c struct {
		heading  `json:",inline"`
		SetRate  *float64 `json:"set_rate"`
		Expected *float64 `json:"expected_rate"`
	}
	if err := strictly(text, &c); err != nil {
		return err
	}
	if c.SetRate == nil || c.Expected == nil {
		return missing("set_rate or expected_rate")
	}
	b := newBucket(defaultOrgRate, defaultOrgRate, 0)
	b.setRate(*c.SetRate)
	return compare("rate", *c.Expected, b.rate)
}

func resolveCase(d dialect, s section, text jsontext.Value) error {
	var c struct {
		heading  `json:",inline"`
		URL      *string        `json:"url"`
		Expected jsontext.Value `json:"expected_org"`
	}
	if err := strictly(text, &c); err != nil {
		return err
	}
	if c.URL == nil || c.Expected == nil {
		return missing("url or expected_org")
	}
	l, err := bench(d, defaultOrgRate, defaultGlobalRate)
	if err != nil {
		return err
	}
	for id, org := range s.NetworkToOrg {
		l.RegisterNetwork(id, org)
	}
	for id, org := range s.SerialToOrg {
		l.RegisterDevice(id, org)
	}
	return compare("org", plain(c.Expected), l.resolved(l.dialect.target(*c.URL)))
}

func scopedCase(d dialect, _ section, text jsontext.Value) error {
	var c struct {
		heading  `json:",inline"`
		URL      *string `json:"url"`
		Expected *bool   `json:"expected"`
	}
	if err := strictly(text, &c); err != nil {
		return err
	}
	if c.URL == nil || c.Expected == nil {
		return missing("url or expected")
	}
	return compare("scoped", *c.Expected, d.target(*c.URL).scoped())
}

func aimdCase(d dialect, _ section, text jsontext.Value) error {
	var c struct {
		heading       `json:",inline"`
		Op            string   `json:"op"`
		Target        string   `json:"target"`
		URL           *string  `json:"url"`
		OrgResolvable *bool    `json:"org_resolvable"`
		Configured    *float64 `json:"configured_rate"`
		Start         *float64 `json:"start_rate"`
		Expected      *float64 `json:"expected_rate"`
	}
	if err := strictly(text, &c); err != nil {
		return err
	}
	if c.Start == nil || c.Expected == nil {
		return missing("start_rate or expected_rate")
	}
	orgRate, globalRate := float64(defaultOrgRate), float64(defaultGlobalRate)
	url, rate := "/administered/identities/me", &globalRate
	if c.Target == "org" {
		url, rate = "/organizations/O_1/networks", &orgRate
	} else if c.Target != "global" {
		return fmt.Errorf("target is %q: it must be org or global", c.Target)
	}
	if c.Configured != nil {
		*rate = *c.Configured
	}
	if c.URL != nil {
		url = *c.URL
	}
	l, err := bench(d, orgRate, globalRate)
	if err != nil {
		return err
	}
	b := l.global
	if c.Target == "org" || (c.OrgResolvable != nil && *c.OrgResolvable) {
		target := l.dialect.target(url)
		l.registerID(l.mapOf(target.Kind), target.ID, "O_1")
		org, _ := l.resolveID(target)
		l.RegisterOrg(org)
		if c.Target == "org" {
			b = l.bucketOf(l.orgOf(org), 0)
		}
	}
	b.rate = *c.Start // not through the setter: a case may start below the floor
	switch c.Op {
	case "on_rate_limited":
		l.RateLimited(url, 0)
	case "on_success":
		l.Success(url)
	default:
		return fmt.Errorf("op is %q: it must be on_rate_limited or on_success", c.Op)
	}
	return compare("rate", *c.Expected, b.rate)
}

func learnCase(d dialect, _ section, text jsontext.Value) error {
	var c struct {
		heading         `json:",inline"`
		URL             *string           `json:"url"`
		Body            jsontext.Value    `json:"body"`
		NetworksBefore  map[string]string `json:"preexisting_network_to_org"`
		DevicesBefore   map[string]string `json:"preexisting_serial_to_org"`
		Networks        map[string]any    `json:"expected_network_to_org"`
		Devices         map[string]any    `json:"expected_serial_to_org"`
		ChangedNetworks *float64          `json:"changed_networks"`
		ChangedDevices  *float64          `json:"changed_devices"`
	}
	if err := strictly(text, &c); err != nil {
		return err
	}
	if c.URL == nil || c.Body == nil || c.Networks == nil || c.Devices == nil || c.ChangedNetworks == nil || c.ChangedDevices == nil {
		return missing("url, body, expected_network_to_org, expected_serial_to_org, changed_networks or changed_devices")
	}
	l, err := bench(d, defaultOrgRate, defaultGlobalRate)
	if err != nil {
		return err
	}
	for id, org := range c.NetworksBefore {
		l.RegisterNetwork(id, org)
	}
	for id, org := range c.DevicesBefore {
		l.RegisterDevice(id, org)
	}
	networks, devices := pairsOf(l.networks), pairsOf(l.devices)
	if err := l.learn(*c.URL, plain(c.Body)); err != nil {
		return err
	}
	changedNetworks := float64(len(changed(networks, pairsOf(l.networks))))
	changedDevices := float64(len(changed(devices, pairsOf(l.devices))))
	return errors.Join(
		compare("network_to_org", c.Networks, asAny(pairsOf(l.networks))),
		compare("serial_to_org", c.Devices, asAny(pairsOf(l.devices))),
		compare("changed_networks", *c.ChangedNetworks, changedNetworks),
		compare("changed_devices", *c.ChangedDevices, changedDevices),
		compare("dirty", *c.ChangedNetworks+*c.ChangedDevices, float64(l.dirty.Load())),
	)
}

func freshCase(d dialect, _ section, text jsontext.Value) error {
	var c struct {
		heading  `json:",inline"`
		Now      *float64       `json:"now"`
		SavedTS  jsontext.Value `json:"saved_ts"`
		TTL      jsontext.Value `json:"ttl"`
		Expected *bool          `json:"expected_fresh"`
	}
	if err := strictly(text, &c); err != nil {
		return err
	}
	if c.Now == nil || c.SavedTS == nil || c.TTL == nil || c.Expected == nil {
		return missing("now, saved_ts, ttl or expected_fresh")
	}
	savedTS, ok, err := numberOrNull("saved_ts", c.SavedTS)
	if err != nil {
		return err
	}
	length, limited, err := numberOrNull("ttl", c.TTL)
	if err != nil {
		return err
	}
	if err := errors.Join(epochOf("now", *c.Now), epochOf("saved_ts", savedTS)); err != nil {
		return err
	}
	fresh := d.fresh(epoch(savedTS), ok, epoch(*c.Now), ttl{length: duration(length), never: !limited})
	return compare("fresh", *c.Expected, fresh)
}

func savedAtCase(d dialect, _ section, text jsontext.Value) error {
	var c struct {
		heading  `json:",inline"`
		Value    jsontext.Value `json:"value"`
		Expected jsontext.Value `json:"expected_epoch"`
	}
	if err := strictly(text, &c); err != nil {
		return err
	}
	if c.Value == nil || c.Expected == nil {
		return missing("value or expected_epoch")
	}
	var got any
	if at, ok := d.savedAt(plain(c.Value)); ok {
		got = float64(at.Unix())
	}
	return compare("epoch", plain(c.Expected), got)
}

// epoch is the time of day of a vector.
func epoch(s float64) time.Time {
	whole, part := math.Modf(s)
	return time.Unix(int64(whole), int64(math.Round(part*1e9))).UTC()
}

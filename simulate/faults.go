package simulate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// Faults are what goes wrong on the vendor's side. The zero value is a vendor without faults, who answers after a millisecond.
// Parts are of all requests, from 0 to 1.
type Faults struct {
	// Latency is how long an answer takes, give or take Jitter. The limits count before it, and a slot is held during it.
	Latency, Jitter time.Duration
	// Errors is the part that is answered with 503, Resets the part whose connection breaks without an answer, Spurious the part
	// that is answered as rate limited though no limit was met.
	Errors, Resets, Spurious float64
	// Slow is the part whose answers take ten times as long.
	Slow float64
	// Missing is the part of answers without limit headers, Lying the part of those whose remaining units are made up, Curt the part
	// of refusals without Retry-After.
	Missing, Lying, Curt float64
	// External is how many requests a second another client sends with the same credentials.
	External float64
	// Skew is how far the vendor's clock is ahead of ours.
	Skew time.Duration
	// Pages is how many times more pages a run has than was estimated; 0 means 1.
	Pages float64
	// Changes are maxima and rates that the vendor replaces while things run.
	Changes []LimitChange
}

// fault is one field of Faults in words.
type fault struct {
	name string
	part func(*Faults) *float64 // for those that are parts of all requests
	set  func(*Faults, string) error
	text func(*Faults) string
	// clear takes it away, where it is not a part.
	clear func(*Faults)
}

// faultList are all faults but the changes, in the order in which they are written.
var faultList = []fault{
	{
		name: "latency", set: setLatency, text: latencyText,
		clear: func(f *Faults) { f.Latency, f.Jitter = 0, 0 },
	},
	{name: "errors", part: func(f *Faults) *float64 { return &f.Errors }},
	{name: "resets", part: func(f *Faults) *float64 { return &f.Resets }},
	{name: "spurious", part: func(f *Faults) *float64 { return &f.Spurious }},
	{name: "slow", part: func(f *Faults) *float64 { return &f.Slow }},
	{name: "missing", part: func(f *Faults) *float64 { return &f.Missing }},
	{name: "lying", part: func(f *Faults) *float64 { return &f.Lying }},
	{name: "curt", part: func(f *Faults) *float64 { return &f.Curt }},
	{
		name: "external", clear: func(f *Faults) { f.External = 0 },
		set: func(f *Faults, text string) error {
			rate, err := schema.ParseRate(text)
			if err == nil {
				f.External = rate.PerSecond()
			}
			return err
		},
		text: func(f *Faults) string {
			if f.External == 0 {
				return ""
			}
			return strconv.FormatFloat(f.External*3600, 'f', -1, 64) + "/h"
		},
	},
	{
		name: "skew", clear: func(f *Faults) { f.Skew = 0 },
		set: func(f *Faults, text string) error {
			digits, behind := strings.CutPrefix(text, "-")
			d, err := schema.ParseDuration(digits)
			f.Skew = time.Duration(d)
			if behind {
				f.Skew = -f.Skew
			}
			return err
		},
		text: func(f *Faults) string {
			if f.Skew == 0 {
				return ""
			}
			return schema.Duration(f.Skew).String()
		},
	},
	{
		name: "pages", clear: func(f *Faults) { f.Pages = 0 },
		set: func(f *Faults, text string) (err error) {
			f.Pages, err = strconv.ParseFloat(text, 64)
			if err == nil && !(f.Pages > 0 && f.Pages <= 1000) {
				err = fmt.Errorf("want a factor above 0 and at most 1000")
			}
			return err
		},
		text: func(f *Faults) string {
			if f.Pages == 0 || f.Pages == 1 {
				return ""
			}
			return strconv.FormatFloat(f.Pages, 'g', -1, 64)
		},
	},
}

func setLatency(f *Faults, text string) error {
	base, jitter, has := strings.Cut(strings.ReplaceAll(text, "+-", "±"), "±")
	d, err := schema.ParseDuration(base)
	if err != nil {
		return err
	}
	f.Latency, f.Jitter = time.Duration(d), 0
	if has {
		j, err := schema.ParseDuration(jitter)
		if err != nil {
			return err
		}
		if j > d {
			return fmt.Errorf("the jitter %s is longer than the latency %s", j, d)
		}
		f.Jitter = time.Duration(j)
	}
	return nil
}

func latencyText(f *Faults) string {
	switch {
	case f.Latency == 0:
		return ""
	case f.Jitter == 0:
		return schema.Duration(f.Latency).String()
	}
	return schema.Duration(f.Latency).String() + "±" + schema.Duration(f.Jitter).String()
}

// FaultNames lists what Set knows.
func FaultNames() []string {
	var names []string
	for _, f := range faultList {
		names = append(names, f.name)
	}
	return names
}

// Set sets one fault by its name: latency=50ms±20ms, external=30/m, skew=2s, pages=2, and parts such as errors=1% or errors=0.01.
func (f *Faults) Set(name, value string) error {
	at := slices.IndexFunc(faultList, func(x fault) bool { return x.name == name })
	if at < 0 {
		return fmt.Errorf("there is no fault %q: want %s%s", name, strings.Join(FaultNames(), ", "), schema.DidYouMean(name, FaultNames()))
	}
	one := faultList[at]
	if one.part == nil {
		if err := one.set(f, value); err != nil {
			return fmt.Errorf("%s=%s: %w", name, value, err)
		}
		return nil
	}
	digits, percent := strings.CutSuffix(value, "%")
	part, err := strconv.ParseFloat(digits, 64)
	if percent {
		part /= 100
	}
	if err != nil || !(part >= 0 && part <= 1) {
		return fmt.Errorf("%s=%s: want a part of all requests, such as 1%% or 0.01", name, value)
	}
	*one.part(f) = part
	return nil
}

// ParseFaults reads a list such as latency=50ms±20ms,errors=1%,external=30/m; what Set says holds for each. Limit changes stand in
// it as they are.
func ParseFaults(text string, begin time.Time) (Faults, error) {
	var f Faults
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		if strings.Contains(one, ":provider.") {
			c, err := ParseLimitChange(one, begin)
			if err != nil {
				return f, err
			}
			f.Changes = append(f.Changes, c)
			continue
		}
		name, value, _ := strings.Cut(one, "=")
		if err := f.Set(name, value); err != nil {
			return f, err
		}
	}
	return f, nil
}

// String writes the faults as ParseFaults reads them; "" for none.
func (f *Faults) String() string {
	var parts []string
	for _, one := range faultList {
		text := ""
		if one.part == nil {
			text = one.text(f)
		} else if p := *one.part(f); p > 0 {
			text = strconv.FormatFloat(p, 'g', -1, 64)
		}
		if text != "" {
			parts = append(parts, one.name+"="+text)
		}
	}
	for _, c := range f.Changes {
		parts = append(parts, c.String())
	}
	return strings.Join(parts, ",")
}

// RandomFaults draws the faults of one scenario: each is there or not, so that many scenarios have few of them.
func RandomFaults(config *validate.Config, duration time.Duration, r *rand.Rand) Faults {
	pick := func(list ...float64) float64 { return list[r.IntN(len(list))] }
	f := Faults{
		Latency: time.Duration(pick(1, 50, 300, 2000)) * time.Millisecond, Errors: pick(0, 0, 0.01, 0.1), Resets: pick(0, 0, 0, 0.02),
		Spurious: pick(0, 0, 0, 0.02), Slow: pick(0, 0, 0.05), Missing: pick(0, 0, 0.3, 1), Lying: pick(0, 0, 0, 0.05),
		Curt: pick(0, 0, 0.5), External: pick(0, 0, 0, 0.01, 0.1, 1), Pages: pick(1, 1, 1, 2, 5),
		Skew: time.Duration(pick(0, 0, 0, -2000, 700, 5000)) * time.Millisecond,
	}
	f.Jitter = f.Latency * time.Duration(r.IntN(10)) / 10
	for _, p := range config.Providers {
		for _, l := range p.Limits {
			maximum, _ := l.Max(nil)
			if l.Spec.Kind != schema.KindQuota || maximum < 2 || r.IntN(6) != 0 {
				continue
			}
			after := time.Duration(r.Int64N(int64(duration)/1e9+1)) * time.Second
			f.Changes = append(f.Changes, LimitChange{After: after, Provider: p.Name, Limit: l.Spec.Name, Max: maximum / 2})
		}
	}
	slices.SortStableFunc(f.Changes, func(a, b LimitChange) int { return cmp.Compare(a.After, b.After) })
	return f
}

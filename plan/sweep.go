package plan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tapyr/tapyr/schema"
)

// Variable is a figure of the documents that a sweep varies.
type Variable struct {
	// Path is fanout.JOB, provider.P.limits.L.max, account.A.budget.share or job.J.interval.
	Path string
	// MoreIsWorse tells that a larger value needs more of the budgets, as a fan-out does.
	MoreIsWorse bool
	// Step is the smallest change: 1, or 0.01 for shares.
	Step float64

	set func(in *Input, value float64)
}

// Sweep is a plan as a function of one figure.
type Sweep struct {
	Variable Variable
	Points   []SweepPoint
	// Fits is the largest value (the smallest, unless more is worse) with which the plan is feasible and keeps its promises;
	// NaN where none in the range does. Unstretched is the same for a plan without any stretch.
	Fits, Unstretched float64
}

// SweepPoint is the plan at one value.
type SweepPoint struct {
	Value float64
	// Feasible tells that no key is over its budget, Holds that every promise is kept, too.
	Feasible, Holds bool
	// Stretch is the largest of any job, and StretchByJob each one's.
	Stretch      float64
	StretchByJob map[string]float64
	// Headroom is the smallest of any scope.
	Headroom float64
}

// ParseSweep reads PATH=FROM..TO, such as fanout.meraki-networks=10..500 or job.devices.interval=1m..1h.
func ParseSweep(text string) (v Variable, from, to float64, err error) {
	path, span, found := strings.Cut(text, "=")
	first, last, dots := strings.Cut(span, "..")
	if !found || !dots {
		return v, 0, 0, fmt.Errorf("sweep %q: want PATH=FROM..TO, such as fanout.meraki-networks=10..500", text)
	}
	v, parse, err := parseVariable(path)
	if err != nil {
		return v, 0, 0, fmt.Errorf("sweep %q: %w", text, err)
	}
	if from, err = parse(first); err == nil {
		to, err = parse(last)
	}
	if err != nil {
		return v, 0, 0, fmt.Errorf("sweep %q: %w", text, err)
	}
	if to < from {
		return v, 0, 0, fmt.Errorf("sweep %q: %s is after %s; want FROM..TO in rising order", text, first, last)
	}
	return v, from, to, nil
}

func parseVariable(path string) (v Variable, parse func(string) (float64, error), err error) {
	parts := strings.Split(path, ".")
	v = Variable{Path: path, Step: 1}
	switch {
	case len(parts) == 2 && parts[0] == "fanout":
		v.MoreIsWorse = true
		v.set = func(in *Input, value float64) { in.Fanout[parts[1]] = int64(value) }
		return v, parseCount, nil
	case len(parts) == 5 && parts[0] == "provider" && parts[2] == "limits" && parts[4] == "max":
		v.set = func(in *Input, value float64) { in.Override.Max[parts[1]+"/"+parts[3]] = int64(value) }
		return v, parseCount, nil
	case len(parts) == 4 && parts[0] == "account" && parts[2] == "budget" && parts[3] == "share":
		v.Step = 0.01
		v.set = func(in *Input, value float64) { in.Override.Shares[parts[1]] = value }
		return v, parseShare, nil
	case len(parts) == 3 && parts[0] == "job" && parts[2] == "interval":
		v.set = func(in *Input, value float64) {
			in.Override.Intervals[parts[1]] = time.Duration(value * float64(time.Second))
		}
		return v, parseSeconds, nil
	}
	return v, nil, fmt.Errorf("cannot vary %q; want fanout.JOB, provider.P.limits.L.max, account.A.budget.share or job.J.interval", path)
}

func parseCount(s string) (float64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return float64(n), nil
}

func parseShare(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0 && f <= 1) {
		return 0, fmt.Errorf("%q is not a share above 0 and at most 1", s)
	}
	return f, nil
}

func parseSeconds(s string) (float64, error) {
	d, err := schema.ParseDuration(s)
	if err == nil && d <= 0 {
		err = fmt.Errorf("an interval must be above 0")
	}
	return d.Or(0).Seconds(), err
}

// Run plans at evenly spaced values from first to last, and finds by bisection where the plan begins or ceases to fit. progress,
// if not nil, is called after each plan.
func (v Variable) Run(in Input, from, to float64, points int, progress func()) *Sweep {
	at := func(value float64) *Plan {
		changed := in
		changed.Override = in.Override.clone()
		changed.Fanout = cloneMap(in.Fanout)
		v.set(&changed, value)
		p := newProblem(changed)
		p.solve()
		if progress != nil {
			progress()
		}
		return p.result()
	}
	s := &Sweep{Variable: v}
	for _, value := range v.values(from, to, points) {
		s.Points = append(s.Points, point(value, at(value)))
	}
	s.Fits = v.edge(s.Points, func(p SweepPoint) bool { return p.Holds }, func(value float64) bool { return at(value).Holds() })
	s.Unstretched = v.edge(s.Points, func(p SweepPoint) bool { return p.Holds && p.Stretch <= 1 },
		func(value float64) bool { p := at(value); return p.Holds() && p.maxStretch() <= 1 })
	return s
}

// values are the evenly spaced steps of the range, each once.
func (v Variable) values(from, to float64, points int) []float64 {
	var out []float64
	for i := range points {
		value := from
		if points > 1 {
			value += (to - from) * float64(i) / float64(points-1)
		}
		value = v.round(value)
		if len(out) == 0 || value > out[len(out)-1] {
			out = append(out, value)
		}
	}
	return out
}

// edge finds the last step that fits, or the first where more is better; NaN where no point does. What fits need not be in one
// piece: an interval can be too short for a quota and too long for a promise. So the search is between the outermost point that
// fits and its neighbour that does not.
func (v Variable) edge(points []SweepPoint, good func(SweepPoint) bool, fits func(float64) bool) float64 {
	inner, outer := -1, -1 // the outermost point that fits, and the next one outwards
	for n := range points {
		i, next := n, n-1
		if v.MoreIsWorse {
			i, next = len(points)-1-n, len(points)-n
		}
		if good(points[i]) {
			inner, outer = i, next
			break
		}
	}
	switch {
	case inner < 0:
		return math.NaN()
	case outer < 0 || outer >= len(points):
		return points[inner].Value // the end of the range
	}
	low, high := points[outer].Value, points[inner].Value
	steps := int64(math.Round(math.Abs(high-low) / v.Step))
	direction := math.Copysign(v.Step, high-low)
	n := smallest(0, steps, func(n int64) bool { return fits(v.round(low + float64(n)*direction)) })
	return v.round(low + float64(n)*direction)
}

// round takes a value to the nearest step. Dividing keeps 0.7 what a reader takes 0.7 for; multiplying by 0.01 would not.
func (v Variable) round(value float64) float64 {
	perUnit := math.Round(1 / v.Step)
	return math.Round(value*perUnit) / perUnit
}

func point(value float64, p *Plan) SweepPoint {
	out := SweepPoint{Value: value, Feasible: p.Feasible, Holds: p.Holds(), Stretch: p.maxStretch(), StretchByJob: make(map[string]float64), Headroom: 1}
	for _, j := range p.Jobs {
		out.StretchByJob[j.Job] = j.Stretch
	}
	for _, s := range p.Scopes {
		out.Headroom = min(out.Headroom, s.Headroom())
	}
	return out
}

func (p *Plan) maxStretch() float64 {
	most := 1.0
	for _, j := range p.Jobs {
		most = max(most, j.Stretch)
	}
	return most
}

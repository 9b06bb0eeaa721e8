// Package mapping turns answers into what the documents want kept: metric series and lines in files. What one run brings is
// gathered while it goes on, and published when it has all its pages: a run that fails publishes nothing, so that nobody takes a
// part for the whole.
package mapping

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/validate"
)

// DefaultMaxSeries is how many series the metrics of one job may have where it does not say.
const DefaultMaxSeries = 10_000

// Job is what the documents want kept of one job's answers, compiled. It is not changed, and may be used by many runs at once.
type Job struct {
	name      string
	maxSeries int
	metrics   []metric
	outputs   []output
	inventory *inventory
	// headers tells that an expression may look at an answer's headers.
	headers bool
}

// NeedsHeaders tells whether pages must have their headers.
func (j *Job) NeedsHeaders() bool { return j.headers }

type metric struct {
	name, kind, help string
	items            *expr.Program // nil: the response as a single item
	value            *expr.Program // nil: constant
	constant         float64
	labels           []string // sorted
	values           []*expr.Program
}

type inventory struct {
	items *expr.Program
	vars  map[string]*expr.Program
}

// Compile reads the expressions of a job. The error is an *expr.Error, which a valid configuration has not.
func Compile(j *validate.Job) (*Job, error) {
	out := &Job{name: j.Name, maxSeries: DefaultMaxSeries}
	if j.Spec.MaxSeries != nil {
		out.maxSeries = *j.Spec.MaxSeries
	}
	for i := range j.Spec.Metrics {
		spec := &j.Spec.Metrics[i]
		m := metric{name: spec.Name, kind: spec.Type, help: spec.Help}
		for _, text := range append(slices.Collect(maps.Values(spec.Labels)), spec.Items, spec.Value) {
			out.headers = out.headers || strings.Contains(text, "headers")
		}
		var err error
		if m.items, err = optional(expr.MetricItems, spec.Items); err != nil {
			return nil, err
		}
		if m.constant, err = strconv.ParseFloat(strings.TrimSpace(spec.Value), 64); err != nil {
			if m.value, err = optional(expr.MetricValue, spec.Value); err != nil {
				return nil, err
			}
		}
		if spec.Value == "" {
			m.constant = 1
		}
		for _, label := range slices.Sorted(maps.Keys(spec.Labels)) {
			program, err := expr.MetricLabel.Compile(spec.Labels[label])
			if err != nil {
				return nil, err
			}
			m.labels, m.values = append(m.labels, label), append(m.values, program)
		}
		out.metrics = append(out.metrics, m)
	}
	for _, spec := range j.Spec.Outputs {
		if spec.JSONL == nil {
			continue
		}
		items, err := optional(expr.OutputItems, spec.JSONL.Items)
		if err != nil {
			return nil, err
		}
		out.outputs = append(out.outputs, output{path: spec.JSONL.Path, items: items})
	}
	return out, out.compileInventory(j)
}

func (j *Job) compileInventory(from *validate.Job) (err error) {
	spec := from.Spec.Inventory
	if spec == nil {
		return nil
	}
	j.inventory = &inventory{vars: make(map[string]*expr.Program, len(spec.Vars))}
	if j.inventory.items, err = expr.InventoryItems.Compile(spec.Items); err != nil {
		return err
	}
	for name, text := range spec.Vars {
		if j.inventory.vars[name], err = expr.InventoryVar.Compile(text); err != nil {
			return err
		}
	}
	return nil
}

func optional(place *expr.Place, text string) (*expr.Program, error) {
	if text == "" {
		return nil, nil
	}
	return place.Compile(text)
}

// Page is one answer.
type Page struct {
	// Status and Headers are the answer's, the names in lower case; Body is decoded by expr.DecodeJSON. Headers may be nil where
	// NeedsHeaders says so.
	Status  int
	Headers map[string]string
	Body    any
	// Vars are the instance's and the account's variables.
	Vars map[string]string
	// Items are the page's, as its pagination finds them.
	Items []any
}

// Harvest is what one run has brought so far. It is for one goroutine.
type Harvest struct {
	// Items are the variables of each inventory item, Count the number of the pages' items.
	Items []map[string]string
	Count int64
	// Cut counts series that did not fit into the job's maximum. Failed counts items of which an expression made nothing; Err is
	// the first such failure.
	Cut, Failed int64
	Err         error

	job    *Job
	series map[string]*sample // by identity
	lines  []lines            // by output
}

// Begin begins a run.
func (j *Job) Begin() *Harvest {
	return &Harvest{job: j, series: make(map[string]*sample), lines: make([]lines, len(j.outputs))}
}

// Add takes in a page. The error is that of an expression about the whole page, an *expr.EvalError, and ends the run; an item that an
// expression cannot digest is left out and counted.
func (h *Harvest) Add(ctx context.Context, p *Page) error {
	h.Count += int64(len(p.Items))
	vars := map[string]any{"response": p.Body, "vars": p.Vars, "status": p.Status, "headers": p.Headers}
	for i := range h.job.metrics {
		if err := h.measure(ctx, &h.job.metrics[i], vars); err != nil {
			return err
		}
	}
	for i := range h.job.outputs {
		if err := h.write(ctx, i, p); err != nil {
			return err
		}
	}
	return h.list(ctx, p.Body)
}

// list adds the page's inventory items.
func (h *Harvest) list(ctx context.Context, body any) error {
	if h.job.inventory == nil {
		return nil
	}
	items, err := h.job.inventory.items.EvalList(ctx, map[string]any{"response": body})
	if err != nil {
		return err
	}
	for _, item := range items {
		vars := make(map[string]string, len(h.job.inventory.vars))
		for name, program := range h.job.inventory.vars {
			text, err := program.EvalText(ctx, map[string]any{"item": item})
			if err == nil && text == "" {
				err = fmt.Errorf("inventory.vars.%s: %s gives nothing for an item", name, program.Text())
			}
			if err != nil {
				// An inventory without some of its items would end the jobs that run over them.
				return err
			}
			vars[name] = text
		}
		h.Items = append(h.Items, vars)
	}
	return nil
}

// measure makes the samples of one metric.
func (h *Harvest) measure(ctx context.Context, m *metric, vars map[string]any) error {
	items := []any{vars["response"]}
	if m.items != nil {
		var err error
		if items, err = m.items.EvalList(ctx, vars); err != nil {
			return err
		}
	}
	for _, item := range items {
		vars["item"] = item
		one, err := m.sample(ctx, vars)
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case err != nil:
			h.fail(err)
		case one != nil:
			h.keep(one)
		}
	}
	delete(vars, "item")
	return nil
}

func (h *Harvest) fail(err error) {
	h.Failed++
	if h.Err == nil {
		h.Err = err
	}
}

// keep takes a sample; of several with one identity the last counts.
func (h *Harvest) keep(one *sample) {
	id := one.identity()
	if h.series[id] == nil && len(h.series) >= h.job.maxSeries {
		h.Cut++
		return
	}
	h.series[id] = one
}

// sample evaluates a metric for one item; nil where the value is null.
func (m *metric) sample(ctx context.Context, vars map[string]any) (*sample, error) {
	one := &sample{metric: m, value: m.constant, labels: make([]string, len(m.values))}
	if m.value != nil {
		value, ok, err := m.value.EvalNumber(ctx, vars)
		if err != nil || !ok {
			return nil, err
		}
		one.value = value
	}
	if m.kind == "counter" && (one.value < 0 || math.IsNaN(one.value)) {
		return nil, fmt.Errorf("metric %s: a counter cannot be %v", m.name, one.value)
	}
	for i, program := range m.values {
		text, err := program.EvalText(ctx, vars)
		if err != nil {
			return nil, err
		}
		one.labels[i] = strings.ToValidUTF8(text, "\uFFFD")
	}
	return one, nil
}

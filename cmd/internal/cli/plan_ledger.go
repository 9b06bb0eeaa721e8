package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

const (
	// historyRuns is how many of an instance's last runs say how many pages a run takes.
	historyRuns = 20
	// mostRuns bounds the runs that are read of one job.
	mostRuns = 20_000
	// latencySpan is the time before the present whose requests say how long one takes.
	latencySpan = 24 * time.Hour
)

// readPlanState reads what is known from running: a state file, or counters as "tapyr ledger export --what counters" writes them,
// which come from elsewhere and are returned as well.
func readPlanState(ctx context.Context, file string, config *validate.Config, now time.Time) (*plan.State, []foreignCounter, error) {
	isState, err := isStateFile(file)
	if err != nil {
		return nil, nil, err
	}
	if isState {
		state, err := readStateFile(ctx, file, config, now)
		return state, nil, err
	}
	state := &plan.State{}
	list := []foreignCounter{}
	err = ledger.ReadCounters(file, journal.Options{}, func(line int64, c *ledger.Counter) {
		state.Counters = append(state.Counters, planCounter(c))
		list = append(list, foreignCounter{*c, line})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("not counters as \"tapyr ledger export --what counters\" writes them: %w", err)
	}
	return state, list, nil
}

// isStateFile tells by the first bytes: https://www.sqlite.org/fileformat.html, "The Database Header".
func isStateFile(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, fmt.Errorf("cannot read %s: %w", file, cause(err))
	}
	defer func() { _ = f.Close() }() // it was only read
	head := make([]byte, 16)
	if _, err := io.ReadFull(f, head); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, fmt.Errorf("cannot read %s: %w", file, cause(err))
	}
	return bytes.Equal(head, []byte("SQLite format 3\x00")), nil
}

func planCounter(c *ledger.Counter) plan.Counter {
	return plan.Counter{
		Provider: c.Provider, Limit: c.Limit, Key: c.ScopeKey, Start: time.Unix(0, c.StartNanos).UTC(), End: time.Unix(0, c.EndNanos).UTC(),
		UsedUnits: c.Used, ObservedRemaining: c.ObservedRemaining, ObservedMax: c.ObservedMax, ObservedUsed: c.ObservedUsed,
	}
}

// readStateFile takes counters, inventories and history from a state file.
func readStateFile(ctx context.Context, file string, config *validate.Config, now time.Time) (state *plan.State, err error) {
	store, err := sqlite.Open(ctx, file, sqlite.Options{Mode: sqlite.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	state = &plan.State{}
	for c, err := range store.Counters(ctx, ledger.Interval{}) {
		if err != nil {
			return nil, err
		}
		state.Counters = append(state.Counters, planCounter(&c))
	}
	inventories, err := store.Inventories(ctx)
	if err != nil {
		return nil, err
	}
	state.Inventories = planInventories(inventories, config)
	state.History, err = planHistory(ctx, store, config, now)
	return state, err
}

// planInventories gives each item the variables of its ancestors. An inventory of an instance that the documents or its parent's
// inventory no longer have is left out.
func planInventories(list []ledger.Inventory, config *validate.Config) map[string][]map[string]string {
	s := schedule.New(config)
	for waiting := list; len(waiting) > 0; {
		var later []ledger.Inventory
		for _, inventory := range waiting {
			if instance := s.Instance(inventory.Instance); instance != nil {
				s.SetItems(instance, inventory.Items)
			} else {
				later = append(later, inventory) // its parent's may come behind it
			}
		}
		if len(later) == len(waiting) {
			break
		}
		waiting = later
	}
	return s.Inventories()
}

// planHistory is what the last good runs of each job took.
func planHistory(ctx context.Context, store ledger.Ledger, config *validate.Config, now time.Time) (map[string]plan.History, error) {
	latency, costs, err := lately(ctx, store, config, now)
	if err != nil {
		return nil, err
	}
	history := make(map[string]plan.History)
	for _, job := range config.Jobs {
		runs, err := store.Runs(ctx, job.Name, mostRuns)
		if err != nil {
			return nil, err
		}
		h := plan.History{RetryRatio: -1, LatencySeconds: latency[job.Name], Costs: costs[job.Name]}
		var pages []int64
		var all, requests int64
		seen := make(map[string]int)
		for i := range runs { // the latest first
			r := &runs[i]
			if r.Status != "ok" || seen[r.Instance] == historyRuns {
				continue
			}
			seen[r.Instance]++
			pages = append(pages, r.Pages)
			all += r.Pages
			requests += r.Requests
		}
		if len(pages) > 0 {
			h.PagesPerRun = median(pages)
		}
		if all > 0 {
			h.RetryRatio = float64(max(0, requests-all)) / float64(all)
		}
		if len(pages) > 0 || h.LatencySeconds > 0 || len(h.Costs) > 0 {
			history[job.Name] = h
		}
	}
	return history, nil
}

// median of a list that is not empty; of two in the middle their mean.
func median(list []int64) float64 {
	slices.SortFunc(list, cmp.Compare[int64])
	n := len(list)
	return float64(list[(n-1)/2]+list[n/2]) / 2
}

// lately is what the requests of each job took in the last day: their mean seconds, and the median units that responses told of the
// limits with costFrom.
func lately(ctx context.Context, store ledger.Ledger, config *validate.Config, now time.Time) (seconds map[string]float64, costs map[string]map[string]float64, err error) {
	sum, count := make(map[string]time.Duration), make(map[string]int64)
	units := make(map[string][]costSample)
	for _, job := range config.Jobs {
		if samples := costSamples(job); len(samples) > 0 {
			units[job.Name] = samples
		}
	}
	for row, err := range store.Journal(ctx, ledger.Interval{From: now.Add(-latencySpan), To: now}) {
		if err != nil {
			return nil, nil, err
		}
		if row.Job == "" || row.Status == 0 {
			continue
		}
		sum[row.Job] += row.Latency
		count[row.Job]++
		for i := range units[row.Job] {
			units[row.Job][i].take(&row)
		}
	}
	seconds = make(map[string]float64, len(sum))
	for job, total := range sum {
		seconds[job] = total.Seconds() / float64(count[job])
	}
	costs = make(map[string]map[string]float64, len(units))
	for job, samples := range units {
		for i := range samples {
			if s := &samples[i]; len(s.units) > 0 {
				if costs[job] == nil {
					costs[job] = make(map[string]float64)
				}
				costs[job][s.limit] = median(s.units)
			}
		}
	}
	return seconds, costs, nil
}

// mostCosts is of how many of the latest requests the median cost is taken.
const mostCosts = 10_000

// costSample collects what the responses to a job's requests told of one limit.
type costSample struct {
	limit string
	from  *schema.CostFrom
	units []int64
	next  int // where the next one goes once there are mostCosts
}

// costSamples are those of a job's limits whose costs are in responses.
func costSamples(job *validate.Job) (samples []costSample) {
	if job.Account == nil {
		return nil
	}
	for _, l := range job.Account.Provider.Limits {
		if l.Spec.CostFrom != nil {
			samples = append(samples, costSample{limit: l.Spec.Name, from: l.Spec.CostFrom})
		}
	}
	return samples
}

func (s *costSample) take(row *ledger.Row) {
	response := &engine.Response{Status: row.Status}
	for name, value := range row.Headers {
		response.Fields = append(response.Fields, engine.Field{Name: name, Value: value})
	}
	units, ok := response.Units(s.from)
	switch {
	case !ok:
	case len(s.units) < mostCosts:
		s.units = append(s.units, units)
	default:
		s.units[s.next] = units
		s.next = (s.next + 1) % mostCosts
	}
}

package cli

import (
	"strconv"
	"time"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/simulate"
)

type simulationJSON struct {
	From        *time.Time             `json:"from"`
	To          *time.Time             `json:"to"`
	Seed        uint64                 `json:"seed"`
	Faults      string                 `json:"faults"`
	Requests    int64                  `json:"requests"`
	Retries     int64                  `json:"retries"`
	Answers     map[string]int64       `json:"answers"`
	External    externalJSON           `json:"external"`
	Plans       int64                  `json:"plans"`
	Infeasible  int64                  `json:"infeasiblePlans"`
	Feasible    bool                   `json:"feasible"`
	Jobs        []simulatedJobJSON     `json:"jobs"`
	Waits       []simulatedWaitJSON    `json:"waits"`
	Refusals    []simulatedRefusalJSON `json:"refusals"`
	RateLimited []simulatedLimitedJSON `json:"rateLimited"`
	Quotas      []simulatedQuotaJSON   `json:"quotas"`
	Changes     []simulatedChangeJSON  `json:"changes"`
	Violations  []simulatedBreachJSON  `json:"violations"`
	Broken      int64                  `json:"violationCount"`
}

type externalJSON struct {
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"`
}

type simulatedJobJSON struct {
	Job             string  `json:"job"`
	Priority        string  `json:"priority"`
	Instances       int64   `json:"instances"`
	Runs            int64   `json:"runs"`
	Failed          int64   `json:"failed"`
	Missed          int64   `json:"missed"`
	Requests        int64   `json:"requests"`
	Retries         int64   `json:"retries"`
	PlannedRequests float64 `json:"plannedRequests"`
	DesiredSeconds  float64 `json:"desiredSeconds"`
	PlannedSeconds  float64 `json:"plannedSeconds"`
	MeanSeconds     float64 `json:"meanSeconds"`
	LongestSeconds  float64 `json:"longestSeconds"`
}

type simulatedWaitJSON struct {
	Priority       string  `json:"priority"`
	Requests       int64   `json:"requests"`
	Waited         int64   `json:"waited"`
	MeanSeconds    float64 `json:"meanSeconds"`
	MedianSeconds  float64 `json:"medianSeconds"`
	P95Seconds     float64 `json:"p95Seconds"`
	P99Seconds     float64 `json:"p99Seconds"`
	LongestSeconds float64 `json:"longestSeconds"`
}

type simulatedRefusalJSON struct {
	Reason   string `json:"reason"`
	Limit    string `json:"limit"`
	Priority string `json:"priority"`
	Requests int64  `json:"requests"`
}

type simulatedLimitedJSON struct {
	Provider string `json:"provider"`
	Limit    string `json:"limit"`
	Cause    string `json:"cause"`
	Answers  int64  `json:"answers"`
}

type simulatedQuotaJSON struct {
	Provider string               `json:"provider"`
	Limit    string               `json:"limit"`
	Key      string               `json:"key"`
	Points   []simulatedPointJSON `json:"points"`
}

type simulatedPointJSON struct {
	At       *time.Time `json:"at"`
	Used     int64      `json:"used"`
	External int64      `json:"external"`
	Usable   int64      `json:"usable"`
	Max      int64      `json:"max"`
}

type simulatedChangeJSON struct {
	At          *time.Time `json:"at"`
	Job         string     `json:"job"`
	FromSeconds float64    `json:"fromSeconds"`
	ToSeconds   float64    `json:"toSeconds"`
}

type simulatedBreachJSON struct {
	Invariant string     `json:"invariant"`
	At        *time.Time `json:"at"`
	Message   string     `json:"message"`
}

func simulationJSONOf(r *simulate.Report) simulationJSON {
	out := simulationJSON{
		From: instantOrNil(r.Start), To: instantOrNil(r.End), Seed: r.Seed, Faults: r.Faults.String(), Requests: r.Requests, Retries: r.Retries,
		Answers: map[string]int64{}, External: externalJSON{r.ExternalRequests, r.ExternalRefused}, Plans: r.Plans, Infeasible: r.Infeasible,
		Feasible: r.Last == nil || r.Last.Feasible, Broken: r.Broken,
	}
	for status, n := range r.Answers {
		out.Answers[strconv.Itoa(status)] = n
	}
	for _, j := range r.Jobs {
		out.Jobs = append(out.Jobs, simulatedJobJSON{
			j.Job, j.Priority, j.Instances, j.Runs, j.Failed, j.Missed, j.Requests, j.Retries, rounded(j.PlannedRequests),
			rounded(j.DesiredSeconds), rounded(j.PlannedSeconds), rounded(j.MeanSeconds), rounded(j.LongestSeconds),
		})
	}
	for _, w := range r.Waits {
		out.Waits = append(out.Waits, simulatedWaitJSON{
			w.Priority, w.Requests, w.Waited, rounded(w.Mean), rounded(w.Median), rounded(w.P95), rounded(w.P99), rounded(w.Longest),
		})
	}
	for _, x := range r.Refusals {
		out.Refusals = append(out.Refusals, simulatedRefusalJSON{string(x.Reason), x.Limit, x.Priority, x.Requests})
	}
	for _, x := range r.RateLimited {
		out.RateLimited = append(out.RateLimited, simulatedLimitedJSON{x.Provider, x.Limit, string(x.Cause), x.Answers})
	}
	for _, q := range r.Quotas {
		one := simulatedQuotaJSON{Provider: q.Provider, Limit: q.Limit, Key: q.Key}
		for _, p := range q.Points {
			one.Points = append(one.Points, simulatedPointJSON{instantOrNil(p.At), p.UsedUnits, p.ExternalUnits, p.UsableUnits, p.MaxUnits})
		}
		out.Quotas = append(out.Quotas, one)
	}
	for _, c := range r.Changes {
		out.Changes = append(out.Changes, simulatedChangeJSON{instantOrNil(c.At), c.Job, c.From.Seconds(), c.To.Seconds()})
	}
	for _, v := range r.Violations {
		out.Violations = append(out.Violations, breachJSON(v))
	}
	return out
}

func breachJSON(v simulate.Violation) simulatedBreachJSON {
	return simulatedBreachJSON{string(v.Invariant), instantOrNil(v.At), v.Message}
}

// simulationCSV has one row for each job.
func simulationCSV(r *simulate.Report) *table {
	t := &table{}
	for _, title := range []string{
		"job", "priority", "instances", "runs", "failed", "missed", "requests", "retries", "planned_requests",
		"desired_seconds", "planned_seconds", "mean_seconds", "longest_seconds",
	} {
		t.columns = append(t.columns, column{title: title})
	}
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, j := range r.Jobs {
		t.rows = append(t.rows, plain(j.Job, j.Priority, count(j.Instances), count(j.Runs), count(j.Failed), count(j.Missed), count(j.Requests),
			count(j.Retries), figure(j.PlannedRequests), figure(j.DesiredSeconds), figure(j.PlannedSeconds), figure(j.MeanSeconds), figure(j.LongestSeconds)))
	}
	return t
}

type huntJSON struct {
	Seed  uint64         `json:"seed"`
	Seeds int            `json:"seeds"`
	Found *huntFoundJSON `json:"found"`
}

type huntFoundJSON struct {
	Seed            uint64              `json:"seed"`
	Tried           int                 `json:"tried"`
	From            *time.Time          `json:"from"`
	DurationSeconds float64             `json:"durationSeconds"`
	Duration        string              `json:"duration"`
	Faults          string              `json:"faults"`
	Violation       simulatedBreachJSON `json:"violation"`
}

func huntJSONOf(s simulate.Scenario, n int, found *simulate.Found) huntJSON {
	out := huntJSON{Seed: s.Seed, Seeds: n}
	if found != nil {
		one := found.Scenario
		out.Found = &huntFoundJSON{
			Seed: one.Seed, Tried: found.Tried, From: instantOrNil(one.Start), DurationSeconds: one.Duration.Seconds(),
			Duration: schema.Duration(one.Duration).String(), Faults: one.Faults.String(), Violation: breachJSON(found.Violation),
		}
	}
	return out
}

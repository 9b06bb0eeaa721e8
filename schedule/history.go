package schedule

import (
	"maps"
	"slices"

	"github.com/tapyr/tapyr/plan"
)

// keptRuns is how many runs of a job a plan goes by.
const keptRuns = 20

// History remembers what the last 20 complete runs of each job took.
type History struct{ jobs map[string]*pastRuns }

type pastRuns struct {
	runs []pastRun // the oldest is replaced
	next int
}

type pastRun struct {
	requests, retries int
	latencyNanos      int64 // of all its requests
}

// NewHistory remembers nothing.
func NewHistory() *History { return &History{make(map[string]*pastRuns)} }

// Add takes down a run that has ended with all its pages, and the time that its requests took together.
func (h *History) Add(r *Run, latencyNanos int64) {
	past := h.jobs[r.Instance.Job.Name]
	if past == nil {
		past = &pastRuns{}
		h.jobs[r.Instance.Job.Name] = past
	}
	one := pastRun{r.Requests, r.Retries, latencyNanos}
	if len(past.runs) < keptRuns {
		past.runs = append(past.runs, one)
		return
	}
	past.runs[past.next] = one
	past.next = (past.next + 1) % keptRuns
}

// Keep forgets the jobs that keep does not name.
func (h *History) Keep(keep func(job string) bool) {
	maps.DeleteFunc(h.jobs, func(job string, _ *pastRuns) bool { return !keep(job) })
}

// Plan is the history as a plan takes it, by job.
func (h *History) Plan() map[string]plan.History {
	out := make(map[string]plan.History, len(h.jobs))
	for name, past := range h.jobs {
		var firsts, retries, requests int
		var latency int64
		pages := make([]int, len(past.runs))
		for i, r := range past.runs {
			pages[i] = r.requests - r.retries
			firsts += pages[i]
			retries += r.retries
			requests += r.requests
			latency += r.latencyNanos
		}
		if firsts == 0 {
			continue
		}
		slices.Sort(pages)
		middle := len(pages) / 2
		median := float64(pages[middle])
		if len(pages)%2 == 0 {
			median = (median + float64(pages[middle-1])) / 2
		}
		out[name] = plan.History{
			PagesPerRun: median, RetryRatio: float64(retries) / float64(firsts),
			LatencySeconds: float64(latency) / 1e9 / float64(requests),
		}
	}
	return out
}

package replay

import (
	"math/bits"
	"sort"
	"strings"

	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate"
)

// jobTally counts what a job did. What nearly every row counts stands side by side.
type jobTally struct {
	requests, retries, refused, rateLimited int64
	// pages counts the runs that took so many first attempts; the last element counts those that took more.
	pages     [1025]int64
	latency   latencies
	name      string
	account   string
	instances map[string]*instance
}

// instance is one instance of a job: the run that it is in.
//
// A journal does not say where a run begins. A first attempt that comes half an interval or more after the beginning of the
// instance's last run begins a new one: pages of one run follow each other, runs are an interval apart, and a plan only makes
// intervals longer.
type instance struct {
	began, half int64
	pages       int64
}

// jobTallies are those of all jobs that occur.
type jobTallies struct {
	config *validate.Config
	byName map[[2]string]*jobTally
}

func (t *jobTallies) of(job, account string) *jobTally {
	key := [2]string{job, account}
	j := t.byName[key]
	if j == nil {
		j = &jobTally{name: job, account: account, instances: make(map[string]*instance)}
		if t.byName == nil {
			t.byName = make(map[[2]string]*jobTally)
		}
		t.byName[key] = j
	}
	return j
}

// mostInstances bounds the instances whose runs are told apart, and with them the memory.
const mostInstances = 100_000

func (j *jobTally) instance(r *match.Request, job *validate.Job) *instance {
	key := journal.FormatRequest(&journal.Request{Target: r.Target, Vars: r.Vars})
	in := j.instances[key]
	if in == nil && len(j.instances) < mostInstances {
		in = &instance{began: noInstant, half: int64(job.Interval) / 2}
		j.instances[strings.Clone(key)] = in
	}
	return in
}

// granted counts a grant.
func (q *request) granted(s *side, now int64) {
	if q.use.series != nil {
		s.hour.count(&q.use)
		if q.more {
			for i := range q.moreUses {
				s.hour.count(&q.moreUses[i])
			}
		}
	}
	j := q.job
	if j == nil {
		return
	}
	j.requests++
	if q.retry {
		j.retries++
		return
	}
	in := q.instance
	if in == nil {
		return
	}
	if in.began == noInstant || now-in.began >= in.half {
		j.endRun(in)
		in.began = now
	}
	in.pages++
}

func (j *jobTally) endRun(in *instance) {
	if in.pages > 0 {
		j.pages[min(in.pages, int64(len(j.pages)-1))]++
	}
	in.pages = 0
}

// finish ends the runs that are not over.
func (t *jobTallies) finish() {
	for _, j := range t.byName {
		for _, in := range j.instances {
			j.endRun(in)
		}
	}
}

// medianPages is the median of the runs' first attempts, the lower of two; 0 where there was no run.
func (j *jobTally) medianPages() int64 {
	runs := int64(0)
	for _, n := range &j.pages {
		runs += n
	}
	seen := int64(0)
	for pages, n := range &j.pages {
		if seen += n; n > 0 && 2*seen >= runs {
			return int64(pages)
		}
	}
	return 0
}

// report lists the jobs by name and account.
func (t *jobTallies) report() []Job {
	var list []Job
	for _, j := range t.byName {
		out := Job{
			Job: j.name, Account: j.account, Requests: j.requests, Retries: j.retries, RateLimited: j.rateLimited, Refused: j.refused,
			PagesPerRun: float64(j.medianPages()), LatencyP50Seconds: j.latency.quantile(0.5), LatencyP95Seconds: j.latency.quantile(0.95),
		}
		if first := j.requests - j.retries; first > 0 {
			out.RetryRatio = float64(j.retries) / float64(first)
		}
		list = append(list, out)
	}
	sort.Slice(list, func(a, b int) bool {
		if list[a].Job != list[b].Job {
			return list[a].Job < list[b].Job
		}
		return list[a].Account < list[b].Account
	})
	return list
}

// latencies is a histogram whose cells are a 32nd of a power of two wide: quantiles are right to 3%, in 16 KiB.
type latencies struct{ cells [1920]int64 }

// subBits tells cells within one power of two apart.
const subBits = 5

// cellOf is the cell of a latency: its highest bit and the bits below it.
func cellOf(nanos int64) int {
	if nanos < 1<<subBits {
		return int(max(nanos, 0))
	}
	high := bits.Len64(uint64(nanos)) - 1
	return (high-subBits+1)<<subBits + int(nanos>>(high-subBits))&(1<<subBits-1)
}

// lowest is the smallest latency of a cell.
func lowest(cell int) int64 {
	if cell < 1<<subBits {
		return int64(cell)
	}
	return int64(1<<subBits+cell&(1<<subBits-1)) << (cell>>subBits - 1)
}

func (l *latencies) add(nanos int64) { l.cells[cellOf(nanos)]++ }

// quantile is in seconds, 0 where there are none; it is the middle of its cell.
func (l *latencies) quantile(p float64) float64 {
	total := int64(0)
	for _, n := range &l.cells {
		total += n
	}
	rank, seen := p*float64(total), int64(0)
	for cell, n := range &l.cells {
		if seen += n; n > 0 && float64(seen) >= rank {
			return (float64(lowest(cell)) + float64(lowest(cell+1))) / 2 / 1e9
		}
	}
	return 0
}

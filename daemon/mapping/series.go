package mapping

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sample is one value of one series.
type sample struct {
	metric *metric
	value  float64
	labels []string // values, in the order of the metric's labels
}

// identity is what tells a series from others: its name and labels.
func (s *sample) identity() string {
	var b strings.Builder
	b.WriteString(s.metric.name)
	for i, value := range s.labels {
		b.WriteByte(0)
		b.WriteString(s.metric.labels[i])
		b.WriteByte(1)
		b.WriteString(value)
	}
	return b.String()
}

// staleIntervals is after how many intervals without it a series is dropped.
const staleIntervals = 3

// Series holds the metric series of all jobs as they were last seen. It is a prometheus.Collector, and may be used by any goroutine.
type Series struct {
	now      func() time.Time
	interval func(job string) time.Duration

	mu     sync.Mutex // guards what follows
	series map[string]*kept
	perJob map[string]int
	cut    map[string]int64
}

type kept struct {
	sample
	job  string
	seen time.Time
}

// NewSeries holds nothing. interval is a job's present interval, 0 for a job that is gone.
func NewSeries(now func() time.Time, interval func(job string) time.Duration) *Series {
	return &Series{now: now, interval: interval, series: make(map[string]*kept), perJob: make(map[string]int), cut: make(map[string]int64)}
}

// Publish takes over what a run has brought.
func (s *Series) Publish(h *Harvest) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[h.job.name] += h.Cut
	ids := make([]string, 0, len(h.series))
	for id := range h.series {
		ids = append(ids, id)
	}
	slices.Sort(ids) // which of too many series are kept must not depend on chance
	for _, id := range ids {
		old := s.series[id]
		if old == nil || old.job != h.job.name {
			if s.perJob[h.job.name] >= h.job.maxSeries {
				s.cut[h.job.name]++
				continue
			}
			if old != nil {
				s.perJob[old.job]--
			}
			s.perJob[h.job.name]++
		}
		s.series[id] = &kept{*h.series[id], h.job.name, now}
	}
}

// Sweep drops the series that have not been seen for three intervals of their job, and those of jobs that are gone.
func (s *Series) Sweep() {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
}

// sweep requires mu.
func (s *Series) sweep(now time.Time) {
	for id, one := range s.series {
		if interval := s.interval(one.job); now.Sub(one.seen) > staleIntervals*interval {
			delete(s.series, id)
			s.perJob[one.job]--
		}
	}
}

// Keep forgets the series of jobs that keep does not name.
func (s *Series) Keep(keep func(job string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.series, func(_ string, one *kept) bool { return !keep(one.job) })
	maps.DeleteFunc(s.perJob, func(job string, _ int) bool { return !keep(job) })
	maps.DeleteFunc(s.cut, func(job string, _ int64) bool { return !keep(job) })
}

// Count tells how many series a job has, and how many did not fit.
func (s *Series) Count(job string) (series int, cut int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.perJob[job], s.cut[job]
}

// Describe implements prometheus.Collector. It describes nothing: which series there are depends on the answers.
func (s *Series) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *Series) Collect(out chan<- prometheus.Metric) {
	now := s.now()
	s.mu.Lock()
	s.sweep(now)
	all := make([]*kept, 0, len(s.series))
	for _, one := range s.series {
		all = append(all, one)
	}
	s.mu.Unlock()
	help := make(map[string]string) // two jobs may share a metric, but not its help
	slices.SortFunc(all, func(a, b *kept) int { return strings.Compare(a.job, b.job) })
	for _, one := range all {
		if _, ok := help[one.metric.name]; !ok {
			help[one.metric.name] = one.metric.help
		}
		kind := prometheus.GaugeValue
		if one.metric.kind == "counter" {
			kind = prometheus.CounterValue
		}
		desc := prometheus.NewDesc(one.metric.name, help[one.metric.name], one.metric.labels, nil)
		metric, err := prometheus.NewConstMetric(desc, kind, one.value, one.labels...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err)
		}
		out <- metric
	}
}

package engine

import (
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/validate/validatetest"
)

// memoryCases are kinds of keys to weigh: those of three limits, of a daily quota alone, and of quotas whose responses have taught
// each key its maximum and what remains. most is the bar; the last two are above that of design's 300, since nothing is shared by
// three.
var memoryCases = []struct {
	name, documents string
	response        *Response
	most            float64
}{
	{"three", benchDocuments, nil, 300},
	{"three, learned", syncedDocuments(benchDocuments), &taughtResponse, 300},
	{"quota", withoutLimits(benchDocuments, "rate", "slots"), nil, 300},
	{"quota, learned", withoutLimits(syncedDocuments(benchDocuments), "rate", "slots"), &taughtResponse, 450},
	{"rolling, learned", strings.Replace(withoutLimits(syncedDocuments(benchDocuments), "rate", "slots"), "period: day", "rolling: 24h", 1), &taughtResponse, 500},
}

var taughtResponse = Response{Status: 200, Fields: []Field{{"X-Limit", "5000"}, {"X-Left", "4000"}}}

// syncedDocuments let the quota read headers.
func syncedDocuments(documents string) string {
	return strings.Replace(documents, "period: day }", "period: day }, sync: { limitHeader: X-Limit, remainingHeader: X-Left }", 1)
}

// withoutLimits leaves limits out by their names.
func withoutLimits(documents string, names ...string) string {
	return regexp.MustCompile(`(?m)^    - \{ name: (`+strings.Join(names, "|")+`),.*\n`).ReplaceAllString(documents, "")
}

// Memory of a live key, opened by requests from strings. The bar is 300 bytes.
func BenchmarkKeyMemory(b *testing.B) {
	for _, c := range memoryCases {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				perKey, apart := keyMemory(b, c.documents, c.response)
				b.ReportMetric(perKey, "B/key")
				b.ReportMetric(apart, "B/key-apart")
			}
		})
	}
}

// keyMemory opens many keys and weighs them; apart are timelines, rolling cells and the log of the last 15 minutes.
func keyMemory(b testing.TB, documents string, response *Response) (perKey, apart float64) {
	const n = 100_000
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	e := New(validatetest.Config(b, documents), Options{})
	before := heap()
	for i := range n {
		q := benchRequest(i)
		q.Vars["organizationId"] = strings.Clone(q.Vars["organizationId"])
		t, _, err := e.ReserveRequest(benchStart, q, false, benchStart)
		if err != nil {
			b.Fatal(err)
		}
		if response != nil {
			e.Settle(benchStart+1e6, t, response)
		}
		e.Release(benchStart+1e6, t)
	}
	total := heap() - before
	aside := int64(len(e.recent.ring)) * 16
	e.eachQuota(func(_ *scope, c *coldScope) {
		aside += int64(cap(c.quota.timeline.slots)) * 12
		if c.quota.cells.len() > 0 {
			aside += int64(cap(c.quota.cells.list)) * 12
		}
		if response != nil && (c.quota.learned != 5000 || !c.quota.seen.held) {
			b.Fatal("a key has learned nothing")
		}
	})
	return float64(total-aside) / float64(e.Keys()), float64(aside) / float64(e.Keys())
}

func TestKeyMemory(t *testing.T) {
	for _, c := range memoryCases {
		if perKey, _ := keyMemory(t, c.documents, c.response); perKey > c.most || perKey < 100 {
			t.Errorf("%s: %.0f bytes a key, want at most %.0f", c.name, perKey, c.most)
		}
	}
}

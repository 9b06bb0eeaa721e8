package mapping

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// jobOf compiles a job with the spec given.
func jobOf(t testing.TB, name, spec string) *Job {
	t.Helper()
	docs, _ := schema.Decode("test.yaml", []byte(strings.ReplaceAll(validate.ExampleBase, "devices", name)))
	docs = docs[:2]
	more, _ := schema.Decode("job.yaml", []byte("apiVersion: tapyr/v1alpha1\nkind: Job\nmetadata: { name: "+name+" }\nspec:\n  account: main\n  interval: 1m\n  request: { endpoint: /x }\n"+spec))
	config, problems := validate.Check(append(docs, more...))
	if config == nil {
		t.Fatal(problems)
	}
	j, err := Compile(config.Jobs[0])
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func page(t testing.TB, body string) *Page {
	t.Helper()
	value, err := expr.DecodeJSON([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	items, _ := value.([]any)
	return &Page{Status: 200, Headers: map[string]string{"x-total": "9"}, Body: value, Vars: map[string]string{"site": "s1"}, Items: items}
}

func harvest(t testing.TB, j *Job, bodies ...string) *Harvest {
	t.Helper()
	h := j.Begin()
	for _, body := range bodies {
		if err := h.Add(t.Context(), page(t, body)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// clock is a present that tests move.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func newSeries(interval time.Duration) (*Series, *clock) {
	c := &clock{time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	return NewSeries(c.now, func(string) time.Duration { return interval }), c
}

// gathered is what a scrape sees.
func gathered(t testing.TB, s *Series) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			var words []string
			for _, name := range slices.Sorted(maps.Keys(labels)) {
				words = append(words, name+"="+labels[name])
			}
			value := m.GetGauge().GetValue()
			if m.GetCounter() != nil {
				value = m.GetCounter().GetValue()
			}
			out = append(out, fmt.Sprintf("%s %s{%s} %v %q", f.GetType(), f.GetName(), strings.Join(words, ","), value, f.GetHelp()))
		}
	}
	return out
}

func TestEveryKindOfMetric(t *testing.T) {
	j := jobOf(t, "devices", `  metrics:
  - { name: up, items: response, labels: { id: item.id, site: vars.site }, value: item.up, help: It is up. }
  - { name: bytes_total, type: counter, items: response, labels: { id: item.id }, value: item.bytes }
  - { name: device_info, type: info, items: response, labels: { id: item.id, model: item.model } }
  - { name: total, value: "double(headers['x-total'])" }
  - { name: maybe, items: response, labels: { id: item.id }, value: "has(item.temp) ? item.temp : null" }
`)
	s, _ := newSeries(time.Minute)
	s.Publish(harvest(t, j, `[{"id":1,"up":true,"bytes":12345678901234,"model":"m"},{"id":"two","up":"0.5","bytes":0,"model":"é","temp":20}]`))
	want := []string{
		`COUNTER bytes_total{id=1} 1.2345678901234e+13 ""`, `COUNTER bytes_total{id=two} 0 ""`,
		`GAUGE device_info{id=1,model=m} 1 ""`, `GAUGE device_info{id=two,model=é} 1 ""`,
		`GAUGE maybe{id=two} 20 ""`, `GAUGE total{} 9 ""`,
		`GAUGE up{id=1,site=s1} 1 "It is up."`, `GAUGE up{id=two,site=s1} 0.5 "It is up."`,
	}
	got := gathered(t, s)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An item that an expression makes nothing of is left out and counted, and the others stay.
func TestBadItemsAreLeftOutAndCounted(t *testing.T) {
	j := jobOf(t, "devices", `  metrics: [{ name: up, type: counter, items: response, labels: { id: item.id }, value: item.up }]
`)
	h := harvest(t, j, `[{"id":1,"up":1},{"id":2},{"up":1},{"id":3,"up":-1},{"id":4,"up":"x"}]`)
	if h.Failed != 4 || h.Err == nil || len(h.series) != 1 {
		t.Errorf("%d failed (%v), %d series", h.Failed, h.Err, len(h.series))
	}
	if err := j.Begin().Add(t.Context(), page(t, `{"a":1}`)); err == nil {
		t.Error("items of what is no list are no error")
	}
}

// A series is dropped when it was not seen for three intervals, and not before; a job that is gone loses its series at once.
func TestStaleSeriesAreDropped(t *testing.T) {
	j := jobOf(t, "devices", `  metrics: [{ name: up, items: response, labels: { id: item.id }, value: "1.0" }]
`)
	interval := time.Minute
	c := &clock{time.Unix(0, 0)}
	s := NewSeries(c.now, func(string) time.Duration { return interval })
	s.Publish(harvest(t, j, `[{"id":1},{"id":2}]`))
	c.Time = c.Add(2 * time.Minute)
	s.Publish(harvest(t, j, `[{"id":1}]`))
	c.Time = c.Add(time.Minute)
	if n := len(gathered(t, s)); n != 2 {
		t.Errorf("%d series after three intervals, want 2", n)
	}
	c.Time = c.Add(time.Nanosecond)
	if got := gathered(t, s); len(got) != 1 || !strings.Contains(got[0], "id=1") {
		t.Errorf("after more than three intervals: %q", got)
	}
	if n, _ := s.Count("devices"); n != 1 {
		t.Errorf("the job has %d series", n)
	}
	interval = 0
	s.Sweep()
	if n, _ := s.Count("devices"); n != 0 {
		t.Errorf("a job that is gone has %d series", n)
	}
}

func TestTooManySeriesAreCutAndCounted(t *testing.T) {
	j := jobOf(t, "devices", `  maxSeries: 3
  metrics: [{ name: up, items: response, labels: { id: item.id }, value: "1.0" }]
`)
	s, _ := newSeries(time.Minute)
	s.Publish(harvest(t, j, `[{"id":1},{"id":2}]`))
	s.Publish(harvest(t, j, `[{"id":3},{"id":4},{"id":5},{"id":6}]`))
	series, cut := s.Count("devices")
	if series != 3 || cut != 3 {
		t.Errorf("%d series and %d cut, want 3 and 3", series, cut)
	}
	if got := gathered(t, s); len(got) != 3 || !strings.Contains(got[2], "id=3") {
		t.Errorf("which are kept depends on chance: %q", got)
	}
}

// Two jobs may feed one metric; one that reports the other's series takes it over.
func TestJobsShareAMetric(t *testing.T) {
	spec := `  metrics: [{ name: up, items: response, labels: { id: item.id }, value: item.v }]
`
	s, _ := newSeries(time.Minute)
	s.Publish(harvest(t, jobOf(t, "one", spec), `[{"id":1,"v":1},{"id":2,"v":1}]`))
	s.Publish(harvest(t, jobOf(t, "two", spec), `[{"id":2,"v":7},{"id":3,"v":7}]`))
	if got := gathered(t, s); len(got) != 3 || !strings.Contains(strings.Join(got, " "), "id=2} 7") {
		t.Errorf("got %q", got)
	}
	one, _ := s.Count("one")
	two, _ := s.Count("two")
	if one != 1 || two != 2 {
		t.Errorf("one has %d, two has %d series", one, two)
	}
}

// Whatever the answers, the counts by job are those of the series that are there, and no job has more than it may.
func TestSeriesCounts(t *testing.T) {
	jobs := []*Job{
		jobOf(t, "one", "  maxSeries: 5\n  metrics: [{ name: up, items: response, labels: { id: item.id }, value: \"1.0\" }]\n"),
		jobOf(t, "two", "  maxSeries: 4\n  metrics: [{ name: up, items: response, labels: { id: item.id }, value: \"2.0\" }]\n"),
	}
	rapid.Check(t, func(rt *rapid.T) {
		s, c := newSeries(time.Minute)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			j := jobs[rapid.IntRange(0, 1).Draw(rt, "job")]
			var items []string
			for range rapid.IntRange(0, 6).Draw(rt, "items") {
				items = append(items, fmt.Sprintf(`{"id":%d}`, rapid.IntRange(0, 8).Draw(rt, "id")))
			}
			s.Publish(harvest(t, j, "["+strings.Join(items, ",")+"]"))
			c.Time = c.Add(time.Duration(rapid.IntRange(0, 200).Draw(rt, "seconds")) * time.Second)
			if rapid.Bool().Draw(rt, "sweep") {
				s.Sweep()
			}
			counts := make(map[string]int)
			for _, one := range s.series {
				counts[one.job]++
			}
			for _, j := range jobs {
				if n, _ := s.Count(j.name); n != counts[j.name] || n > j.maxSeries {
					rt.Fatalf("job %s counts %d series, has %d, may have %d", j.name, n, counts[j.name], j.maxSeries)
				}
			}
		}
	})
}

func TestInventoryIsAllOrNothing(t *testing.T) {
	j := jobOf(t, "sites", `  inventory: { items: response, vars: { id: item.id, name: item.name } }
`)
	h := harvest(t, j, `[{"id":1,"name":"a"}]`, `[{"id":2,"name":"b"}]`)
	if fmt.Sprint(h.Items) != "[map[id:1 name:a] map[id:2 name:b]]" || h.Count != 2 {
		t.Errorf("items %v, count %d", h.Items, h.Count)
	}
	for _, body := range []string{`[{"id":1,"name":"a"},{"id":2}]`, `[{"id":1,"name":""}]`, `{"x":1}`} {
		if err := j.Begin().Add(t.Context(), page(t, body)); err == nil {
			t.Errorf("%s: no error; jobs that run over the rest would end", body)
		}
	}
}

func TestFilesGetWholeLinesOnly(t *testing.T) {
	dir := t.TempDir()
	j := jobOf(t, "devices", `  outputs:
  - jsonl: { path: "`+dir+`/a/%Y%m%d-%H%%.jsonl" }
  - jsonl: { path: "`+dir+`/b.jsonl", items: "response.filter(i, i.id > 1)" }
`)
	at := time.Date(2026, 3, 4, 23, 30, 0, 0, time.FixedZone("", -3600)) // 00:30 UTC of the next day
	var f Files
	h := harvest(t, j, `[{"id":1,"z":null,"a":12345678901234567}]`, `[{"id":2}]`)
	if n, err := f.Publish(h, at); n != 3 || err != nil {
		t.Fatalf("%d lines, %v", n, err)
	}
	name := filepath.Join(dir, "a", "20260305-00%.jsonl")
	want := "{\"a\":12345678901234567,\"id\":1,\"z\":null}\n{\"id\":2}\n"
	if got := read(t, name); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// A crash has cut the last line.
	if err := os.WriteFile(name, []byte(want+`{"cut":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Publish(harvest(t, j, `[{"id":3}]`), at); err != nil {
		t.Fatal(err)
	}
	if got := read(t, name); got != want+"{\"id\":3}\n" {
		t.Errorf("after a cut line: %q", got)
	}
	// One file that cannot be written does not keep the others from being written.
	if err := os.Remove(filepath.Join(dir, "b.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "b.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Publish(harvest(t, j, `[{"id":4}]`), at); n != 1 || err == nil {
		t.Errorf("%d lines, %v; want one line and an error", n, err)
	}
}

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

package journal

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/golden"
)

// calls maps the cases' column of counts to a field that a row has.
func calls(t *testing.T) []Mapping {
	t.Helper()
	var out []Mapping
	for _, text := range []string{"ts=ts", "headers.calls=calls", "headers.note=note"} {
		m, err := ParseMapping(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func sum(t *testing.T, rows []Row) (total int) {
	t.Helper()
	for _, r := range rows {
		n, err := strconv.Atoi(r.Headers["calls"])
		if err != nil {
			t.Error(err)
		}
		total += n
	}
	return total
}

type counted struct{ Rows, Sum int }

func TestLG01ByteOrderMark(t *testing.T) {
	var in struct{ CSVBytes string }
	var want counted
	golden.Case(t, "LG-01", &in, &want)
	// The case writes three bytes in hexadecimal and then a quoted text.
	marks, text, _ := strings.Cut(in.CSVBytes, `"`)
	var content []byte
	for _, h := range strings.Fields(marks) {
		b, err := strconv.ParseUint(h, 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, byte(b))
	}
	content = append(content, strings.ReplaceAll(strings.TrimSuffix(text, `"`), `\n`, "\n")...)
	rows, stats := mustRead(t, Options{Map: calls(t)}, write(t, "j.csv", content))
	if len(rows) != want.Rows || sum(t, rows) != want.Sum || stats.BadRows != 0 {
		t.Errorf("%d rows, sum %d, %d bad; want %+v", len(rows), sum(t, rows), stats.BadRows, want)
	}
}

func TestLG02QuotedNewline(t *testing.T) {
	var in struct{ CSV string }
	var want struct {
		counted
		LastColumnHasNoCR bool
	}
	golden.Case(t, "LG-02", &in, &want)
	rows, stats := mustRead(t, Options{Map: calls(t)}, write(t, "j.csv", []byte(in.CSV)))
	if len(rows) != want.Rows || sum(t, rows) != want.Sum || stats.BadRows != 0 {
		t.Fatalf("%d rows, sum %d; want %+v", len(rows), sum(t, rows), want)
	}
	if lines := strings.Split(rows[0].Headers["note"], "\n"); len(lines) != 2 {
		t.Errorf("the note of row 1 is %q, which is not two lines", rows[0].Headers["note"])
	}
	if last := rows[1].Headers["note"]; want.LastColumnHasNoCR && last != "ok" {
		t.Errorf("the last column is %q", last)
	}
}

func TestLG06LongLine(t *testing.T) {
	var in struct{ JSONL string }
	var want counted
	golden.Case(t, "LG-06", &in, &want)
	if !strings.Contains(in.JSONL, "70000 x a") {
		t.Fatalf("the case has changed: %q", in.JSONL)
	}
	for _, length := range []int{70000, 3 << 20} { // the case, and more than a chunk
		content := fmt.Sprintf(`{"ts":1,"calls":1,"note":"%s"}`+"\n"+`{"ts":2,"calls":2}`+"\n"+`{"ts":3,"calls":4}`, strings.Repeat("a", length))
		rows, stats := mustRead(t, Options{Map: calls(t)}, write(t, "j.jsonl", []byte(content)))
		if len(rows) != want.Rows || sum(t, rows) != want.Sum || stats.BadRows != 0 {
			t.Errorf("%d rows, sum %d, %v; want %+v", len(rows), sum(t, rows), stats.Bad, want)
		}
	}
}

func TestLG07Duplicates(t *testing.T) {
	var in struct {
		Rows []struct {
			ID, Session string
			Out         int
		}
	}
	var want struct{ Sum int }
	golden.Case(t, "LG-07", &in, &want)
	var content []byte
	for i, r := range in.Rows {
		row := Row{ID: r.ID, At: start.Add(time.Duration(i)), Request: Request{Account: r.Session}, Headers: map[string]string{"calls": strconv.Itoa(r.Out)}}
		content = append(row.AppendJSON(content), '\n')
	}
	rows, stats := mustRead(t, Options{}, write(t, "j.jsonl", content))
	if got := sum(t, rows); got != want.Sum || stats.Duplicates != 1 {
		t.Errorf("sum %d, %d duplicates; want %d and 1", got, stats.Duplicates, want.Sum)
	}
}

func TestLG12TimesAreNotTexts(t *testing.T) {
	var in struct {
		Now     time.Time
		Rolling string
		Rows    []string
	}
	var want struct {
		Counted []bool
		Used    int
	}
	golden.Case(t, "LG-12", &in, &want)
	window, err := time.ParseDuration(in.Rolling)
	if err != nil {
		t.Fatal(err)
	}
	content := "ts\n" + strings.Join(in.Rows, "\n") + "\n"
	rows, _ := mustRead(t, Options{From: in.Now.Add(-window), To: in.Now}, write(t, "j.csv", []byte(content)))
	if len(rows) != want.Used {
		t.Errorf("%d rows are in the window, want %d", len(rows), want.Used)
	}
	for i, text := range in.Rows {
		at, err := ParseTime(text)
		if err != nil {
			t.Error(err)
		}
		if got := at.After(in.Now.Add(-window)); got != want.Counted[i] {
			t.Errorf("%q counts: %v, want %v", text, got, want.Counted[i])
		}
	}
}

func TestLG13AmbiguousHour(t *testing.T) {
	var in struct {
		Timezone string
		Rows     []string
	}
	var want struct{ UTC []string }
	golden.Case(t, "LG-13", &in, &want)
	zone, err := time.LoadLocation(in.Timezone)
	if err != nil {
		t.Fatal(err)
	}
	content := "ts,headers\n"
	for i, text := range in.Rows {
		content += fmt.Sprintf("%s,\"{\"\"calls\"\":\"\"%d\"\"}\"\n", text, i)
	}
	rows, stats := mustRead(t, Options{Zone: zone}, write(t, "j.csv", []byte(content)))
	if len(rows) != len(in.Rows) {
		t.Fatalf("%d rows of %d", len(rows), len(in.Rows))
	}
	if len(stats.Warnings) != 2 { // one for the hour that occurs twice, one for the one that does not occur
		t.Errorf("warnings: %q", stats.Warnings)
	}
	for _, r := range rows {
		i, _ := strconv.Atoi(r.Headers["calls"])
		got := r.At.Format("15:04Z")
		allowed := "06:30Z or 07:30Z"
		if i < len(want.UTC) {
			allowed = want.UTC[i]
		}
		if !strings.Contains(allowed, got) {
			t.Errorf("%q is %s, want %s", in.Rows[i], got, allowed)
		}
	}
}

func TestLG15Permutations(t *testing.T) {
	var in struct {
		Now  time.Time
		Rows [][2]any
	}
	var want struct{ UsedToday int }
	golden.Case(t, "LG-15", &in, &want)
	order := []int{0, 1, 2, 3}
	random := rand.New(rand.NewPCG(1, 1))
	for range 24 {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		var content []byte
		for _, i := range order {
			at, err := ParseTime(in.Rows[i][0].(string))
			if err != nil {
				t.Fatal(err)
			}
			row := Row{At: at, Headers: map[string]string{"calls": fmt.Sprint(in.Rows[i][1])}}
			content = append(row.AppendJSON(content), '\n')
		}
		rows, _ := mustRead(t, Options{From: in.Now.Truncate(24 * time.Hour)}, write(t, "j.jsonl", content))
		if got := sum(t, rows); got != want.UsedToday {
			t.Errorf("order %v: %d, want %d", order, got, want.UsedToday)
		}
	}
}

// TestGoldenJournals reads the journals of the golden files both ways.
func TestGoldenJournals(t *testing.T) {
	for _, name := range []string{"replay", "enforce", "engine"} {
		text, err := os.ReadFile("../../testdata/vectors/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Cases []struct{ Journal []string } }
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		lines, canonical := 0, 0
		s := &scanner{builder: builder{symbols: newSymbols()}}
		for _, c := range file.Cases {
			for _, line := range c.Journal {
				agree(t, s, []byte(line))
				s.misses = 0
				s.batch = &Batch{}
				if lines++; s.canonical([]byte(line), &Record{}) {
					canonical++
				}
			}
		}
		if lines == 0 || canonical*10 < lines*6 {
			t.Errorf("%s: only %d of %d lines are read the quickest way", name, canonical, lines)
		}
	}
}

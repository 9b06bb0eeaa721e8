package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"
)

// write makes a file.
func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readAll reads files to their end, starting anew where a row comes too late.
func readAll(t testing.TB, o Options, names ...string) ([]Row, Stats, error) {
	t.Helper()
	r, err := Open(names, o)
	if err != nil {
		return nil, Stats{}, err
	}
	defer r.Close()
	var rows []Row
	for {
		b, err := r.Next()
		var late *LateRowError
		switch {
		case errors.As(err, &late):
			if rows = nil; r.Restart() != nil {
				t.Fatal("cannot restart")
			}
			continue
		case errors.Is(err, io.EOF):
			return rows, r.Stats(), nil
		case err != nil:
			return rows, r.Stats(), err
		}
		for i := range b.Records {
			rows = append(rows, b.Row(&b.Records[i]))
		}
	}
}

func mustRead(t testing.TB, o Options, names ...string) ([]Row, Stats) {
	t.Helper()
	rows, stats, err := readAll(t, o, names...)
	if err != nil {
		t.Fatal(err)
	}
	return rows, stats
}

var start = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

// sample makes n rows, one a second.
func sample(n int) []Row {
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{
			ID: fmt.Sprintf("id-%06d", i), At: start.Add(time.Duration(i) * time.Second), Status: 200, Latency: 180 * time.Millisecond,
			Headers: map[string]string{"X-Left": fmt.Sprint(n - i)},
			Request: Request{Provider: "p", Account: "a", Method: "GET", Endpoint: "/o/{id}", Vars: map[string]string{"id": fmt.Sprint(i % 7)}, Job: "j"},
		}
	}
	return rows
}

func jsonl(rows []Row) []byte {
	var out []byte
	for i := range rows {
		out = append(rows[i].AppendJSON(out), '\n')
	}
	return out
}

func equalRows(t testing.TB, what string, got, want []Row) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d rows, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		if !got[i].Equal(&want[i]) {
			t.Errorf("%s: row %d:\n%s", what, i, cmp.Diff(want[i], got[i], cmpopts.EquateEmpty()))
			return
		}
	}
}

func encoded(t testing.TB, rows []Row, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, format)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := w.Write(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestFormats: every format and packing is told by its bytes, whatever the file is called.
func TestFormats(t *testing.T) {
	want := sample(3000)
	packings := map[string]func([]byte) []byte{
		"plain": func(b []byte) []byte { return b },
		"gzip": func(b []byte) []byte {
			var out bytes.Buffer
			w := gzip.NewWriter(&out)
			w.Write(b)
			w.Close()
			return out.Bytes()
		},
		"zstd": func(b []byte) []byte {
			w, _ := zstd.NewWriter(nil)
			return w.EncodeAll(b, nil)
		},
	}
	for _, format := range []string{"jsonl", "csv", "parquet"} {
		content := encoded(t, want, format)
		for packing, pack := range packings {
			path := write(t, "journal.bin", pack(content))
			got, stats := mustRead(t, Options{}, path)
			equalRows(t, format+" "+packing, got, want)
			if stats.BadRows != 0 || stats.Rows != int64(len(want)) {
				t.Errorf("%s %s: %+v", format, packing, stats)
			}
			got, _ = mustRead(t, Options{Stdin: struct{ io.Reader }{bytes.NewReader(pack(content))}}, "-")
			equalRows(t, format+" "+packing+" from standard input", got, want)
		}
		if format == "parquet" {
			continue
		}
		crlf := bytes.ReplaceAll(content, []byte("\n"), []byte("\r\n\r\n"))
		got, _ := mustRead(t, Options{}, write(t, "crlf", append([]byte("\xef\xbb\xbf"), crlf...)))
		equalRows(t, format+" with BOM, CRLF and blank lines", got, want)
		wide, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().Bytes(content)
		if err != nil {
			t.Fatal(err)
		}
		got, _ = mustRead(t, Options{}, write(t, "utf16", wide))
		equalRows(t, format+" in UTF-16", got, want)
	}
}

// TestBadRows: each is counted, the first ten are told with their place, and a strict reader stops at the first.
func TestBadRows(t *testing.T) {
	rows := sample(5000)
	var content []byte
	line := int64(0)
	var want []int64
	for i := range rows {
		content = append(rows[i].AppendJSON(content), '\n')
		line++
		if i%300 == 7 {
			content = append(content, "\n{\"ts\":\"never\"}\n"...)
			line += 2
			want = append(want, line)
		}
	}
	path := write(t, "j.jsonl", content)
	got, stats := mustRead(t, Options{Workers: 3}, path)
	equalRows(t, "good rows", got, rows)
	if stats.BadRows != int64(len(want)) || len(stats.Bad) != 10 {
		t.Fatalf("%d bad rows of %d, %d told", stats.BadRows, len(want), len(stats.Bad))
	}
	for i, bad := range stats.Bad {
		if bad.Line != want[i] || bad.File != path || !strings.Contains(bad.Error(), `"never"`) {
			t.Errorf("bad row %d: %v, want line %d", i, bad, want[i])
		}
	}
	_, _, err := readAll(t, Options{Strict: true}, path)
	var bad *BadRowError
	if !errors.As(err, &bad) || bad.Line != want[0] || bad.Record != 9 {
		t.Errorf("strict: %v", err)
	}
}

func TestCutOff(t *testing.T) {
	rows := sample(2000)
	plain := jsonl(rows)
	got, stats := mustRead(t, Options{}, write(t, "j.jsonl", plain[:len(plain)-9]))
	equalRows(t, "all but the last", got, rows[:len(rows)-1])
	if stats.BadRows != 1 || !strings.Contains(stats.Bad[0].Error(), "cut off") || stats.Bad[0].Line != 2000 {
		t.Errorf("%+v", stats)
	}
	got, stats = mustRead(t, Options{}, write(t, "j.jsonl", plain[:len(plain)-1])) // only the newline is missing
	equalRows(t, "no newline", got, rows)
	if stats.BadRows != 0 {
		t.Errorf("%v", stats.Bad)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(plain)
	z.Close()
	got, stats = mustRead(t, Options{}, write(t, "j.gz", packed.Bytes()[:packed.Len()/2]))
	if len(got) == 0 || len(got) >= len(rows) || stats.BadRows == 0 {
		t.Errorf("half a gzip file: %d rows, %d bad", len(got), stats.BadRows)
	}
	equalRows(t, "half a gzip file", got, rows[:len(got)])
	csv := encoded(t, rows, "csv")
	got, stats = mustRead(t, Options{}, write(t, "j.csv", csv[:len(csv)-12]))
	equalRows(t, "CSV", got, rows[:len(rows)-1])
	if stats.BadRows != 1 {
		t.Errorf("CSV: %v", stats.Bad)
	}
}

// TestOrder: whatever the order in the files, the rows come out in that of time, from memory or, beyond it, from disk.
func TestOrder(t *testing.T) {
	rows := sample(4000)
	random := rand.New(rand.NewPCG(1, 1))
	near, far := slices.Clone(rows), slices.Clone(rows)
	for i := 0; i+50 < len(near); i += 50 {
		random.Shuffle(50, func(a, b int) { near[i+a], near[i+b] = near[i+b], near[i+a] })
	}
	random.Shuffle(len(far), func(a, b int) { far[a], far[b] = far[b], far[a] })
	backwards := slices.Clone(rows)
	slices.Reverse(backwards)
	for _, test := range []struct {
		name    string
		rows    []Row
		sort    int
		spilled bool
	}{
		{"in order", rows, 100, false},
		{"near", near, 100, false},
		{"far, in memory", far, 5000, false},
		{"far, on disk", far, 100, true},
		{"backwards", backwards, 100, true},
	} {
		for _, stdin := range []bool{false, true} {
			o := Options{SortRows: test.sort, TempDir: t.TempDir()}
			name := write(t, "j.jsonl", jsonl(test.rows))
			if stdin {
				o.Stdin, name = struct{ io.Reader }{bytes.NewReader(jsonl(test.rows))}, "-"
			}
			got, stats := mustRead(t, o, name)
			equalRows(t, test.name, got, rows)
			if stats.Spilled != test.spilled {
				t.Errorf("%s: spilled %v", test.name, stats.Spilled)
			}
			if left, _ := os.ReadDir(o.TempDir); len(left) > 0 {
				t.Errorf("%s: left behind: %v", test.name, left)
			}
		}
	}
}

// TestOneInstant: rows of one instant keep the order of the files and of the rows.
func TestOneInstant(t *testing.T) {
	rows := sample(300)
	for i := range rows {
		rows[i].At = start.Add(time.Duration(i/100) * time.Second)
	}
	for _, sort := range []int{10, 1000} {
		got, _ := mustRead(t, Options{SortRows: sort}, write(t, "a", jsonl(rows[:150])), write(t, "b", jsonl(rows[150:])))
		equalRows(t, "one instant", got, rows)
	}
}

// TestMerge: files that overlap come out as one; files that follow each other too, however they are named.
func TestMerge(t *testing.T) {
	rows := sample(9000)
	var odd, even []Row
	for i := range rows {
		if i%3 == 0 {
			odd = append(odd, rows[i])
		} else {
			even = append(even, rows[i])
		}
	}
	got, _ := mustRead(t, Options{SortRows: 100}, write(t, "a", jsonl(odd)), write(t, "b", encoded(t, even, "csv")))
	equalRows(t, "overlapping", got, rows)
	var names []string
	for i := 9; i > 0; i-- {
		names = append(names, write(t, "part", jsonl(rows[(i-1)*1000:i*1000])))
	}
	r, err := Open(names, Options{SortRows: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	for row, err := range r.Rows() {
		if err != nil || !row.Equal(&rows[n]) {
			t.Fatalf("row %d: %v, %v", n, row, err)
		}
		n++
	}
	read, total := r.Progress()
	if n != len(rows) || read != total || total == 0 {
		t.Errorf("%d rows, %d of %d bytes", n, read, total)
	}
}

// TestDuplicates: of rows with one id, provider and account the last wins; in a later file too; without an id only if asked.
func TestDuplicates(t *testing.T) {
	rows := sample(100)
	last := slices.Clone(rows)
	twice := append(slices.Clone(rows), rows[20:40]...)
	for i := range 20 {
		twice[100+i].Status, last[20+i].Status = 503, 503
	}
	got, stats := mustRead(t, Options{}, write(t, "j", jsonl(twice)))
	equalRows(t, "one file", got, last)
	if stats.Duplicates != 20 {
		t.Errorf("%d duplicates", stats.Duplicates)
	}
	got, stats = mustRead(t, Options{}, write(t, "a", jsonl(twice[100:])), write(t, "b", jsonl(rows)))
	equalRows(t, "two files, the good one last", got, rows)
	if stats.Duplicates != 20 {
		t.Errorf("%d duplicates", stats.Duplicates)
	}
	for i := range twice {
		twice[i].ID = ""
		twice[i].Status = 200
	}
	got, _ = mustRead(t, Options{}, write(t, "j", jsonl(twice)))
	if len(got) != 120 {
		t.Errorf("without an id %d rows of 120 are left", len(got))
	}
	got, stats = mustRead(t, Options{Dedupe: true}, write(t, "j", jsonl(twice)))
	if len(got) != 100 || stats.Duplicates != 20 {
		t.Errorf("with dedupe %d rows are left, %d dropped", len(got), stats.Duplicates)
	}
}

func TestInterval(t *testing.T) {
	rows := sample(5000)
	got, stats := mustRead(t, Options{From: rows[1000].At, To: rows[4000].At}, write(t, "j", jsonl(rows)))
	equalRows(t, "interval", got, rows[1000:4000])
	if stats.OutsideInterval != 2000 {
		t.Errorf("%d outside", stats.OutsideInterval)
	}
}

func TestDefaults(t *testing.T) {
	path := write(t, "j", []byte(`{"ts":"2026-11-30T00:00:00.000Z","account":"own","status":200,"headers":{},"latencyMs":1}`+"\n"+`{"ts":"2026-11-30T00:00:01Z"}`))
	got, _ := mustRead(t, Options{Provider: "p", Account: "a"}, path)
	if len(got) != 2 || got[0].Provider != "p" || got[0].Account != "own" || got[1].Account != "a" {
		t.Errorf("%+v", got)
	}
}

// TestNumbers: records know their files, lines and numbers, after sorting too.
func TestNumbers(t *testing.T) {
	rows := sample(6)
	content := append([]byte("\n\n"), jsonl([]Row{rows[1], rows[0]})...)
	content = append(append(content, "bad\n"...), jsonl(rows[2:])...)
	r, err := Open([]string{write(t, "empty", nil), write(t, "j", content)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ number, line int64 }{{2, 4}, {1, 3}, {4, 6}, {5, 7}, {6, 8}, {7, 9}}
	for i, w := range want {
		if rec := b.Records[i]; rec.Number != w.number || rec.Line != w.line || rec.File != 1 {
			t.Errorf("record %d is %d of file %d, line %d; want %v", i, rec.Number, rec.File, rec.Line, w)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	for _, test := range []struct{ name, content, want string }{
		{"array", `[{"ts":1}]`, "jq -c"},
		{"no ts", "a,b\n1,2\n", "--map ts=COLUMN"},
		{"sqlite", "SQLite format 3\x00....", "SQLite"},
		{"twice", "ts,ts\n1,2\n", "twice"},
		{"parquet", "PAR1garbage", "parquet"},
	} {
		if _, _, err := readAll(t, Options{}, write(t, test.name, []byte(test.content))); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if _, err := Open([]string{filepath.Join(t.TempDir(), "none")}, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Open([]string{"-"}, Options{}); err == nil {
		t.Error("a standard input that is not there was opened")
	}
	if _, err := Open([]string{t.TempDir()}, Options{}); err == nil {
		t.Error("a folder was opened")
	}
}

// TestState: rows of a state file come through the function that opens it.
func TestState(t *testing.T) {
	rows := sample(10)
	o := Options{State: func(path string) (iter.Seq2[Row, error], error) {
		return func(yield func(Row, error) bool) {
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
		}, nil
	}}
	got, _ := mustRead(t, o, write(t, "state.db", []byte("SQLite format 3\x00")))
	equalRows(t, "state", got, rows)
}

// TestEarlyClose: a reader that is left early ends its goroutines, and a closed one says so.
func TestEarlyClose(t *testing.T) {
	path := write(t, "j", jsonl(sample(20000)))
	r, err := Open([]string{path, path}, Options{SortRows: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

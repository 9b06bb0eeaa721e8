package ledger_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/ledger/ledgertest"
)

func file(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const header = "provider,limit,scope_key,window_start,window_end,used,observed_remaining,observed_max,observed_used,updated_at\n"

// TestCountersFile: the CSV is the one that is documented, and the lease is part of what it says.
func TestCountersFile(t *testing.T) {
	store := ledgertest.NewMemory()
	five := int64(5)
	c := counter("a,b", 12)
	c.Lease, c.ObservedMax, c.UpdatedNanos = 2, &five, now.Add(time.Second+250*time.Millisecond).UnixNano()
	if err := store.Apply(t.Context(), ledger.Changes{Counters: []ledger.Counter{c}, Minutes: []ledger.Minute{{CounterKey: c.CounterKey, Used: 3}}}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what   ledger.What
		format ledger.Format
		want   string
	}{
		{ledger.WhatCounters, ledger.FormatCSV, header + "p,daily,\"a,b\",2026-11-30T12:00:00.000Z,2026-12-01T12:00:00.000Z,12,,5,,2026-11-30T12:00:01.250Z\n"},
		{ledger.WhatCounters, ledger.FormatJSONL, `{"provider":"p","limit":"daily","scope_key":"a,b","window_start":"2026-11-30T12:00:00.000Z",` +
			`"window_end":"2026-12-01T12:00:00.000Z","used":12,"observed_max":5,"updated_at":"2026-11-30T12:00:01.250Z"}` + "\n"},
		{ledger.WhatMinutes, ledger.FormatCSV, "provider,limit,scope_key,minute,used\np,daily,\"a,b\",2026-11-30T12:00:00.000Z,3\n"},
	} {
		var b bytes.Buffer
		if _, err := ledger.Export(t.Context(), store, &b, test.what, test.format, ledger.Interval{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, b.String()); diff != "" {
			t.Errorf("%s as %s:\n%s", test.what, test.format, diff)
		}
	}
}

// TestImportDirty: other programs' tables: a byte order mark, CRLF, semicolons, other columns between, other notations of time.
func TestImportDirty(t *testing.T) {
	store := ledgertest.NewMemory()
	content := "\xef\xbb\xbfused;limit;provider;note;scope_key;window_start;window_end;updated_at\r\n" +
		"7;daily;p;x;k;2026-11-30 12:00:00;1796126400;2026-11-30T13:00:00+01:00\r\n\r\n"
	stats, err := ledger.Import(t.Context(), store, file(t, "c.csv", content), ledger.WhatCounters, journal.Options{})
	if err != nil || stats.Rows != 1 {
		t.Fatal(stats.Rows, err)
	}
	want := counter("k", 7)
	want.UpdatedNanos = now.UnixNano()
	for c, err := range store.Counters(t.Context(), ledger.Interval{}) {
		if err != nil || cmp.Diff(want, c) != "" {
			t.Errorf("%v\n%s", err, cmp.Diff(want, c))
		}
	}
	stdin := strings.NewReader(`{"provider":"p","limit":"l","scope_key":"k","minute":"2026-11-30T12:00:00Z","used":4,"more":{"a":[1]}}`)
	stats, err = ledger.Import(t.Context(), store, "-", ledger.WhatMinutes, journal.Options{Stdin: stdin})
	if err != nil || stats.Rows != 1 {
		t.Error(stats.Rows, err)
	}
}

// TestImportErrors: what cannot be read is refused with the line.
func TestImportErrors(t *testing.T) {
	row := "p,l,k,2026-11-30T12:00:00Z,2026-12-01T00:00:00Z,7,,,,2026-11-30T12:00:00Z\n"
	for _, test := range []struct{ name, content, want string }{
		{"no column", "provider,limit\np,l\n", `no column "scope_key"`},
		{"short", header + row + "p,l\n", ":3: 2 fields"},
		{"time", header + strings.Replace(row, "2026-11-30T12:00:00Z", "noon", 1), `:2: "noon"`},
		{"count", header + strings.Replace(row, ",7,", ",-7,", 1), `"-7"`},
		{"number", header + strings.Replace(row, ",7,,", ",7,x,", 1), `"x"`},
		{"window", header + strings.Replace(row, "2026-12-01", "2026-11-01", 1), "not after window_start"},
		{"json", `{"provider":"p"` + "\n", ":1: "},
		{"nested", `{"provider":{}}`, "provider is neither"},
		{"parquet", "PAR1nonsense", "parquet"},
		{"gzip", "\x1f\x8bnonsense", "gzip"},
	} {
		_, err := ledger.Import(t.Context(), ledgertest.NewMemory(), file(t, "x", test.content), ledger.WhatCounters, journal.Options{})
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(test.want)) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
	if _, err := ledger.Import(t.Context(), ledgertest.NewMemory(), "x", "all", journal.Options{}); err == nil {
		t.Error("all can be imported")
	}
}

// TestImportUnordered: a journal that is out of order goes in all the same, and comes out in order.
func TestImportUnordered(t *testing.T) {
	var content []byte
	for i := 500; i > 0; i-- {
		row := ledger.Row{At: now.Add(time.Duration(i) * time.Second), Status: 200}
		content = append(row.AppendJSON(content), '\n')
	}
	store := ledgertest.NewMemory()
	stats, err := ledger.Import(t.Context(), store, file(t, "j.jsonl", string(content)), ledger.WhatJournal, journal.Options{SortRows: 10})
	if err != nil || stats.Rows != 500 {
		t.Fatal(stats.Rows, err)
	}
	n := 0
	for row, err := range store.Journal(t.Context(), ledger.Interval{}) {
		if n++; err != nil || !row.At.Equal(now.Add(time.Duration(n)*time.Second)) {
			t.Fatalf("row %d is of %v, %v", n, row.At, err)
		}
	}
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string][2]string{
		"a.jsonl": {"jsonl", ""}, "a.csv.gz": {"csv", "gz"}, "a.b.parquet.zst": {"parquet", "zst"}, "a": {"", ""}, "a.gz": {"", "gz"}, "jsonl": {"", ""},
	} {
		if format, compression := ledger.FormatOf(name); string(format) != want[0] || compression != want[1] {
			t.Errorf("%s: %q, %q", name, format, compression)
		}
	}
	if _, err := ledger.Compress(nil, "bz2"); err == nil {
		t.Error("bz2 is accepted")
	}
}

// FuzzTable: any bytes are counters or an error; what is read writes and reads back the same.
func FuzzTable(f *testing.F) {
	f.Add([]byte(header + "p,l,k,2026-11-30T12:00:00Z,2026-12-01T00:00:00Z,7,,,,2026-11-30T12:00:00Z\n"))
	f.Add([]byte(`{"provider":"p","window_start":1,"window_end":2,"used":1,"updated_at":0}`))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if bytes.HasPrefix(content, []byte("PAR1")) {
			return
		}
		store := ledgertest.NewMemory()
		if _, err := ledger.Import(t.Context(), store, file(t, "x", string(content)), ledger.WhatCounters, journal.Options{}); err != nil {
			return
		}
		var first, second bytes.Buffer
		if _, err := ledger.Export(t.Context(), store, &first, ledger.WhatCounters, ledger.FormatCSV, ledger.Interval{}); err != nil {
			t.Fatal(err)
		}
		again := ledgertest.NewMemory()
		if _, err := ledger.Import(t.Context(), again, file(t, "y", first.String()), ledger.WhatCounters, journal.Options{}); err != nil {
			t.Fatalf("%q: %v", first.String(), err)
		}
		if _, err := ledger.Export(t.Context(), again, &second, ledger.WhatCounters, ledger.FormatCSV, ledger.Interval{}); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("%q became %q, %v", first.String(), second.String(), err)
		}
	})
}

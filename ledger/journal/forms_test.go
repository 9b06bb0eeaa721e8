package journal

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseInstant(t *testing.T) {
	for _, test := range []struct {
		text, want string
		naive      bool
	}{
		{"2026-11-01T00:00:07.250Z", "2026-11-01T00:00:07.25Z", false},
		{"2026-11-01t00:00:07z", "2026-11-01T00:00:07Z", false},
		{"2026-11-01 00:00:07,250 +02:00", "2026-10-31T22:00:07.25Z", false},
		{"2026-11-01T00:00:07-0330", "2026-11-01T03:30:07Z", false},
		{"2026-11-01T00:00:07+02", "2026-10-31T22:00:07Z", false},
		{"2026-11-01 00:00:07 UTC", "2026-11-01T00:00:07Z", false},
		{"2026-11-01 00:00", "2026-11-01T00:00:00Z", true},
		{" 2026-11-01T00:00:07.123456789123 ", "2026-11-01T00:00:07.123456789Z", true},
		{"2026-12-31T23:59:60Z", "2027-01-01T00:00:00Z", false},
		{"2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z", false},
		{"[01/Nov/2026:00:00:07 +0200]", "2026-10-31T22:00:07Z", false},
		{"Sun, 01 Nov 2026 00:00:07 GMT", "2026-11-01T00:00:07Z", false},
		{"Sun Nov  1 00:00:07 2026", "2026-11-01T00:00:07Z", true},
		{"1793491207", "2026-11-01T00:00:07Z", false},
		{"1793491207.25", "2026-11-01T00:00:07.25Z", false},
		{"1793491207250", "2026-11-01T00:00:07.25Z", false},
		{"1793491207250000", "2026-11-01T00:00:07.25Z", false},
		{"1793491207250000001", "2026-11-01T00:00:07.250000001Z", false},
		{"1793491207250.5", "2026-11-01T00:00:07.2505Z", false},
		{"1.793491207e9", "2026-11-01T00:00:07Z", false},
		{"-1.5", "1969-12-31T23:59:58.5Z", false},
		{"0", "1970-01-01T00:00:00Z", false},
	} {
		got, err := parseInstant(test.text)
		if at := time.Unix(0, got.nanos).UTC().Format(time.RFC3339Nano); err != nil || at != test.want || got.naive != test.naive {
			t.Errorf("%q is %s (naive %v), %v; want %s", test.text, at, got.naive, err, test.want)
		}
	}
	for _, text := range []string{
		"", "x", "2026-11-01", "2026-11-01T00", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-11-01T24:00:00Z", "2026-11-01T00:60:00Z",
		"2026-11-01T00:00:61Z", "2026-11-01T00:00:00.Z", "2026-11-01T00:00:00+24:00", "2026-11-01T00:00:00 CET", "1699-12-31T23:59:59Z", "2250-01-01T00:00:00Z",
		"99999999999999999999", "+5", "0x10", "1e400", "NaN", "Inf", "1e", "--5", "1.2.3", "Sun, 01 Nov 2026 00:00:07 XYZ",
	} {
		var terr *TimeError
		if got, err := parseInstant(text); !errors.As(err, &terr) || terr.Text != text {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

// FuzzTime: the parser agrees with the standard library on RFC 3339, never panics, and stays in range.
func FuzzTime(f *testing.F) {
	for _, s := range []string{"2026-11-01T00:00:07.250Z", "2026-11-01 00:00:07", "1793491207.25", "01/Nov/2026:00:00:07 +0000", "-1", "2024-02-29T23:59:60+23:59"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseInstant(s)
		if err == nil && (got.nanos < minNanos || got.nanos >= maxNanos) {
			t.Fatalf("%q is %d, out of range", s, got.nanos)
		}
		want, terr := time.Parse(time.RFC3339Nano, s)
		if terr != nil || want.Year() < 1701 || want.Year() > 2248 {
			return
		}
		if err != nil || got.naive || got.nanos != want.UnixNano() {
			t.Fatalf("%q is %v, %v; want %v", s, got, err, want)
		}
	})
}

// TestWallClock: the order of a file tells the two passes of an hour apart, in either direction.
func TestWallClock(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name       string
		wall, want []string
	}{
		{"forward", []string{"00:59", "01:00", "01:59", "01:00", "01:59", "02:00"}, []string{"04:59", "05:00", "05:59", "06:00", "06:59", "07:00"}},
		{"equal seconds are no second pass", []string{"00:59", "01:10", "01:10", "01:11"}, []string{"04:59", "05:10", "05:10", "05:11"}},
		{"jitter is no second pass", []string{"01:10", "01:09:40", "01:11"}, []string{"05:10", "05:09", "05:11"}},
		{"backward", []string{"02:02", "02:01", "01:59", "01:00", "01:59", "01:00", "00:59"}, []string{"07:02", "07:01", "06:59", "06:00", "05:59", "05:00", "04:59"}},
		{"first row", []string{"01:30"}, []string{"05:30"}},
	} {
		warned := 0
		c := wallClock{zone: zone, warn: func(string, ...any) { warned++ }}
		var got []string
		for _, w := range test.wall {
			in, err := parseInstant("2022-11-06 " + w)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, time.Unix(0, c.instant(in.nanos)).UTC().Format("15:04"))
		}
		if !slices.Equal(got, test.want) || warned == 0 {
			t.Errorf("%s: %v, want %v; %d warnings", test.name, got, test.want, warned)
		}
	}
	// Beyond the turns a wall time is what the standard library says.
	c := wallClock{zone: zone, warn: func(f string, a ...any) { t.Errorf(f, a...) }}
	for at := time.Date(2022, 1, 1, 0, 7, 0, 0, time.UTC); at.Year() == 2022; at = at.Add(5 * time.Hour) {
		if (at.Month() == 3 && at.Day() == 13) || (at.Month() == 11 && at.Day() == 6) {
			continue
		}
		local := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, zone)
		if got := c.instant(at.UnixNano()); got != local.UnixNano() {
			t.Fatalf("%v is %d, want %d", at, got, local.UnixNano())
		}
	}
}

func TestParseLatency(t *testing.T) {
	for _, test := range []struct {
		text string
		unit time.Duration
		want time.Duration
	}{
		{"182", time.Millisecond, 182e6},
		{"0.000001", time.Millisecond, 1},
		{"1.5", time.Second, 15e8},
		{"12", time.Microsecond, 12e3},
		{"1e3", time.Millisecond, 1e9},
		{"2592000000", time.Millisecond, maxLatency},
		{"0.1234567890123", time.Second, 123456789},
		{"0", time.Second, 0},
	} {
		if got, err := parseLatency(test.text, test.unit); err != nil || got != test.want {
			t.Errorf("%s of %s is %s, %v; want %s", test.text, test.unit, got, err, test.want)
		}
	}
	for _, text := range []string{"", "-1", "x", "NaN", "Inf", "2592000000.000001", "1e99", "0x1p3", "1_000"} {
		if got, err := parseLatency(text, time.Millisecond); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// csvRecords splits a whole CSV, with what was bad.
func csvRecords(text string) (records [][]string, bad int) {
	c := &csvScanner{text: bufio.NewReaderSize(strings.NewReader(text), 16), comma: ','}
	for {
		fields, _, err := c.next()
		switch {
		case errors.Is(err, io.EOF):
			return records, bad
		case err != nil:
			bad++
		default:
			records = append(records, fields)
		}
	}
}

func TestCSVRecords(t *testing.T) {
	for _, test := range []struct {
		text string
		want string
		bad  int
	}{
		{"a,b\n1,2\n", "a|b/1|2", 0},
		{"a,b\r\n1,2\r\n", "a|b/1|2", 0},
		{"a,b\n\n  \n1,2", "a|b/1|2", 0},
		{"\"x\"\"y\",\"1\n2\"\n", "x\"y|1\n2", 0},
		{"\"1\r\n2\",\r\n", "1\r\n2|", 0},
		{"5\" pipe,x\n", "5\" pipe|x", 0},
		{"\"a\"b,c\n", "a\"b,c\n", 1}, // never closed: a bad record
		{"1,\"open\n2,b\n3,c\n", "2|b/3|c", 1},
		{"a\r", "a", 0},
	} {
		records, bad := csvRecords(test.text)
		var lines []string
		for _, r := range records {
			lines = append(lines, strings.Join(r, "|"))
		}
		got := strings.Join(lines, "/")
		if test.text == "\"a\"b,c\n" {
			test.want = ""
		}
		if got != test.want || bad != test.bad {
			t.Errorf("%q is %q, %d bad; want %q, %d", test.text, got, bad, test.want, test.bad)
		}
	}
}

// FuzzCSV: the splitter agrees with encoding/csv wherever that has no complaint, and never loses a line otherwise.
func FuzzCSV(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "\"a\n\"\"b\",c\r\nd,e", "a\"b\n", "\"a\"b\n", "\"", "\r", ",,\n\n,", "\"\"\"\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		records, bad := csvRecords(text)
		r := csv.NewReader(strings.NewReader(text))
		r.LazyQuotes, r.FieldsPerRecord = true, -1
		want, err := r.ReadAll()
		// encoding/csv takes lines of blanks for records and CR inside lines apart; it closes a last quote by itself.
		if err != nil || bad > 0 || strings.Contains(strings.ReplaceAll(text, "\r\n", ""), "\r") {
			return
		}
		blank := func(r []string) bool {
			return len(r) == 1 && onlySpace([]byte(r[0])) && !strings.Contains(text, `"`)
		}
		want = slices.DeleteFunc(want, blank)
		if strings.Contains(text, " \n") || strings.Contains(text, "\t\n") || strings.HasSuffix(text, " ") || strings.HasSuffix(text, "\t") {
			return
		}
		if len(want) != len(records) {
			t.Fatalf("%q: %q, want %q", text, records, want)
		}
		for i := range want {
			for j := range records[i] {
				records[i][j] = strings.ReplaceAll(records[i][j], "\r\n", "\n")
			}
			if !slices.Equal(want[i], records[i]) {
				t.Fatalf("%q: %q, want %q", text, records, want)
			}
		}
	})
}

func mappings(t testing.TB, texts ...string) (out []Mapping) {
	t.Helper()
	for _, text := range texts {
		m, err := ParseMapping(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func TestParseMapping(t *testing.T) {
	for _, text := range []string{"", "ts", "ts=", "=x", "when=x", "vars.=x", "headers.=x", "Vars.a=x"} {
		if m, err := ParseMapping(text); err == nil {
			t.Errorf("%q is %+v", text, m)
		}
	}
	if m := mappings(t, `provider="a=b"`)[0]; m.Text != "a=b" || m.Column != "" {
		t.Errorf("a constant is %+v", m)
	}
}

// TestMapped reads access logs of three kinds into the same rows.
func TestMapped(t *testing.T) {
	nginx := `{"time_local":"01/Nov/2026:02:00:08 +0200","request":"GET /o/5?x=1 HTTP/1.1","status":"200","request_time":"0.182","sent":{"X-Left":"7"}}
{"time_local":"01/Nov/2026:02:00:09 +0200","request":"-","status":429,"request_time":"-","sent":{}}
{"time_local":"01/Nov/2026:02:00:10 +0200","request":"oops","status":200}
`
	rows, stats := mustRead(t, Options{Provider: "p", Map: mappings(t, "responseTs=time_local", "request=request", "latencySeconds=request_time",
		"headers.X-Left=sent.X-Left", `job="devices"`)}, write(t, "access.jsonl", []byte(nginx)))
	if len(rows) != 2 || stats.BadRows != 1 {
		t.Fatalf("%d rows, %v", len(rows), stats.Bad)
	}
	want := Row{
		At: time.Date(2026, 11, 1, 0, 0, 7, 818e6, time.UTC), Status: 200, Latency: 182 * time.Millisecond, Headers: map[string]string{"X-Left": "7"},
		Request: Request{Provider: "p", Method: "GET", Endpoint: "/o/5?x=1", Job: "devices"},
	}
	if !rows[0].Equal(&want) || rows[1].Status != 429 {
		t.Errorf("%+v\nwant %+v", rows[0], want)
	}
	csv := "when;url;ms;ok;status\n2026-11-01 02:00:07,818;https://api.example.com/v1/o/5?x=1;182;yes;200\n2026-11-01 02:00:08;https://other.example/;1;no;200\n"
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	rows, stats = mustRead(t, Options{
		Zone: zone, Map: mappings(t, "ts=when", "url=url", "latencyMs=ms", "retry=ok", `method="GET"`),
		Locate: func(u *url.URL) (string, string, string, bool) {
			return "p", "a", strings.TrimPrefix(u.Path, "/v1"), u.Host == "api.example.com"
		},
	}, write(t, "access.csv", []byte(csv)))
	if len(rows) != 1 || stats.OtherHosts != 1 || stats.BadRows != 0 {
		t.Fatalf("%d rows, %+v", len(rows), stats)
	}
	if r := rows[0]; r.Endpoint != "/o/5?x=1" || r.Account != "a" || !r.Retry || r.At.Format("15:04:05.000") != "01:00:07.818" {
		t.Errorf("%+v", r)
	}
	// tapyr's own files are read as such beside mapped ones.
	own := sample(3)
	rows, _ = mustRead(t, Options{Map: mappings(t, "ts=when")}, write(t, "own.csv", encoded(t, own, "csv")), write(t, "own.jsonl", jsonl(own[:0])))
	equalRows(t, "own", rows, own)
}

const har = `{ "log": { "version": "1.2", "pages": [{"a": [1, {"entries": []}]}], "entries": [
 {"startedDateTime": "2026-11-01T02:00:07.250+02:00", "time": 182.5, "request": {"method": "GET", "url": "https://api.example.com/v1/o/5?x=1", "headers": []},
  "response": {"status": 429, "headers": [{"name": "retry-after", "value": "3"}, {"name": "x-left", "value": "1"}, {"name": "x-left", "value": "2"}],
   "content": {"text": "slow down"}}},
 {"startedDateTime": "2026-11-01T00:00:06Z", "time": -1, "request": {"method": "POST", "url": "https://api.example.com/v1"}, "response": {"status": 0, "headers": []}},
 {"startedDateTime": "never", "request": {"url": "https://api.example.com/"}, "response": {}},
 {"startedDateTime": "2026-11-01T00:00:06Z", "request": {"url": "https://tracker.example/"}, "response": {"status": 200}}
], "entries2": 1 } }`

func TestHAR(t *testing.T) {
	o := Options{
		KeepHeader: func(name string) bool { return name != "secret" },
		Locate: func(u *url.URL) (string, string, string, bool) {
			return "p", "a", strings.TrimPrefix(u.Path, "/v1"), u.Host == "api.example.com"
		},
	}
	rows, stats := mustRead(t, o, write(t, "x.har", []byte(har)))
	if len(rows) != 2 || stats.BadRows != 1 || stats.OtherHosts != 1 || stats.Bad[0].Record != 3 {
		t.Fatalf("%d rows, %+v", len(rows), stats)
	}
	want := Row{
		At: time.Date(2026, 11, 1, 0, 0, 7, 250e6, time.UTC), Status: 429, Latency: 182500 * time.Microsecond, Body: "slow down",
		Headers: map[string]string{"retry-after": "3", "x-left": "1, 2"},
		Request: Request{Provider: "p", Account: "a", Method: "GET", Endpoint: "/o/5?x=1"},
	}
	if !rows[1].Equal(&want) || rows[0].Status != 0 || rows[0].Endpoint != "/" {
		t.Errorf("%+v\nwant %+v", rows[1], want)
	}
	cut, _, _ := strings.Cut(har, `"POST"`)
	rows, stats = mustRead(t, o, write(t, "cut.har", []byte(cut)))
	if len(rows) != 1 || stats.BadRows != 1 || !strings.Contains(stats.Bad[0].Error(), "ends here") {
		t.Errorf("cut off: %d rows, %v", len(rows), stats.Bad)
	}
}

// FuzzHAR: any bytes are rows, bad rows or an error, and what comes out is in range.
func FuzzHAR(f *testing.F) {
	f.Add([]byte(har))
	f.Add([]byte(`{"log":{"entries":[{}]}}`))
	f.Add([]byte(`{"log":{"entries":{}}}`))
	f.Add([]byte(`{"log":{"entries":[1,"a"`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e := &emitter{builder: builder{symbols: newSymbols(), batch: &Batch{}}, pump: &pump{out: make(chan *Batch, 64), quit: make(chan struct{})}}
		close(e.pump.quit) // batches that are full go nowhere
		if err := feedHAR(bytes.NewReader(text), e, &Options{}); err != nil {
			return
		}
		b := e.finish()
		for i := range b.Records {
			row := b.Row(&b.Records[i])
			if row.Status < 0 || row.Status > maxStatus || row.Latency < 0 || row.Latency > maxLatency || len(row.Body) > MaxBodyBytes {
				t.Fatalf("%+v", row)
			}
			if _, err := DecodeJSON(row.AppendJSON(nil)); err != nil {
				t.Fatalf("%+v does not read back: %v", row, err)
			}
		}
	})
}

// FuzzFile: any bytes are rows, bad rows, or an error that names the file.
func FuzzFile(f *testing.F) {
	f.Add(jsonl(sample(2)))
	f.Add(encoded(f, sample(2), "csv"))
	f.Add([]byte(har))
	f.Add([]byte("ts\tstatus\n1\t200\n\"2\n3"))
	f.Add([]byte("\xff\xfe{\x00"))
	f.Add([]byte("\x1f\x8b\x08"))
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if bytes.HasPrefix(content, []byte("PAR1")) { // the library's parser has fuzzers of its own, and is slow on garbage
			return
		}
		path := write(t, "file", content)
		rows, _, err := readAll(t, Options{Workers: 1, SortRows: 4, TempDir: t.TempDir()}, path)
		if err != nil && !strings.Contains(fmt.Sprint(err), path) {
			t.Fatalf("an error without the file's name: %v", err)
		}
		for i := 1; i < len(rows); i++ {
			if rows[i].At.Before(rows[i-1].At) {
				t.Fatalf("row %d is out of order", i)
			}
		}
	})
}

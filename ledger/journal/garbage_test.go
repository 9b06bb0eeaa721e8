package journal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const garbageRow = `{"ts":"2026-11-01T00:00:01Z","provider":"p","account":"a","method":"GET","endpoint":"/x","status":200}`

// readText reads a text as a file and returns the rows and the bad ones.
func readText(t *testing.T, text string, options Options) (rows int, bad []*BadRowError, err error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rows")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open([]string{name}, options)
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	for {
		b, err := r.Next()
		if err != nil {
			stats := r.Stats()
			if !options.Strict && int(stats.BadRows) != len(stats.Bad) {
				t.Errorf("%d bad rows, %d are named", stats.BadRows, len(stats.Bad))
			}
			if err.Error() != "EOF" {
				return rows, stats.Bad, err
			}
			return rows, stats.Bad, nil
		}
		rows += len(b.Records)
	}
}

// A first line that is no row is a bad row like any other, whatever it looks like; the file is not taken for one of another form.
func TestGarbageBeforeTheRows(t *testing.T) {
	for name, garbage := range map[string]string{
		"a message":              "tapyr: interrupted",
		"a log line":             "[2026-11-01 00:00:00] INFO started",
		"the end of a row":       `,"status":200}`,
		"the beginning of a row": `{"ts":"2026-11-01T00:00:0`,
		"commas":                 "a,b,c",
		"bytes":                  "\x00\xff\xfe\x01",
		"a quote":                `"`,
		"two lines":              "one\ntwo",
	} {
		t.Run(name, func(t *testing.T) {
			want := strings.Count(garbage, "\n") + 1
			rows, bad, err := readText(t, garbage+"\n"+garbageRow+"\n"+garbageRow+"\n", Options{})
			if err != nil || rows != 2 || len(bad) != want {
				t.Fatalf("%d rows and %d bad ones (%v), want 2 and %d", rows, len(bad), err, want)
			}
			if bad[0].Line != 1 || bad[0].Record != 1 {
				t.Errorf("the bad row is %v", bad[0])
			}
			// --strict names it.
			if _, _, err := readText(t, garbage+"\n"+garbageRow+"\n", Options{Strict: true}); err == nil || !strings.Contains(err.Error(), "rows:1:") {
				t.Errorf("strict: %v", err)
			}
		})
	}
}

// Foreign rows behind garbage are still read with their mapping.
func TestGarbageBeforeMappedRows(t *testing.T) {
	options := Options{Map: mappings(t, "ts=time", "endpoint=path"), Provider: "p", Account: "a"}
	row := `{"time":"2026-11-01T00:00:01Z","path":"/x","status":200}`
	for _, garbage := range []string{"garbage", `{"time":"2026-`} {
		if rows, bad, err := readText(t, garbage+"\n"+row+"\n", options); err != nil || rows != 1 || len(bad) != 1 {
			t.Errorf("%q: %d rows, bad %v (%v)", garbage, rows, bad, err)
		}
	}
}

// What is of another form is still told to be.
func TestOtherFormsAreNotGarbage(t *testing.T) {
	for text, want := range map[string]string{
		"[\n" + garbageRow + "\n]\n": "is one JSON array",
		"[" + garbageRow + "]\n":     "is one JSON array",
		"a,b,c\n1,2,3\n":             "has no column ts",
		"ts,vars\n2026-11-01T00:00:01Z,\"{\"\"a\"\":\"\"b\"\"}\"\n": "",
		"ts,vars\n2026-11-01T00:00:01Z,\"\n{}\"\n":                  "",
	} {
		_, _, err := readText(t, text, Options{Provider: "p", Account: "a"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

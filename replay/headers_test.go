package replay

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// TestFieldNames: a row's header names are those of the journal, in their case and order, and the documents' own strings where they
// are spelled as there.
func TestFieldNames(t *testing.T) {
	config := validatetest.Config(t, `
apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: vendor }
spec:
  baseURL: https://api.example.com
  limits:
    - name: daily
      kind: quota
      max: 10
      window: { period: day }
      scope: { by: [provider] }
      sync: { limitHeader: X-Limit, remainingHeader: X-Left }
`)
	rows := []map[string]string{
		{"X-Limit": "10", "X-Left": "9"}, {"x-left": "8"}, {}, {"X-Left": "7", "Other": "x", "X-Limit": "10"}, {"X-Left": "6", "X-Limit": "10"},
	}
	var text []byte
	for i, headers := range rows {
		row := journal.Row{At: time.Unix(int64(i), 0), Status: 200, Headers: headers}
		text = append(row.AppendJSON(text), '\n')
	}
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := journal.Open([]string{path}, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	names, own, seen := newFieldNames(config), 0, 0
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Records {
			rec := &b.Records[i]
			got := names.of(b, rec)
			if !slices.Equal(got, b.Fields(rec)) || !slices.Equal(got, names.of(b, rec)) {
				t.Errorf("row %d: names %q, the journal has %q", i, got, b.Fields(rec))
			}
			for _, name := range got {
				seen++
				if doc, there := names.own[name]; there && unsafe.StringData(doc) == unsafe.StringData(name) {
					own++
				}
			}
		}
	}
	if seen != 8 || own != 6 {
		t.Errorf("%d names, %d of them the documents' own; want 8 and 6", seen, own)
	}
}

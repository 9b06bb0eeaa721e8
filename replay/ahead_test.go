package replay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tapyr/tapyr/ledger/journal"
)

// aheadReader opens a journal of several batches, out of order within them so that they are sorted.
func aheadReader(t *testing.T, rows int, options journal.Options) *journal.Reader {
	t.Helper()
	var text []byte
	for i := range rows {
		row := journal.Row{At: time.Unix(int64(i^1), 0), Request: journal.Request{Endpoint: fmt.Sprintf("/%d", i%10)}, Status: 200}
		text = append(row.AppendJSON(text), '\n')
	}
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := journal.Open([]string{path}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestReadAhead: all rows come, in order, each batch whole while it is looked at.
func TestReadAhead(t *testing.T) {
	const rows = 20_000
	r := aheadReader(t, rows, journal.Options{SortRows: 64})
	next := int64(0)
	err := readAhead(r, func(b *journal.Batch) error {
		for i := range b.Records {
			rec := &b.Records[i]
			if rec.AtNanos != next*1e9 || b.Request(rec).Endpoint != fmt.Sprintf("/%d", (next^1)%10) {
				return fmt.Errorf("row %d is of %d, endpoint %s", next, rec.AtNanos, b.Request(rec).Endpoint)
			}
			next++
		}
		return nil
	})
	if err != nil || next != rows {
		t.Errorf("%d of %d rows, %v", next, rows, err)
	}
}

// TestReadAheadStops: where a batch is refused, no other one comes, and the reader is nobody else's when that is known.
func TestReadAheadStops(t *testing.T) {
	r := aheadReader(t, 20_000, journal.Options{SortRows: 64})
	refused := errors.New("enough")
	calls := 0
	err := readAhead(r, func(*journal.Batch) error {
		if calls++; calls == 2 {
			return refused
		}
		return nil
	})
	if !errors.Is(err, refused) || calls != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
	if _, err := r.Next(); err != nil { // under -race, that the goroutine is gone
		t.Error(err)
	}
}

// TestReadAheadFails: the reader's error comes after the batches before it.
func TestReadAheadFails(t *testing.T) {
	r := aheadReader(t, 100, journal.Options{})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := readAhead(r, func(*journal.Batch) error { t.Error("a batch of a closed reader"); return nil }); err == nil {
		t.Error("no error")
	}
}

package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestBatchesStayValid: what Next gives stays as it is until the second call after it, whichever way the rows took: as they lie in
// the file, merged from two files, or sorted.
func TestBatchesStayValid(t *testing.T) {
	const rows = 6000 // several chunks
	file := func(name string, at func(i int) int64) string {
		var text []byte
		for i := range rows {
			row := Row{
				ID: fmt.Sprintf("%s-%d", name, i), At: time.Unix(at(i), 0).UTC(), Status: 200, Headers: map[string]string{"X-Left": fmt.Sprint(i)},
				Request: Request{Provider: "p", Account: name, Endpoint: fmt.Sprintf("/%d", i%7)},
			}
			if i%5 == 0 {
				row.Refused, row.Body, row.Status = "deadline", "later", 0
			}
			text = append(row.AppendJSON(text), '\n')
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inOrder := func(i int) int64 { return int64(i) }
	files := map[string][]string{
		"one":    {file("one", inOrder)},
		"merged": {file("a", inOrder), file("b", inOrder)},
		"sorted": {file("mixed", func(i int) int64 { return int64(i ^ 3) })},
	}
	for name, paths := range files {
		t.Run(name, func(t *testing.T) {
			r, err := Open(paths, Options{SortRows: 100})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var before *Batch
			var kept []Row
			batches, total := 0, 0
			for {
				b, err := r.Next()
				for i := range kept {
					if now := before.Row(&before.Records[i]); !now.Equal(&kept[i]) {
						t.Fatalf("row %d was %+v, and is %+v after the next batch", i, kept[i], now)
					}
				}
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				batches++
				total += len(b.Records)
				before, kept = b, nil
				for i := range b.Records {
					kept = append(kept, b.Row(&b.Records[i]))
				}
			}
			if batches < 2 || total != rows*len(paths) {
				t.Errorf("%d rows in %d batches", total, batches)
			}
		})
	}
}

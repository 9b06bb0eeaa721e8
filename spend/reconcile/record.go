package reconcile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// File is a settled file that was compared, as the audit chain remembers it: by its content, whatever its name.
type File struct {
	// Name is the file's, without its folder. Hash is the SHA-256 of its content, in lower-case hex.
	Name string    `json:"file"`
	Hash string    `json:"file_hash"`
	At   time.Time `json:"at"`
	// Applied tells that the policy let it change the book; Settled and Released are how many events were.
	Applied  bool `json:"applied"`
	Settled  int  `json:"settled"`
	Released int  `json:"released"`
	// The rest are the lengths of the lists of the Result.
	Rows            int `json:"rows"`
	BadRows         int `json:"bad_rows"`
	Duplicates      int `json:"duplicates"`
	Matched         int `json:"matched"`
	Corrected       int `json:"corrected"`
	UnmatchedRows   int `json:"unmatched_rows"`
	UnmatchedEvents int `json:"unmatched_events"`
	Conflicts       int `json:"conflicts"`
	Stale           int `json:"stale"`
	Failed          int `json:"failed"`
}

// Summary is what is remembered of a result.
func (r *Result) Summary(name, hash string, apply bool) File {
	return File{
		Name: name, Hash: hash, At: r.At, Applied: apply, Settled: r.Applied, Released: r.Released, Rows: r.Rows, BadRows: len(r.BadRows),
		Duplicates: r.Duplicates, Matched: r.Matched, Corrected: len(r.Corrected), UnmatchedRows: len(r.UnmatchedRows),
		UnmatchedEvents: len(r.UnmatchedEvents), Conflicts: len(r.Conflicts), Stale: len(r.Stale), Failed: len(r.Failed),
	}
}

// Open tells how much is left for people to look at.
func (f *File) Open() int {
	return f.BadRows + f.UnmatchedRows + f.UnmatchedEvents + f.Conflicts + f.Stale + f.Failed
}

// HashOf is the hash of a file's content.
func HashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Remember puts an entry into the audit chain that says that a file was compared.
func Remember(ctx context.Context, m *spend.Machine, f *File) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	canonical, err := chain.Canonical(text)
	if err != nil {
		return err
	}
	return m.Note(ctx, f.At, chain.Field{Name: "reconciled", Literal: string(canonical)})
}

// Remembered visits the files that were compared under a policy, from an entry of the chain on, and returns the entry to go on from.
func Remembered(ctx context.Context, store book.Store, policy string, from int64, visit func(File)) (next int64, err error) {
	err = store.View(ctx, func(tx book.Tx) error {
		next = max(from, 1)
		for e, err := range tx.Entries(next) {
			if err != nil {
				return err
			}
			next = e.Seq + 1
			if !bytes.Contains(e.Body, []byte(`,"reconciled":{`)) { // few entries are read for good
				continue
			}
			var entry struct {
				Kind       string `json:"kind"`
				Policy     string `json:"policy"`
				Reconciled File   `json:"reconciled"`
			}
			if err := json.Unmarshal(e.Body, &entry); err != nil {
				return err
			}
			if entry.Kind == "note" && entry.Policy == policy {
				visit(entry.Reconciled)
			}
		}
		return ctx.Err()
	})
	return next, err
}

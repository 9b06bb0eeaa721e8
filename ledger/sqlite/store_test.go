package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/journal"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func rows(n int) []ledger.Row {
	out := make([]ledger.Row, n)
	for i := range out {
		out[i] = ledger.Row{
			ID: fmt.Sprintf("row-%d", i), At: now.Add(time.Duration(i) * time.Second), Status: 200, Headers: map[string]string{"X-Left": fmt.Sprint(i)},
			Request: ledger.RowRequest{Provider: "p", Account: "a", Method: "GET", Endpoint: "/o/{id}", Vars: map[string]string{"id": fmt.Sprint(i % 50)}},
		}
	}
	return out
}

func countRows(t testing.TB, s *Store) (n int) {
	t.Helper()
	for _, err := range s.Journal(t.Context(), ledger.Interval{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// faultIs fails the test unless an error is a storage error of that kind.
func faultIs(t testing.TB, err error, want ledger.Fault) {
	t.Helper()
	var storage *ledger.StorageError
	if !errors.As(err, &storage) || storage.Fault != want {
		t.Errorf("error is %v, want fault %q", err, want)
	}
}

// TestOwner: a second owner is refused and told who the first is; readers and writers work beside it; its end frees the state.
func TestOwner(t *testing.T) {
	first := open(t, Options{Mode: Owner})
	_, err := Open(t.Context(), first.Path(), Options{Mode: Owner})
	var locked *ledger.LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || !strings.Contains(err.Error(), "state.path") {
		t.Fatalf("a second owner: %v", err)
	}
	if err := first.Apply(t.Context(), ledger.Changes{Rows: rows(3)}); err != nil {
		t.Fatal(err)
	}
	reader, shared := openAt(t, first.Path(), Options{}), openAt(t, first.Path(), Options{Mode: Shared})
	if n := countRows(t, reader); n != 3 {
		t.Errorf("a reader sees %d rows", n)
	}
	if err := shared.Apply(t.Context(), ledger.Changes{Rows: rows(4)}); err != nil {
		t.Errorf("beside the owner: %v", err)
	}
	if n := countRows(t, reader); n != 4 {
		t.Errorf("a reader sees %d rows", n)
	}
	faultIs(t, reader.Apply(t.Context(), ledger.Changes{Rows: rows(1)}), ledger.FaultReadOnly)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, first.Path(), Options{Mode: Owner})
}

// TestPrunedBesideOwner: what an owner remembers of a table must not outlive another process's pruning.
func TestPrunedBesideOwner(t *testing.T) {
	owner := open(t, Options{Mode: Owner})
	shared := openAt(t, owner.Path(), Options{Mode: Shared})
	if err := owner.Apply(t.Context(), ledger.Changes{Rows: rows(3)}); err != nil {
		t.Fatal(err)
	}
	if p, err := shared.Prune(t.Context(), now.Add(time.Hour)); err != nil || p.Rows != 3 {
		t.Fatal(p, err)
	}
	if err := owner.Apply(t.Context(), ledger.Changes{Rows: rows(3)}); err != nil {
		t.Fatal(err)
	}
	if n := countRows(t, shared); n != 3 {
		t.Errorf("%d rows", n)
	}
	sound(t, owner)
}

// TestFailureForgets: what was remembered inside a transaction that is undone must not be used by the next.
func TestFailureForgets(t *testing.T) {
	s := open(t, Options{Mode: Owner})
	bad := rows(2)
	mistake := errors.New("mistake")
	err := s.Update(t.Context(), func(tx *sql.Tx) error {
		if err := s.statements.apply(t.Context(), tx, &ledger.Changes{Rows: bad}); err != nil {
			return err
		}
		s.statements.forget()
		return mistake
	})
	if !errors.Is(err, mistake) {
		t.Fatalf("the caller's own error became %v", err)
	}
	if err := s.Apply(t.Context(), ledger.Changes{Rows: bad}); err != nil {
		t.Fatal(err)
	}
	if n := countRows(t, s); n != 2 {
		t.Errorf("%d rows", n)
	}
	if err := s.Update(t.Context(), func(*sql.Tx) error { panic("oops") }); err == nil || !strings.Contains(err.Error(), "oops") {
		t.Errorf("a panic became %v", err)
	}
	sound(t, s)
}

// TestGroups: writers that come together share transactions, and one that fails undoes only its own work.
func TestGroups(t *testing.T) {
	s := open(t, Options{Mode: Owner})
	mistake := errors.New("mistake")
	var group sync.WaitGroup
	for i, row := range rows(200) {
		group.Go(func() {
			err := s.Update(t.Context(), func(tx *sql.Tx) error {
				if _, err := tx.Exec(`INSERT INTO secrets VALUES (?, x'00')`, row.ID); err != nil {
					return err
				}
				if i%10 == 0 {
					return mistake
				}
				return nil
			})
			if (i%10 == 0) != errors.Is(err, mistake) {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	group.Wait()
	var n int
	if err := s.View(t.Context(), func(tx *sql.Tx) error { return tx.QueryRow(`SELECT count(*) FROM secrets`).Scan(&n) }); err != nil || n != 180 {
		t.Errorf("%d of 180 written, %v", n, err)
	}
}

// TestNewer: a file of a newer version is refused, and neither it nor its folder changes by a byte.
func TestNewer(t *testing.T) {
	s := open(t, Options{Mode: Owner})
	path := s.Path()
	s.Close()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(content[60:], 99)
	dir := t.TempDir()
	newer := filepath.Join(dir, "newer.db")
	if err := os.WriteFile(newer, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []Mode{ReadOnly, Shared, Owner} {
		_, err := Open(t.Context(), newer, Options{Mode: mode})
		var version *ledger.VersionError
		if !errors.As(err, &version) || version.Have != 99 || version.Want < 1 {
			t.Errorf("mode %d: %v", mode, err)
		}
	}
	after, err := os.ReadFile(newer)
	if entries, _ := os.ReadDir(dir); err != nil || !bytes.Equal(content, after) || len(entries) != 1 {
		t.Errorf("the file was touched, or something put beside it: %v, %v", entries, err)
	}
}

func TestNotAState(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.db")
	db, err := sql.Open("sqlite3", other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE theirs (x)`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	text := filepath.Join(dir, "tapyr.yaml")
	os.WriteFile(text, []byte(strings.Repeat("kind: Provider\n", 100)), 0o600)
	for _, path := range []string{other, text} {
		before, _ := os.ReadFile(path)
		for _, mode := range []Mode{ReadOnly, Shared, Owner} {
			_, err := Open(t.Context(), path, Options{Mode: mode})
			faultIs(t, err, ledger.FaultCorrupt)
		}
		if after, _ := os.ReadFile(path); path == text && !bytes.Equal(before, after) {
			t.Errorf("%s was changed", path)
		}
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "none.db"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading a missing file: %v", err)
	}
}

// TestMigrations: each step is done once, whole or not at all, and a later start goes on where the last one stopped.
func TestMigrations(t *testing.T) {
	steps := func(texts ...string) []migration {
		files := fstest.MapFS{}
		for i, text := range texts {
			files[fmt.Sprintf("migrations/%04d_x.sql", i+1)] = &fstest.MapFile{Data: []byte(text)}
		}
		out, err := readMigrations(files)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first, second, broken := `PRAGMA application_id = 1413566553; CREATE TABLE a (x)`, `INSERT INTO a VALUES (2)`, `INSERT INTO a VALUES (3); INSERT INTO nowhere VALUES (1)`
	path := filepath.Join(t.TempDir(), "state.db")
	db, err := sql.Open("sqlite3", dsn(path, Options{BusyTimeout: time.Second}, "rwc")+"&_journal_mode=WAL&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	check := func(what string, err error, fails bool, version, sum int) {
		t.Helper()
		if (err != nil) != fails {
			t.Errorf("%s: %v", what, err)
		}
		var got, n int
		db.QueryRow(`PRAGMA user_version`).Scan(&got)
		db.QueryRow(`SELECT coalesce(sum(x), 0) FROM a`).Scan(&n)
		if got != version || n != sum {
			t.Errorf("%s: version %d, sum %d; want %d, %d", what, got, n, version, sum)
		}
	}
	ctx := context.Background()
	check("first", migrate(ctx, db, path, steps(first)), false, 1, 0)
	check("again", migrate(ctx, db, path, steps(first)), false, 1, 0)
	check("broken", migrate(ctx, db, path, steps(first, second, broken)), true, 2, 2)
	check("mended", migrate(ctx, db, path, steps(first, second, `INSERT INTO a VALUES (5)`)), false, 3, 7)
	var version *ledger.VersionError
	if err := migrate(ctx, db, path, steps(first)); !errors.As(err, &version) {
		t.Errorf("an older program: %v", err)
	}
	if h, err := readHeader(path); err != nil || h.version != 3 || h.application != applicationID {
		t.Errorf("the header says %+v, %v", h, err)
	}
	if _, err := readMigrations(fstest.MapFS{"migrations/0002_gap.sql": &fstest.MapFile{}}); err == nil {
		t.Error("a gap in the numbers is accepted")
	}
}

// TestFull: on a full disk nothing is written in part, the recorder keeps everything, and it is all there once there is room.
// (LG-17, for the ledger: what is not durable is not claimed to be.)
func TestFull(t *testing.T) {
	s := open(t, Options{Mode: Owner, MaxPages: 80})
	r := ledger.NewRecorder(ledger.RecorderOptions{})
	var full error
	total := 0
	for batch := 0; full == nil && batch < 100; batch++ {
		for i := range 50 {
			row := rows(1)[0]
			row.ID, row.Body = fmt.Sprintf("%d-%d", batch, i), strings.Repeat("x", 500)
			r.Row(row)
			total++
		}
		r.Counter(ledger.Counter{CounterKey: ledger.CounterKey{Provider: "p", Limit: "l"}, EndNanos: now.Add(time.Hour).UnixNano(), Used: int64(total)})
		full = r.Flush(t.Context(), s, now, false)
	}
	faultIs(t, full, ledger.FaultFull)
	written := countRows(t, s)
	if waiting, _ := r.Waiting(); written+waiting != total || waiting != 50 {
		t.Errorf("%d rows: %d written, %d waiting", total, written, waiting)
	}
	sound(t, s)
	faultIs(t, r.Flush(t.Context(), s, now, false), ledger.FaultFull) // it stays so
	if _, err := s.writes.Exec(`PRAGMA max_page_count = 100000`); err != nil {
		t.Fatal(err)
	}
	if err := r.Flush(t.Context(), s, now, true); err != nil {
		t.Fatal(err)
	}
	snap, err := s.Restore(t.Context(), now, 0)
	if err != nil || len(snap.Counters) != 1 || snap.Counters[0].Used != int64(total) || countRows(t, s) != total {
		t.Errorf("afterwards: %v, %d rows of %d, %v", snap.Counters, countRows(t, s), total, err)
	}
	sound(t, s)
}

// TestLockedByOther: another program that holds the file for too long is told as such, and the next try succeeds.
func TestLockedByOther(t *testing.T) {
	s := open(t, Options{Mode: Owner, BusyTimeout: 20 * time.Millisecond})
	other, err := sql.Open("sqlite3", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetMaxOpenConns(1)
	if _, err := other.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	faultIs(t, s.Apply(t.Context(), ledger.Changes{Rows: rows(2)}), ledger.FaultLocked)
	if _, err := other.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), ledger.Changes{Rows: rows(2)}); err != nil {
		t.Error(err)
	}
}

// TestCorrupt: damage is found, and named; a file whose pages are gone is refused or reported, never read as if it were whole.
func TestCorrupt(t *testing.T) {
	s := open(t, Options{Mode: Owner})
	if err := s.Apply(t.Context(), ledger.Changes{Rows: rows(3000)}); err != nil {
		t.Fatal(err)
	}
	path := s.Path()
	s.Close()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"pages overwritten": func(b []byte) []byte {
			for i := 20 * 4096; i < 40*4096; i++ {
				b[i] ^= 0x5a
			}
			return b
		},
		"cut off":      func(b []byte) []byte { return b[:len(b)/2] },
		"schema wiped": func(b []byte) []byte { clear(b[100:4096]); return b },
	} {
		broken := filepath.Join(t.TempDir(), "broken.db")
		if err := os.WriteFile(broken, damage(bytes.Clone(content)), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := Open(t.Context(), broken, Options{})
		if err != nil {
			faultIs(t, err, ledger.FaultCorrupt)
			continue
		}
		findings, err := b.Check(t.Context())
		if len(findings) == 0 {
			faultIs(t, err, ledger.FaultCorrupt)
		}
		b.Close()
		t.Log(name, findings, err)
	}
}

// TestCheckInvariants: each of our own rules finds what breaks it.
func TestCheckInvariants(t *testing.T) {
	for _, test := range []struct{ sql, want string }{
		{`INSERT INTO counters (provider, "limit", scope_key, window_start, window_end, used, updated_at) VALUES ('p','l','k',5,5,1,0)`, "is empty"},
		{`INSERT INTO counters (provider, "limit", scope_key, window_start, window_end, used, lease, updated_at) VALUES ('p','l','k',5,6,1,2,0)`, "lease of 2"},
		{`INSERT INTO minutes VALUES ('p','l','k',60000000000,-1,0)`, "used -1"},
		{`INSERT INTO minutes VALUES ('p','l','k',60000000001,1,0)`, "whole minute"},
		{`UPDATE journal SET status = 1000`, "status 1000"},
		{`UPDATE journal SET headers = '[]'`, "headers"},
		{`UPDATE origins SET account = 'other'`, "not those of its request"},
		{`UPDATE requests SET vars = '{'`, "variables"},
		{`INSERT INTO inventories VALUES ('j','',0,'{}')`, "items"},
		{`INSERT INTO runs VALUES ('j','',0,'a',0,-1,0,0,'ok','')`, "negative"},
		{`PRAGMA foreign_keys = 0; DELETE FROM requests`, "refer to rows"},
	} {
		s := open(t, Options{Mode: Owner})
		if err := s.Apply(t.Context(), ledger.Changes{Rows: rows(1)}); err != nil {
			t.Fatal(err)
		}
		sound(t, s)
		if _, err := s.writes.Exec(test.sql); err != nil {
			t.Fatal(test.sql, err)
		}
		findings, err := s.Check(t.Context())
		if err != nil || !strings.Contains(strings.Join(findings, "\n"), test.want) {
			t.Errorf("%s: %q, %v; want %q", test.sql, findings, err, test.want)
		}
	}
}

// TestBackup: a copy taken while others write is whole, and replaces what was there.
func TestBackup(t *testing.T) {
	s := open(t, Options{Mode: Owner})
	if err := s.Apply(t.Context(), ledger.Changes{Rows: rows(500)}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			row := rows(1)[0]
			row.ID = fmt.Sprint("more-", i)
			if err := s.Apply(context.Background(), ledger.Changes{Rows: []ledger.Row{row}}); err != nil {
				t.Error(err)
			}
		}
	})
	target := filepath.Join(t.TempDir(), "copy'.db")
	for range 3 {
		if err := s.Backup(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		copied, err := Open(t.Context(), target, Options{})
		if err != nil {
			t.Fatal(err)
		}
		sound(t, copied)
		if n := countRows(t, copied); n < 500 {
			t.Errorf("the copy has %d rows", n)
		}
		copied.Close()
	}
	stop()
	group.Wait()
	if entries, _ := os.ReadDir(filepath.Dir(target)); len(entries) > 3 { // the copy, and what a reader may leave beside it
		t.Errorf("left behind: %v", entries)
	}
	if err := s.Backup(t.Context(), s.Path()); err == nil {
		t.Error("a state was backed up over itself")
	}
}

// TestAsInput: a state file is one of the inputs of a journal's reader.
func TestAsInput(t *testing.T) {
	s := open(t, Options{Mode: Owner})
	want := rows(300)
	if err := s.Apply(t.Context(), ledger.Changes{Rows: want}); err != nil {
		t.Fatal(err)
	}
	r, err := journal.Open([]string{s.Path()}, journal.Options{State: JournalRows})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	for row, err := range r.Rows() {
		if err != nil || !row.Equal(&want[n]) {
			t.Fatalf("row %d: %+v, %v", n, row, err)
		}
		n++
	}
	if n != len(want) {
		t.Errorf("%d rows", n)
	}
}

func TestOddPaths(t *testing.T) {
	for _, name := range []string{"a b.db", "q?x=1.db", "p%20.db", "h#.db", "é.db"} {
		s := openAt(t, filepath.Join(t.TempDir(), name), Options{Mode: Owner})
		if _, err := os.Stat(s.Path()); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The last start of an instance is that of its last run which was not interrupted.
func TestLastStarts(t *testing.T) {
	store, err := Open(t.Context(), filepath.Join(t.TempDir(), "tapyr.db"), Options{Mode: Owner})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var runs []ledger.Run
	for i, status := range []string{"ok", "failed", "interrupted"} {
		for _, instance := range []string{"x n=1", "x n=2"} {
			runs = append(runs, ledger.Run{Job: "x", Instance: instance, Started: at.Add(time.Duration(i) * time.Hour), Status: status})
		}
	}
	runs = append(runs, ledger.Run{Job: "y", Instance: "y", Started: at, Status: "interrupted"})
	if err := store.Apply(t.Context(), ledger.Changes{Runs: runs}); err != nil {
		t.Fatal(err)
	}
	got, err := store.LastStarts(t.Context())
	if want := at.Add(time.Hour); err != nil || len(got) != 2 || !got["x n=1"].Equal(want) || !got["x n=2"].Equal(want) {
		t.Errorf("%v, %v", got, err)
	}
}

package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3" // the driver
)

// spill sorts rows on disk: in a temporary SQLite file, whose own external sort puts them in order.
type spill struct {
	dir   string
	db    *sql.DB
	input *input
}

// newSpill reads all inputs, one after another, into a new file.
func newSpill(r *Reader) (*spill, error) {
	dir, err := os.MkdirTemp(r.options.TempDir, "tapyr-sort-*")
	if err != nil {
		return nil, err
	}
	s := &spill{dir: dir}
	// Nothing here outlives the process, so nothing needs to be safe from its end.
	s.db, err = sql.Open("sqlite3", "file:"+filepath.Join(dir, "rows.db")+"?_journal_mode=OFF&_synchronous=OFF&_locking_mode=EXCLUSIVE&_cache_size=-16000")
	if err == nil {
		s.db.SetMaxOpenConns(1)
		err = s.fill(r)
	}
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	s.input = &input{reader: r, name: "sorted rows", sorted: true, first: minNanos}
	s.input.source = newPump(r.builder(), s.feed)
	return s, nil
}

func (s *spill) fill(r *Reader) error {
	if _, err := s.db.Exec(`CREATE TABLE rows (at INTEGER, file INTEGER, number INTEGER, line INTEGER, row BLOB)`); err != nil {
		return err
	}
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	insert, err := tx.Prepare(`INSERT INTO rows VALUES (?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	for _, in := range r.inputs {
		if err := s.fillFrom(in, insert); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (s *spill) fillFrom(in *input, insert *sql.Stmt) error {
	defer in.close()
	var text []byte
	for {
		b, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range b.Records {
			rec := &b.Records[i]
			row := b.Row(rec)
			text = row.AppendJSON(text[:0])
			if _, err := insert.Exec(rec.AtNanos, rec.File, rec.Number, rec.Line, text); err != nil {
				return fmt.Errorf("sorting rows on disk in %s: %w", s.dir, err)
			}
		}
		b.home.recycle(b)
	}
}

// feed reads the rows in order.
func (s *spill) feed(e *emitter) error {
	rows, err := s.db.Query(`SELECT file, number, line, row FROM rows ORDER BY at, file, number`)
	if err != nil {
		return err
	}
	defer rows.Close()
	scan := &scanner{builder: e.builder}
	var file int32
	var number, line int64
	var text sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&file, &number, &line, &text); err != nil {
			return err
		}
		scan.batch = e.batch
		if err := scan.line(text, line, number); err != nil {
			return fmt.Errorf("a row that was sorted on disk does not read: %w", err)
		}
		e.batch.Records[len(e.batch.Records)-1].File = file
		if err := e.full(); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *spill) remove() error {
	if s.input != nil {
		s.input.close()
	}
	var err error
	if s.db != nil {
		err = s.db.Close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

package sqlite

import (
	"database/sql/driver"
	"strings"

	"github.com/tapyr/tapyr/spend/book"
)

// flush writes what the database does not know yet, many rows with each statement.
func (tx *spendTx) flush() error {
	tx.values = tx.values[:0]
	for i := range tx.appended {
		e := &tx.appended[i]
		tx.values = append(tx.values, e.Seq, string(e.Body), e.Hash)
	}
	if err := tx.putRows(insertSpendEntry, 3); err != nil {
		return err
	}
	tx.appended = tx.appended[:0]
	events := spendTables[book.KindEvent]
	tx.values = tx.values[:0]
	for _, key := range tx.dirty {
		if key.Kind != book.KindEvent {
			continue
		}
		values, err := encodeEvent(tx.records[key])
		if err != nil {
			return err
		}
		tx.values = append(tx.values, values...)
	}
	if err := tx.putRows(events.put, len(events.columns)); err != nil {
		return err
	}
	for _, key := range tx.dirty {
		if key.Kind == book.KindEvent {
			continue
		}
		t := spendTables[key.Kind]
		values, err := t.encode(tx.records[key])
		if err != nil {
			return err
		}
		if err := tx.exec(t.put, values...); err != nil {
			return err
		}
	}
	tx.dirty = tx.dirty[:0]
	clear(tx.isDirty)
	return nil
}

// spendBatches are how many rows a statement takes, the most first: each is prepared once.
var spendBatches = [...]int{32, 8, 1}

// putRows runs a statement for one row, "... VALUES (?, ?)" and what may follow, for all rows of tx.values.
func (tx *spendTx) putRows(text string, width int) error {
	rest := tx.values
	for _, n := range spendBatches {
		if len(rest) < n*width {
			continue
		}
		many := spendMany{text, n}
		if tx.many[many] == "" {
			row := "(?" + strings.Repeat(", ?", width-1) + ")"
			tx.many[many] = strings.Replace(text, row, row+strings.Repeat(", "+row, n-1), 1)
		}
		for ; len(rest) >= n*width; rest = rest[n*width:] {
			if err := tx.exec(tx.many[many], rest[:n*width]...); err != nil {
				return err
			}
		}
	}
	return nil
}

// spendMany names the form of a statement for n rows.
type spendMany struct {
	text string
	n    int
}

// fetch reads the records that the transactions of jobs will ask for, many with each statement.
func (tx *spendTx) fetch(jobs []*spendJob) error {
	if len(jobs) < 2 {
		return nil // it reads what it needs
	}
	wanted := make(map[string][]driver.Value) // by policy
	for _, job := range jobs {
		var key book.Key
		if !key.ExpectedIn(job.ctx) || key.Kind != book.KindEvent {
			continue
		}
		if _, known := tx.records[key]; !known {
			tx.records[key] = nil
			wanted[key.Policy] = append(wanted[key.Policy], key.Name)
		}
	}
	events := spendTables[book.KindEvent]
	for policy, names := range wanted {
		for len(names) > 0 {
			n := spendBatches[0]
			for len(names) < n { // the statement takes so many: the last name again does no harm
				names = append(names, names[len(names)-1])
			}
			args := append([]driver.Value{policy}, names[:n]...)
			names = names[n:]
			err := tx.query(selectSpendEvents, args, func(row []driver.Value) error {
				r, err := events.read(row)
				if err == nil {
					tx.records[r.Key()] = r
				}
				return err
			})
			if err != nil {
				tx.forget() // what was not read must not stand for what is not there
				return err
			}
		}
	}
	return nil
}

const insertSpendEntry = "INSERT INTO spend_chain (seq, body, entry_hash) VALUES (?, ?, ?)"

var selectSpendEvents = "SELECT " + strings.Join(spendEventColumns, ", ") + " FROM spend_events WHERE policy = ? AND event_id IN (?" +
	strings.Repeat(", ?", spendBatches[0]-1) + ")"

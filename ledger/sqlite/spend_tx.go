package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/mattn/go-sqlite3"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// spendTx is a connection with the transaction that runs on it. What is read and written passes through records, so that a group
// of transactions reads each counter once and writes it once. The writer keeps counters from group to group, as long as no
// other process has written.
type spendTx struct {
	conn     *sqlite3.SQLiteConn
	readOnly bool
	prepared map[string]*sqlite3.SQLiteStmt
	args     []driver.NamedValue // of the statement that runs
	values   []driver.Value      // of the rows that are being written
	many     map[spendMany]string

	// records are what is known of the database, nil for a record that it does not have; dirty are those that it does not know
	// yet, in the order of their first writing.
	records map[book.Key]book.Record
	dirty   []book.Key
	isDirty map[book.Key]bool
	// head is the end of the chain, with the entries of appended, which the database does not know yet.
	head     *chain.Head
	appended []chain.Entry
	// dataVersion changes when another connection writes.
	dataVersion int64

	// What the transaction that runs in the group has done; see mark and undo.
	replaced     []replacedRecord
	headBefore   *chain.Head
	appendedFrom int
	flushed      bool
}

// replacedRecord is what stood under a key before.
type replacedRecord struct {
	key   book.Key
	old   book.Record
	known bool
	dirty bool
}

var errSpendReadOnly = errors.New("write in a view: use Update")

func newSpendTx(c *sqlite3.SQLiteConn) *spendTx {
	return &spendTx{
		conn: c, prepared: make(map[string]*sqlite3.SQLiteStmt), many: make(map[spendMany]string),
		records: make(map[book.Key]book.Record), isDirty: make(map[book.Key]bool), dataVersion: -1,
	}
}

func (tx *spendTx) close() {
	for _, stmt := range tx.prepared {
		_ = stmt.Close() // the connection goes too
	}
	_ = tx.conn.Close()
}

// begin starts a group. It takes the write lock at once, so that what is read holds until the commit.
func (tx *spendTx) begin(ctx context.Context) error {
	var err error
	for range spendBusyTries {
		err = spendExec(tx.conn, "BEGIN IMMEDIATE")
		var code sqlite3.Error
		if !errors.As(err, &code) || code.Code != sqlite3.ErrBusy || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	version := tx.dataVersion
	err = tx.query("PRAGMA data_version", nil, func(row []driver.Value) error {
		tx.dataVersion = row[0].(int64)
		return nil
	})
	if err != nil || version != tx.dataVersion {
		tx.forget()
	}
	if err != nil {
		tx.rollback()
	}
	return err
}

// forget drops everything that is known of the database.
func (tx *spendTx) forget() {
	clear(tx.records)
	clear(tx.isDirty)
	tx.dirty, tx.appended, tx.head = tx.dirty[:0], tx.appended[:0], nil
}

func (tx *spendTx) rollback() {
	_ = spendExec(tx.conn, "ROLLBACK") // SQLite may have rolled back already
	tx.forget()
}

// spendKeptMax bounds the records that are kept from one group to the next.
const spendKeptMax = 4096

// settle ends a committed group. Events are seldom asked for again soon; counters are, by every admission.
func (tx *spendTx) settle() {
	for key := range tx.records {
		if key.Kind == book.KindEvent || len(tx.records) > spendKeptMax {
			delete(tx.records, key)
		}
	}
}

// mark begins a transaction of the group.
func (tx *spendTx) mark() {
	tx.replaced, tx.appendedFrom, tx.flushed = tx.replaced[:0], len(tx.appended), false
	tx.headBefore = tx.head
}

// undo takes back what was written since mark. It is false where some of it has reached the database.
func (tx *spendTx) undo() bool {
	if tx.flushed {
		return false
	}
	for _, r := range slices.Backward(tx.replaced) {
		if r.known {
			tx.records[r.key] = r.old
		} else {
			delete(tx.records, r.key)
		}
		if !r.dirty {
			delete(tx.isDirty, r.key)
			tx.dirty = slices.DeleteFunc(tx.dirty, func(k book.Key) bool { return k == r.key })
		}
	}
	tx.appended = tx.appended[:tx.appendedFrom]
	tx.head = tx.headBefore
	return true
}

// Get implements book.Tx.
func (tx *spendTx) Get(key book.Key) (book.Record, error) {
	if r, ok := tx.records[key]; ok {
		return r, nil
	}
	r, err := tx.load(key)
	if err != nil {
		return nil, spendError("read", err)
	}
	tx.records[key] = r
	return r, nil
}

// Put implements book.Tx.
func (tx *spendTx) Put(records ...book.Record) error {
	if tx.readOnly {
		return errSpendReadOnly
	}
	for _, r := range records {
		key := r.Key()
		old, known := tx.records[key]
		dirty := tx.isDirty[key]
		tx.replaced = append(tx.replaced, replacedRecord{key, old, known, dirty})
		tx.records[key] = r
		if !dirty {
			tx.isDirty[key] = true
			tx.dirty = append(tx.dirty, key)
		}
	}
	return nil
}

// Head implements book.Tx.
func (tx *spendTx) Head() (chain.Head, error) {
	if tx.head != nil {
		return *tx.head, nil
	}
	var head chain.Head
	err := tx.query("SELECT seq, entry_hash FROM spend_chain ORDER BY seq DESC LIMIT 1", nil, func(row []driver.Value) error {
		head = chain.Head{Count: row[0].(int64), Hash: row[1].(string)}
		return nil
	})
	if err != nil {
		return head, spendError("read", err)
	}
	tx.head = &head
	return head, nil
}

// Append implements book.Tx.
func (tx *spendTx) Append(e chain.Entry) error {
	if tx.readOnly {
		return errSpendReadOnly
	}
	head, err := tx.Head()
	if err != nil {
		return err
	}
	if e.Seq != head.Count+1 {
		return fmt.Errorf("entry %d cannot be appended: %d follows", e.Seq, head.Count+1)
	}
	tx.appended = append(tx.appended, e)
	next := e.Head()
	tx.head = &next
	return nil
}

// Entry implements book.Tx.
func (tx *spendTx) Entry(seq int64) (chain.Entry, error) {
	if n := len(tx.appended); n > 0 && seq >= tx.appended[0].Seq && seq <= tx.appended[n-1].Seq {
		return tx.appended[seq-tx.appended[0].Seq], nil
	}
	var e chain.Entry
	err := tx.query(selectSpendEntries+" WHERE seq = ?", []driver.Value{seq}, func(row []driver.Value) error {
		e = spendEntry(row)
		return nil
	})
	if err != nil {
		return e, spendError("read", err)
	}
	return e, nil
}

// Erase implements book.Tx.
func (tx *spendTx) Erase(seq int64) error {
	if tx.readOnly {
		return errSpendReadOnly
	}
	e, err := tx.Entry(seq)
	if err != nil {
		return err
	}
	if e.Seq == 0 {
		return fmt.Errorf("entry %d does not exist", seq)
	}
	if err := tx.flushFor("erase"); err != nil {
		return err
	}
	tx.flushed = true // an update of the database itself, which undo cannot take back
	if err := tx.exec("UPDATE spend_chain SET body = NULL, previous_hash = ? WHERE seq = ?", e.Previous, seq); err != nil {
		return spendError("erase", err)
	}
	return nil
}

// spendPageRows is how many rows a walk reads at once. Between pages the caller may write.
const spendPageRows = 256

// Entries implements book.Tx.
func (tx *spendTx) Entries(from int64) iter.Seq2[chain.Entry, error] {
	return func(yield func(chain.Entry, error) bool) {
		for {
			var page []chain.Entry
			err := tx.page(selectSpendEntries+" WHERE seq >= ? ORDER BY seq LIMIT ?", []driver.Value{from, int64(spendPageRows)},
				func(row []driver.Value) error {
					page = append(page, spendEntry(row))
					return nil
				})
			if err != nil {
				yield(chain.Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				from = e.Seq + 1
			}
			if len(page) < spendPageRows {
				return
			}
		}
	}
}

// Events implements book.Tx.
func (tx *spendTx) Events(q book.Query) iter.Seq2[*book.Event, error] {
	return func(yield func(*book.Event, error) bool) {
		cursor := spendCursor{seq: q.AfterSeq}
		events := spendTables[book.KindEvent]
		for {
			text, args := spendEventQuery(q, cursor)
			var page []*book.Event
			err := tx.page(text, args, func(row []driver.Value) error {
				r, err := events.read(row)
				page = append(page, r.(*book.Event))
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range page {
				cursor = spendCursor{book.Nanos(e.Deadline), e.AdmissionSeq}
				if r, ok := tx.records[e.Key()].(*book.Event); ok { // written since the page was read
					e = r
				}
				if q.Matches(e) && !yield(e, nil) {
					return
				}
			}
			if len(page) < spendPageRows {
				return
			}
		}
	}
}

// List implements book.Tx.
func (tx *spendTx) List(kind book.Kind, policy string) iter.Seq2[book.Record, error] {
	return func(yield func(book.Record, error) bool) {
		spendTable := spendTables[kind]
		var found []book.Record
		err := tx.page(spendTable.list, []driver.Value{policy, policy}, func(row []driver.Value) error {
			r, err := spendTable.read(row)
			found = append(found, r)
			return err
		})
		if err != nil {
			yield(nil, err)
			return
		}
		slices.SortFunc(found, func(a, b book.Record) int { return book.CompareKeys(a.Key(), b.Key()) })
		for _, r := range found {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// page runs a query of many rows, which must see what was written before.
func (tx *spendTx) page(text string, args []driver.Value, visit func([]driver.Value) error) error {
	if err := tx.flushFor("read"); err != nil {
		return err
	}
	if err := tx.query(text, args, visit); err != nil {
		return spendError("read", err)
	}
	return nil
}

func (tx *spendTx) flushFor(op string) error {
	if len(tx.replaced) > 0 || len(tx.appended) > tx.appendedFrom {
		tx.flushed = true
	}
	if err := tx.flush(); err != nil {
		return spendError(op, err)
	}
	tx.appendedFrom = 0
	return nil
}

// statement is a prepared one; each text is prepared once.
func (tx *spendTx) statement(text string) (*sqlite3.SQLiteStmt, error) {
	if stmt, ok := tx.prepared[text]; ok {
		return stmt, nil
	}
	prepared, err := tx.conn.Prepare(text)
	if err != nil {
		return nil, err
	}
	stmt := prepared.(*sqlite3.SQLiteStmt)
	tx.prepared[text] = stmt
	return stmt, nil
}

// exec runs a statement that returns no rows. It goes by the driver's way for queries, which binds all arguments and takes the first
// step in one call from Go to C; its way for other statements makes one for each argument.
func (tx *spendTx) exec(text string, args ...driver.Value) error {
	return tx.query(text, args, func([]driver.Value) error { return nil })
}

func (tx *spendTx) query(text string, args []driver.Value, visit func([]driver.Value) error) error {
	stmt, err := tx.statement(text)
	if err != nil {
		return err
	}
	tx.args = tx.args[:0]
	for i, value := range args {
		tx.args = append(tx.args, driver.NamedValue{Ordinal: i + 1, Value: value})
	}
	rows, err := stmt.QueryContext(context.Background(), tx.args)
	if err != nil {
		return err
	}
	return spendRows(rows, visit)
}

package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tapyr/tapyr/spend/audit"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/chain"
)

// spendTable is how a kind of record is kept.
type spendTable struct {
	// name and columns are the table's; decode reads the columns in this order.
	name    string
	columns []string
	// get selects one record by the arguments that key makes; list those of a policy, or all where it is empty.
	get  string
	key  func(book.Key) []driver.Value
	list string
	// put inserts or replaces the record whose values encode makes, in the order of the columns.
	put    string
	encode func(book.Record) ([]driver.Value, error)
	decode func([]driver.Value) (book.Record, error)
}

// newSpendTable writes the statements. The first columns, as many as key says, are the primary key.
func newSpendTable(name string, columns []string, keys int, t spendTable) spendTable {
	all := strings.Join(columns, ", ")
	t.name, t.columns = name, columns
	t.get = "SELECT " + all + " FROM " + name + " WHERE " + strings.Join(columns[:keys], " = ? AND ") + " = ?"
	t.list = "SELECT " + all + " FROM " + name + " WHERE policy = ? OR ? = ''"
	t.put = spendUpsert(name, columns, columns[:keys])
	return t
}

// spendUpsert inserts a row, or updates the one with the same key.
func spendUpsert(name string, columns, key []string) string {
	var set []string
	for _, c := range columns[len(key):] {
		set = append(set, c+" = excluded."+c)
	}
	return "INSERT INTO " + name + " (" + strings.Join(columns, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(columns)-1) +
		") ON CONFLICT (" + strings.Join(key, ", ") + ") DO UPDATE SET " + strings.Join(set, ", ")
}

var spendEventColumns = []string{
	"admission_seq", "policy", "event_id", "capability", "state", "disposition", "route", "route_class",
	"reserved", "actual", "version", "window_start", "admitted_at", "decided_at", "updated_at",
	"day", "deadline", "waiting", "outbox", "decision_seq", "last_seq", "details",
}

// spendDetails are the fields of an event that most events do not have.
type spendDetails struct {
	OnDeadline  book.Disposition  `json:"on_deadline,omitempty"`
	Attempts    int64             `json:"attempts,omitempty"`
	Result      string            `json:"result,omitempty"`
	Class       string            `json:"class,omitempty"`
	Size        int64             `json:"size,omitempty"`
	Vars        map[string]string `json:"vars,omitempty"`
	Reference   string            `json:"reference,omitempty"`
	ContentHash string            `json:"content_hash,omitempty"`
	Response    string            `json:"response,omitempty"`
	ResponseAt  int64             `json:"response_at,omitempty"`
	Pruned      bool              `json:"pruned,omitempty"`
	InDoubt     bool              `json:"in_doubt,omitempty"`
}

// isZero is the common case, in which nothing needs to be encoded.
func (d *spendDetails) isZero() bool {
	return d.OnDeadline == "" && d.Attempts == 0 && d.Result == "" && d.Class == "" && d.Size == 0 && d.Vars == nil &&
		d.Reference == "" && d.ContentHash == "" && d.Response == "" && d.ResponseAt == 0 && !d.Pruned && !d.InDoubt
}

// spendTables are the kinds of records. An event's key is not its primary key, see 0002_spend.sql.
var spendTables = map[book.Kind]spendTable{
	book.KindEvent: {
		name: "spend_events", columns: spendEventColumns,
		get:    "SELECT " + strings.Join(spendEventColumns, ", ") + " FROM spend_events WHERE policy = ? AND event_id = ?",
		key:    func(k book.Key) []driver.Value { return []driver.Value{k.Policy, k.Name} },
		put:    spendUpsert("spend_events", spendEventColumns, spendEventColumns[:1]),
		encode: encodeEvent,
		decode: func(row []driver.Value) (book.Record, error) { return spendEvent(row) },
	},
	book.KindCounter: newSpendTable("spend_counters",
		[]string{"policy", "capability", "window_start", "window_end", "used", "settled", "crossed"}, 3, spendTable{
			key:    func(k book.Key) []driver.Value { return []driver.Value{k.Policy, k.Name, k.StartNanos} },
			encode: encodeCounter, decode: decodeCounter,
		}),
	book.KindTally: newSpendTable("spend_tallies",
		[]string{"policy", "day", "capability", "disposition", "route_class", "events", "reserved", "settled"}, 5, spendTable{
			key: func(k book.Key) []driver.Value {
				disposition, class, _ := strings.Cut(k.Class, " ")
				return []driver.Value{k.Policy, k.Name, k.Detail, disposition, class}
			},
			encode: encodeTally, decode: decodeTally,
		}),
	book.KindStatus: newSpendTable("spend_status",
		[]string{"policy", "active", "active_seq", "window_start", "next_deadline", "deferred"}, 1, spendTable{
			key:    func(k book.Key) []driver.Value { return []driver.Value{k.Policy} },
			encode: encodeStatus, decode: decodeStatus,
		}),
	book.KindVersion: newSpendTable("spend_versions",
		[]string{"policy", "version", "content", "content_hash", "record", "published_at", "seq"}, 2, spendTable{
			key:    func(k book.Key) []driver.Value { return []driver.Value{k.Policy, k.Name} },
			encode: encodeVersion, decode: decodeVersion,
		}),
}

// read decodes a row. The error is a *audit.DamageError.
func (t *spendTable) read(row []driver.Value) (book.Record, error) {
	r, err := t.decode(row)
	var bad *spendColumnError
	if errors.As(err, &bad) {
		column := ""
		if bad.index < len(t.columns) {
			column = t.columns[bad.index]
		}
		return r, &audit.DamageError{Table: t.name, Key: r.Key(), Column: column, Reason: bad.reason}
	}
	return r, err
}

// load reads a record from the database; nil where there is none.
func (tx *spendTx) load(key book.Key) (book.Record, error) {
	t, ok := spendTables[key.Kind]
	if !ok {
		return nil, fmt.Errorf("kind of record %d is unknown", key.Kind)
	}
	var found book.Record
	err := tx.query(t.get, t.key(key), func(row []driver.Value) error {
		var err error
		found, err = t.read(row)
		return err
	})
	return found, err
}

const selectSpendEntries = "SELECT seq, body, previous_hash, entry_hash FROM spend_chain"

func spendEntry(row []driver.Value) chain.Entry {
	e := chain.Entry{Seq: row[0].(int64)}
	e.Previous, _ = row[2].(string)
	e.Hash, _ = row[3].(string)
	if body, ok := row[1].(string); ok {
		e.Body = []byte(body)
		e.Previous = e.Text("previous_hash")
	}
	return e
}

// spendCursor is the last event of a page.
type spendCursor struct{ deadline, seq int64 }

// spendEventQuery is the statement for the page of events behind the cursor.
func spendEventQuery(q book.Query, after spendCursor) (string, []driver.Value) {
	var b strings.Builder
	b.WriteString("SELECT " + strings.Join(spendEventColumns, ", ") + " FROM spend_events WHERE policy = ?")
	args := []driver.Value{q.Policy}
	order := "admission_seq"
	if q.DueBy.IsZero() {
		b.WriteString(" AND admission_seq > ?")
		args = append(args, after.seq)
	} else {
		b.WriteString(" AND deadline <> 0 AND (state = 'deferred' OR waiting <> 0) AND deadline <= ? AND (deadline, admission_seq) > (?, ?)")
		args = append(args, book.Nanos(q.DueBy), after.deadline, after.seq)
		order = "deadline, admission_seq"
	}
	if q.Capability != "" {
		b.WriteString(" AND capability = ?")
		args = append(args, q.Capability)
	}
	if q.Outbox {
		b.WriteString(" AND outbox <> 0")
	}
	switch len(q.States) {
	case 0:
	case 1: // as a text of the statement: only then is the partial index of deferred events used
		b.WriteString(" AND state = '" + spendQuoted(q.States[0]) + "'")
	default:
		b.WriteString(" AND state IN ('" + spendQuoted(q.States[0]) + "'")
		for _, state := range q.States[1:] {
			b.WriteString(", '" + spendQuoted(state) + "'")
		}
		b.WriteString(")")
	}
	fmt.Fprintf(&b, " ORDER BY %s LIMIT %d", order, spendPageRows)
	return b.String(), args
}

func spendQuoted(s book.State) string { return strings.ReplaceAll(string(s), "'", "''") }

// spendRow reads the values of a row one after the other and remembers the first that is not what it should be.
type spendRow struct {
	row []driver.Value
	// at is the index of the value that comes next.
	at  int
	bad *spendColumnError
}

// spendColumnError is a value that cannot stand in its column.
type spendColumnError struct {
	index  int
	reason string
}

func (e *spendColumnError) Error() string { return e.reason }

// err is an error only where there is one.
func (c *spendRow) err() error {
	if c.bad == nil {
		return nil
	}
	return c.bad
}

func (c *spendRow) fail(format string, args ...any) {
	if c.bad == nil {
		c.bad = &spendColumnError{c.at - 1, fmt.Sprintf(format, args...)}
	}
}

func (c *spendRow) next() driver.Value {
	c.at++
	if c.at > len(c.row) {
		c.fail("row has too few columns")
		return nil
	}
	return c.row[c.at-1]
}

func (c *spendRow) text() string {
	v := c.next()
	s, ok := v.(string)
	if !ok {
		c.fail("%v is no text", v)
	}
	return s
}

func (c *spendRow) int() int64 {
	v := c.next()
	n, ok := v.(int64)
	if !ok {
		c.fail("%v is no whole number", v)
	}
	return n
}

func (c *spendRow) bool() bool      { return c.int() != 0 }
func (c *spendRow) time() time.Time { return book.FromNanos(c.int()) }

func (c *spendRow) units() book.Units {
	text := c.text()
	u, err := book.RestoreUnits(text)
	if err != nil {
		c.fail("%q is no amount", text)
	}
	return u
}

func (c *spendRow) json(into any) {
	text := c.text()
	if text == "" || c.bad != nil {
		return
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		c.fail("%q: %v", text, err)
	}
}

func spendEvent(row []driver.Value) (*book.Event, error) {
	c := &spendRow{row: row}
	e := &book.Event{
		AdmissionSeq: c.int(), Policy: c.text(), ID: c.text(), Capability: c.text(),
		State: book.State(c.text()), Disposition: book.Disposition(c.text()), Route: c.text(), RouteClass: c.text(),
		Reserved: c.units(), Actual: c.units(), Version: c.text(),
		WindowStart: c.time(), AdmittedAt: c.time(), DecidedAt: c.time(), UpdatedAt: c.time(),
		Day: c.text(), Deadline: c.time(), Waiting: c.bool(), Outbox: c.bool(),
		DecisionSeq: c.int(), LastSeq: c.int(),
	}
	var d spendDetails
	c.json(&d)
	e.OnDeadline, e.Attempts, e.Result, e.Class, e.Size, e.Vars = d.OnDeadline, d.Attempts, d.Result, d.Class, d.Size, d.Vars
	e.Reference, e.ContentHash, e.Response, e.ResponseAt = d.Reference, d.ContentHash, d.Response, book.FromNanos(d.ResponseAt)
	e.Pruned, e.InDoubt = d.Pruned, d.InDoubt
	return e, c.err()
}

func encodeEvent(r book.Record) ([]driver.Value, error) {
	e := r.(*book.Event)
	d := spendDetails{
		e.OnDeadline, e.Attempts, e.Result, e.Class, e.Size, e.Vars, e.Reference, e.ContentHash, e.Response, book.Nanos(e.ResponseAt), e.Pruned,
		e.InDoubt,
	}
	details := ""
	if !d.isZero() {
		text, err := json.Marshal(d)
		if err != nil {
			return nil, err
		}
		details = string(text)
	}
	return []driver.Value{
		e.AdmissionSeq, e.Policy, e.ID, e.Capability, string(e.State), string(e.Disposition), e.Route, e.RouteClass,
		e.Reserved.String(), e.Actual.String(), e.Version,
		book.Nanos(e.WindowStart), book.Nanos(e.AdmittedAt), book.Nanos(e.DecidedAt), book.Nanos(e.UpdatedAt),
		e.Day, book.Nanos(e.Deadline), e.Waiting, e.Outbox, e.DecisionSeq, e.LastSeq, details,
	}, nil
}

func encodeCounter(r book.Record) ([]driver.Value, error) {
	c := r.(*book.Counter)
	crossed := ""
	if len(c.Crossed) > 0 {
		text, err := json.Marshal(c.Crossed)
		if err != nil {
			return nil, err
		}
		crossed = string(text)
	}
	return []driver.Value{
		c.Policy, c.Capability, book.Nanos(c.Start), book.Nanos(c.End), c.Used.String(), c.Settled.String(), crossed,
	}, nil
}

func decodeCounter(row []driver.Value) (book.Record, error) {
	c := &spendRow{row: row}
	r := &book.Counter{Policy: c.text(), Capability: c.text(), Start: c.time(), End: c.time(), Used: c.units(), Settled: c.units()}
	c.json(&r.Crossed)
	return r, c.err()
}

func encodeTally(r book.Record) ([]driver.Value, error) {
	t := r.(*book.Tally)
	return []driver.Value{
		t.Policy, t.Day, t.Capability, string(t.Disposition), t.RouteClass, t.Events, t.Reserved.String(), t.Settled.String(),
	}, nil
}

func decodeTally(row []driver.Value) (book.Record, error) {
	c := &spendRow{row: row}
	r := &book.Tally{
		Policy: c.text(), Day: c.text(), Capability: c.text(), Disposition: book.Disposition(c.text()), RouteClass: c.text(),
		Events: c.int(), Reserved: c.units(), Settled: c.units(),
	}
	return r, c.err()
}

func encodeStatus(r book.Record) ([]driver.Value, error) {
	s := r.(*book.Status)
	deferred := ""
	if len(s.Deferred) > 0 {
		text, err := json.Marshal(s.Deferred)
		if err != nil {
			return nil, err
		}
		deferred = string(text)
	}
	return []driver.Value{
		s.Policy, s.Active, s.ActiveSeq, book.Nanos(s.WindowStart), book.Nanos(s.NextDeadline), deferred,
	}, nil
}

func decodeStatus(row []driver.Value) (book.Record, error) {
	c := &spendRow{row: row}
	r := &book.Status{Policy: c.text(), Active: c.text(), ActiveSeq: c.int(), WindowStart: c.time(), NextDeadline: c.time()}
	c.json(&r.Deferred)
	return r, c.err()
}

func encodeVersion(r book.Record) ([]driver.Value, error) {
	v := r.(*book.Version)
	return []driver.Value{v.Policy, v.Version, v.Content, v.Hash, v.Record, book.Nanos(v.PublishedAt), v.Seq}, nil
}

func decodeVersion(row []driver.Value) (book.Record, error) {
	c := &spendRow{row: row}
	r := &book.Version{
		Policy: c.text(), Version: c.text(), Content: c.text(), Hash: c.text(), Record: c.text(), PublishedAt: c.time(), Seq: c.int(),
	}
	return r, c.err()
}

// Package reconcile compares what was reserved with what a vendor says was spent.
package reconcile

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tapyr/tapyr/spend/book"
)

// Row is one charge.
type Row struct {
	// Line is where it begins in the file, from 1.
	Line int
	// EventID is the event that was charged.
	EventID string
	// Amount is what was charged, in the policy's unit. It is negative where a vendor takes a charge back.
	Amount book.Units
	// SettledAt is when; zero where the file does not say.
	SettledAt time.Time
}

// RowError is a row that cannot be read. The others count nevertheless.
type RowError struct {
	Line   int
	Reason string
}

// Error names the line.
func (e *RowError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Columns says which column of a file holds what. A column may be COLUMN.NAME for a member of a column that holds a JSON object,
// as Tags does in FOCUS exports.
type Columns struct {
	EventID, Amount, SettledAt string
	// Currency, where it is not empty, must hold the policy's unit in every row.
	Currency string
}

// Plain is a file of the columns event_id, amount and settled_at.
func Plain() Columns { return Columns{EventID: "event_id", Amount: "amount", SettledAt: "settled_at"} }

// FOCUS is a cost export in the FinOps Open Cost and Usage Specification, 1.0 and later, with the event in the tag event_id
// (https://focus.finops.org/focus-specification/). A charge counts when its period begins.
func FOCUS() Columns {
	return Columns{EventID: "Tags.event_id", Amount: "BilledCost", SettledAt: "ChargePeriodStart", Currency: "BillingCurrency"}
}

// WithMap replaces columns by those of a map with the keys event_id, amount, settled_at and currency. An empty column stands for
// none, which only settled_at and currency may be. The error names an unknown key.
func (c Columns) WithMap(columns map[string]string) (Columns, error) {
	for field, column := range columns {
		switch field {
		case "event_id":
			c.EventID = column
		case "amount":
			c.Amount = column
		case "settled_at":
			c.SettledAt = column
		case "currency":
			c.Currency = column
		default:
			return c, fmt.Errorf("map has the field %q; want event_id, amount, settled_at or currency", field)
		}
	}
	if c.EventID == "" || c.Amount == "" {
		return c, errors.New("map leaves event_id or amount without a column")
	}
	return c, nil
}

// Read yields the rows of a CSV file with a header (RFC 4180; a byte order mark, CRLF, blank lines and semicolons or tabs instead
// of commas are taken as they come). unit is the policy's, compared with Columns.Currency. A bad row yields a *RowError and
// reading goes on; another error, such as a missing column, ends it.
func Read(r io.Reader, columns Columns, unit string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		in, header, err := open(r)
		if err != nil {
			yield(Row{}, err)
			return
		}
		p, err := columns.locate(header)
		if err != nil {
			yield(Row{}, err)
			return
		}
		for {
			record, err := in.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			var bad *csv.ParseError
			switch {
			case errors.As(err, &bad):
				if !yield(Row{Line: bad.StartLine}, &RowError{bad.StartLine, bad.Err.Error()}) {
					return
				}
				continue
			case err != nil:
				yield(Row{}, err)
				return
			}
			line, _ := in.FieldPos(0)
			row, reason := p.row(record, unit)
			row.Line = line
			if reason != "" {
				err = &RowError{line, reason}
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// maxBytes bounds a file; a settled file of ten million events has about one gigabyte.
const maxBytes = 4 << 30

// open reads the header and finds out what separates the columns.
func open(r io.Reader) (*csv.Reader, []string, error) {
	limited := bufio.NewReader(io.LimitReader(r, maxBytes)) // the header is read byte by byte
	first := make([]byte, 3)
	n, err := io.ReadFull(limited, first)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	rest := io.MultiReader(strings.NewReader(strings.TrimPrefix(string(first[:n]), "\ufeff")), limited)
	header, rest, err := headerLine(rest)
	if err != nil {
		return nil, nil, err
	}
	in := csv.NewReader(io.MultiReader(strings.NewReader(header), rest))
	in.Comma = separator(header)
	in.FieldsPerRecord = -1 // a short row is a bad row, not the end
	names, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil, errors.New("it is empty; want a header with the names of columns, such as event_id,amount,settled_at")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w; want the names of columns, such as event_id,amount,settled_at", err)
	}
	return in, names, nil
}

// headerLine is everything up to the first line's end, with what follows it.
func headerLine(r io.Reader) (string, io.Reader, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < 1<<20 {
		if _, err := io.ReadFull(r, one); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return "", nil, err
		}
		if line = append(line, one[0]); one[0] == '\n' {
			break
		}
	}
	return string(line), r, nil
}

func separator(header string) rune {
	best, most := ',', strings.Count(header, ",")
	for _, c := range ";\t" {
		if n := strings.Count(header, string(c)); n > most {
			best, most = c, n
		}
	}
	return best
}

// places are the indexes of the columns, -1 for none, with the member of a JSON column.
type places struct {
	event, amount, settled, currency place
}

type place struct {
	index  int
	member string
}

func (c Columns) locate(header []string) (p places, err error) {
	for i := range header {
		header[i] = strings.TrimSpace(header[i])
	}
	find := func(column string) place {
		if column == "" {
			return place{index: -1}
		}
		if i := slices.Index(header, column); i >= 0 {
			return place{index: i}
		}
		name, member, _ := strings.Cut(column, ".")
		if i := slices.Index(header, name); i >= 0 && member != "" {
			return place{i, member}
		}
		if err == nil {
			err = fmt.Errorf("column %q is missing; the file has %s; name another one with a map", column, strings.Join(header, ", "))
		}
		return place{index: -1}
	}
	p.event, p.amount = find(c.EventID), find(c.Amount)
	p.settled, p.currency = find(c.SettledAt), find(c.Currency)
	return p, err
}

// of is the value of a record, and whether there is one.
func (p place) of(record []string) (string, bool) {
	if p.index < 0 || p.index >= len(record) {
		return "", false
	}
	value := strings.TrimSpace(record[p.index])
	if p.member == "" {
		return value, value != ""
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(value), &members); err != nil {
		return "", false
	}
	text, ok := members[p.member].(string)
	return text, ok && text != ""
}

// row reads a record; the reason is empty where it can be read.
func (p *places) row(record []string, unit string) (row Row, reason string) {
	var ok bool
	if row.EventID, ok = p.event.of(record); !ok {
		return row, "has no event id"
	}
	if !utf8.ValidString(row.EventID) {
		return row, fmt.Sprintf("event id %q is not UTF-8; save the file as UTF-8", row.EventID)
	}
	text, ok := p.amount.of(record)
	if !ok {
		return row, "has no amount"
	}
	var err error
	if row.Amount, err = signedUnits(text); err != nil {
		return row, err.Error()
	}
	if currency, ok := p.currency.of(record); ok && currency != unit {
		return row, fmt.Sprintf("is in %q, the policy counts in %q", currency, unit)
	}
	if text, ok := p.settled.of(record); ok {
		if row.SettledAt, err = parseTime(text); err != nil {
			return row, err.Error()
		}
	}
	return row, ""
}

// signedUnits reads an amount that may be negative.
func signedUnits(text string) (book.Units, error) {
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		u, err := book.ParseUnits(rest)
		return book.Units{}.Sub(u), err
	}
	return book.ParseUnits(text)
}

// timeLayouts are tried in order; without an offset the time is UTC.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04", time.DateOnly,
}

func parseTime(text string) (time.Time, error) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		switch {
		case n < 1e11: // seconds up to the year 5138
			return time.Unix(n, 0).UTC(), nil
		case n < 1e14:
			return time.UnixMilli(n).UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("time %q: want RFC 3339, such as 2026-11-30T00:00:00Z, a date, or seconds or milliseconds since 1970", text)
}

package journal

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Mapping says where a field of a row comes from in a file that is not tapyr's.
type Mapping struct {
	// Field is a row's field by its JSON name; or vars.NAME or headers.NAME; or url (an absolute URL, for Options.Locate), request
	// ("GET /path HTTP/1.1"), responseTs (when the response had arrived, as web servers log it), latencySeconds, latencyMicros.
	Field string
	// Column is a column of a CSV, or a member of a JSON object: a.b is member b of member a.
	Column string
	// Text is the value itself where Column is empty.
	Text string
}

// mappable are the fields that ParseMapping knows, beside vars.NAME and headers.NAME.
var mappable = []string{
	"id", "ts", "provider", "account", "target", "credential", "method", "endpoint", "vars", "job", "priority", "retry", "auth",
	"status", "headers", "latencyMs", "refused", "body", "url", "request", "responseTs", "latencySeconds", "latencyMicros",
}

// selfMapped are the fields that are taken from a column of their own name where no mapping names them. An id is not: what
// other programs call so may not be one, and rows would be dropped for it.
var selfMapped = []string{
	"ts", "provider", "account", "target", "credential", "method", "endpoint", "job", "priority", "retry", "auth", "status",
	"latencyMs", "refused",
}

// ParseMapping reads FIELD=COLUMN, or FIELD="text" for a constant.
func ParseMapping(text string) (Mapping, error) {
	field, column, ok := strings.Cut(text, "=")
	if !ok || field == "" || column == "" {
		return Mapping{}, fmt.Errorf("%q is not a mapping: write FIELD=COLUMN, or FIELD='\"text\"' for a constant", text)
	}
	name, isVar := strings.CutPrefix(field, "vars.")
	if header, isHeader := strings.CutPrefix(field, "headers."); isHeader {
		name, isVar = header, true
	}
	if (isVar && name == "") || (!isVar && !slices.Contains(mappable, field)) {
		return Mapping{}, fmt.Errorf("%q is not a field of a row: allowed are %s, vars.NAME and headers.NAME", field, strings.Join(mappable, ", "))
	}
	if len(column) >= 2 && column[0] == '"' && column[len(column)-1] == '"' {
		return Mapping{Field: field, Text: column[1 : len(column)-1]}, nil
	}
	return Mapping{Field: field, Column: column}, nil
}

// mapped tells whether a file is one that the mappings describe: whether it has the column of the time, or, where that is not
// mapped, of any field.
func mapped(mappings []Mapping, has func(column string) bool) bool {
	any := false
	for _, m := range mappings {
		if m.Column == "" {
			continue
		}
		if m.Field == "ts" || m.Field == "responseTs" {
			return has(m.Column)
		}
		any = any || has(m.Column)
	}
	return any
}

func lastOf(column string) string { return column[strings.LastIndexByte(column, '.')+1:] }

// mapper makes rows of records whose columns it is told.
type mapper struct {
	options  *Options
	mappings []Mapping
}

func newMapper(options *Options) *mapper {
	m := &mapper{options: options, mappings: slices.Clone(options.Map)}
	for _, field := range selfMapped {
		if !slices.ContainsFunc(options.Map, func(o Mapping) bool { return covers(o.Field, field) }) {
			m.mappings = append(m.mappings, Mapping{Field: field, Column: field})
		}
	}
	return m
}

// covers tells whether a mapped field makes another one's column irrelevant.
func covers(mapped, field string) bool {
	switch mapped {
	case field:
		return true
	case "responseTs":
		return field == "ts"
	case "latencySeconds", "latencyMicros":
		return field == "latencyMs"
	case "url":
		return field == "endpoint"
	case "request":
		return field == "endpoint" || field == "method"
	default:
		return false
	}
}

// draft is a row being put together from columns.
type draft struct {
	row      Row
	at       instant
	hasTime  bool
	response bool // at is when the response had arrived
	skip     bool // of a host that nobody knows
}

// row makes a row of one record; get returns a column's text.
func (m *mapper) row(get func(column string) (string, bool)) (draft, error) {
	var d draft
	for i := range m.mappings {
		mapping := &m.mappings[i]
		text := mapping.Text
		if mapping.Column != "" {
			var ok bool
			if text, ok = get(mapping.Column); !ok {
				continue
			}
		}
		// Web servers write a dash for what there is not.
		if text == "" || text == "-" {
			continue
		}
		if err := m.set(&d, mapping.Field, text); err != nil {
			return d, err
		}
	}
	if !d.hasTime {
		return d, errNoTime
	}
	if d.response {
		d.at.nanos -= int64(d.row.Latency)
	}
	d.row.Body = clipBody(d.row.Body)
	return d, nil
}

func (m *mapper) set(d *draft, field, text string) (err error) {
	r := &d.row
	switch field {
	case "ts", "responseTs":
		d.at, err = parseInstant(text)
		d.hasTime, d.response = true, field == "responseTs"
	case "status":
		r.Status, err = parseStatus(text)
	case "latencyMs":
		r.Latency, err = parseLatency(text, time.Millisecond)
	case "latencySeconds":
		r.Latency, err = parseLatency(text, time.Second)
	case "latencyMicros":
		r.Latency, err = parseLatency(text, time.Microsecond)
	case "retry":
		r.Retry, err = parseBool(text)
	case "auth":
		r.Auth, err = parseBool(text)
	case "vars":
		r.Vars, err = parseMap(text)
	case "headers":
		r.Headers, err = parseMap(text)
	case "url", "endpoint":
		d.skip, err = m.locate(r, text)
	case "request":
		method, rest, ok := strings.Cut(text, " ")
		if !ok {
			return fmt.Errorf("request %q is not a method and a path", text)
		}
		path, _, _ := strings.Cut(rest, " ")
		r.Method = method
		d.skip, err = m.locate(r, path)
	default:
		setText(r, field, text)
	}
	return err
}

// setText sets a field that is text.
func setText(r *Row, field, text string) {
	switch field {
	case "id":
		r.ID = text
	case "provider":
		r.Provider = text
	case "account":
		r.Account = text
	case "target":
		r.Target = text
	case "credential":
		r.Credential = text
	case "method":
		r.Method = text
	case "job":
		r.Job = text
	case "priority":
		r.Priority = text
	case "refused":
		r.Refused = text
	case "body":
		r.Body = text
	default:
		if name, ok := strings.CutPrefix(field, "vars."); ok {
			r.Vars = with(r.Vars, name, text)
		} else if name, ok := strings.CutPrefix(field, "headers."); ok {
			r.Headers = with(r.Headers, name, text)
		}
	}
}

func with(m map[string]string, name, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[name] = value
	return m
}

// locate sets the endpoint from a path or an absolute URL; skip where the URL's host is nobody's.
func (m *mapper) locate(r *Row, text string) (skip bool, err error) {
	if !strings.Contains(text, "://") {
		r.Endpoint = text
		return false, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return false, err
	}
	return !locate(r, u, m.options), nil
}

// locate finds whose URL it is, and tells whether it is anybody's.
func locate(r *Row, u *url.URL, options *Options) bool {
	r.Endpoint = u.EscapedPath()
	if options.Locate != nil {
		provider, account, path, ok := options.Locate(u)
		if !ok {
			return false
		}
		r.Provider, r.Account, r.Endpoint = provider, account, path
	}
	if r.Endpoint == "" {
		r.Endpoint = "/"
	}
	if u.RawQuery != "" && !strings.Contains(r.Endpoint, "?") {
		r.Endpoint += "?" + u.RawQuery
	}
	return true
}

func parseStatus(text string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("status %q is not a number", text)
	}
	return int(n), checkStatus(n)
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "", "false", "f", "0", "no", "n":
		return false, nil
	case "true", "t", "1", "yes", "y":
		return true, nil
	default:
		return false, fmt.Errorf("%q is neither true nor false", text)
	}
}

// parseMap reads a JSON object of strings.
func parseMap(text string) (m map[string]string, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, fmt.Errorf("%q is not a JSON object of texts: %w", text, err)
	}
	return m, nil
}

// mappedLines parses objects that are not tapyr's.
type mappedLines struct {
	builder
	mapper *mapper
}

func (l *mappedLines) line(b []byte, line, number int64) error {
	var object map[string]jsontext.Value
	if err := json.Unmarshal(b, &object); err != nil {
		return err
	}
	d, err := l.mapper.row(func(column string) (string, bool) { return member(object, column) })
	if err != nil {
		return err
	}
	if d.skip {
		l.batch.skipped++
		return nil
	}
	l.add(&d.row, d.at, line, number)
	return nil
}

// member finds a.b.c: the member of that whole name, else member b.c of member a.
func member(object map[string]jsontext.Value, column string) (string, bool) {
	if value, ok := object[column]; ok {
		return textOf(value)
	}
	for i := range len(column) {
		if column[i] != '.' {
			continue
		}
		value, ok := object[column[:i]]
		if !ok || value.Kind() != '{' {
			continue
		}
		var inner map[string]jsontext.Value
		if json.Unmarshal(value, &inner) == nil {
			return member(inner, column[i+1:])
		}
	}
	return "", false
}

// textOf is a value as a column of a CSV would have it.
func textOf(value jsontext.Value) (string, bool) {
	switch value.Kind() {
	case 'n':
		return "", false
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		return string(text), err == nil
	default:
		return string(value), true
	}
}

package journal

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// columns are the names of a row's fields, in the order of the CSV; the JSON has the same names in nearly the same order.
var columns = []string{
	"id", "ts", "provider", "account", "target", "credential", "method", "endpoint", "vars", "job", "priority", "retry", "auth",
	"status", "headers", "latencyMs", "refused", "body",
}

// AppendJSON appends the row as one JSON object, without a newline. The order of the fields is fixed and maps are sorted, so
// equal rows have equal bytes. Bytes that are not UTF-8 become U+FFFD: a journal is text, whatever a vendor sent.
func (r *Row) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	if r.ID != "" {
		dst = appendMember(dst, `"id":`, r.ID)
		dst = append(dst, ',')
	}
	dst = append(dst, `"ts":"`...)
	dst = AppendTime(dst, r.At)
	dst = append(dst, '"', ',')
	dst = appendRequest(dst, &r.Request)
	if r.Status != 0 {
		dst = append(dst, `,"status":`...)
		dst = strconv.AppendInt(dst, int64(r.Status), 10)
	}
	if r.Refused != "" {
		dst = appendMember(dst, `,"refused":`, r.Refused)
	}
	dst = append(dst, `,"headers":`...)
	dst = appendMap(dst, r.Headers)
	dst = append(dst, `,"latencyMs":`...)
	dst = appendMillis(dst, r.Latency)
	if r.Body != "" {
		dst = appendMember(dst, `,"body":`, clipBody(r.Body))
	}
	return append(dst, '}')
}

// appendRequest appends the members that are constant for a request: the scanner recognises a known request by these bytes.
func appendRequest(dst []byte, r *Request) []byte {
	dst = appendMember(dst, `"provider":`, r.Provider)
	dst = appendMember(dst, `,"account":`, r.Account)
	dst = appendMember(dst, `,"target":`, r.Target)
	dst = appendMember(dst, `,"credential":`, r.Credential)
	dst = appendMember(dst, `,"method":`, r.Method)
	dst = appendMember(dst, `,"endpoint":`, r.Endpoint)
	dst = append(dst, `,"vars":`...)
	dst = appendMap(dst, r.Vars)
	dst = appendMember(dst, `,"job":`, r.Job)
	dst = appendMember(dst, `,"priority":`, r.Priority)
	dst = append(dst, `,"retry":`...)
	dst = strconv.AppendBool(dst, r.Retry)
	dst = append(dst, `,"auth":`...)
	return strconv.AppendBool(dst, r.Auth)
}

func appendMember(dst []byte, name, value string) []byte {
	return appendQuoted(append(dst, name...), value)
}

func appendQuoted(dst []byte, s string) []byte {
	quoted, err := jsontext.AppendQuote(dst, s)
	if err != nil { // not UTF-8
		quoted, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return quoted
}

func appendMap(dst []byte, m map[string]string) []byte {
	dst = append(dst, '{')
	switch len(m) {
	case 0:
	case 1: // most rows have one variable; sorting one name would still allocate
		for k, v := range m {
			dst = appendQuoted(append(appendQuoted(dst, k), ':'), v)
		}
	default:
		for i, k := range slices.Sorted(maps.Keys(m)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendQuoted(append(appendQuoted(dst, k), ':'), m[k])
		}
	}
	return append(dst, '}')
}

// AppendTime appends an instant as every file of tapyr shows it: RFC 3339 in UTC, with milliseconds, or as many further digits
// as it takes to lose nothing. (A fixed width sorts and scans best; trailing zeros beyond it say nothing.)
func AppendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	switch ns := t.Nanosecond(); {
	case ns%1e6 == 0:
		return t.AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	case ns%1e3 == 0:
		return t.AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
	default:
		return t.AppendFormat(dst, "2006-01-02T15:04:05.000000000Z")
	}
}

// appendMillis appends a duration in milliseconds, with the decimals it has.
func appendMillis(dst []byte, d time.Duration) []byte {
	whole, frac := int64(d/time.Millisecond), int64(d%time.Millisecond)
	dst = strconv.AppendInt(dst, whole, 10)
	if frac == 0 {
		return dst
	}
	digits := strconv.AppendInt(nil, frac+1e6, 10)[1:] // six digits, leading zeros kept
	return append(append(dst, '.'), strings.TrimRight(string(digits), "0")...)
}

// csvRecord is the row as the CSV's columns.
func (r *Row) csvRecord(record []string) []string {
	status := ""
	if r.Status != 0 {
		status = strconv.Itoa(r.Status)
	}
	return append(record[:0], r.ID, string(AppendTime(nil, r.At)), r.Provider, r.Account, r.Target, r.Credential, r.Method, r.Endpoint,
		string(appendMap(nil, r.Vars)), r.Job, r.Priority, strconv.FormatBool(r.Retry), strconv.FormatBool(r.Auth),
		status, string(appendMap(nil, r.Headers)), string(appendMillis(nil, r.Latency)), r.Refused, clipBody(r.Body))
}

// FormatMap is a map of texts as JSON, sorted: the notation of vars and headers in a CSV.
func FormatMap(m map[string]string) string { return string(appendMap(nil, m)) }

// FormatRequest is a text that equal requests have in common.
func FormatRequest(r *Request) string { return string(appendRequest(nil, r)) }

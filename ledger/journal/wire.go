package journal

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// wire is a row as JSON has it. Decoding it with the rules of encoding/json/v2 (names are case-sensitive, unknown ones are
// ignored; a repeated name or a byte that is not UTF-8 is an error, at any depth) defines which lines are rows: the scanner
// agrees with it, or leaves the line to it.
type wire struct {
	ID         string            `json:"id"`
	TS         jsontext.Value    `json:"ts"`
	Provider   string            `json:"provider"`
	Account    string            `json:"account"`
	Target     string            `json:"target"`
	Credential string            `json:"credential"`
	Method     string            `json:"method"`
	Endpoint   string            `json:"endpoint"`
	Vars       map[string]string `json:"vars"`
	Job        string            `json:"job"`
	Priority   string            `json:"priority"`
	Retry      bool              `json:"retry"`
	Auth       bool              `json:"auth"`
	Status     int64             `json:"status"`
	Headers    map[string]string `json:"headers"`
	LatencyMs  jsontext.Value    `json:"latencyMs"`
	Refused    string            `json:"refused"`
	Body       string            `json:"body"`
}

func (w *wire) request() Request {
	return Request{
		Provider: w.Provider, Account: w.Account, Target: w.Target, Job: w.Job, Credential: w.Credential, Method: w.Method,
		Endpoint: w.Endpoint, Vars: w.Vars, Priority: w.Priority, Retry: w.Retry, Auth: w.Auth,
	}
}

// DecodeJSON reads one row. A time without an offset is taken as UTC.
func DecodeJSON(line []byte) (Row, error) {
	row, in, err := decodeLine(line)
	row.At = time.Unix(0, in.nanos).UTC()
	return row, err
}

// decodeLine is DecodeJSON before a wall time has got its zone.
func decodeLine(line []byte) (Row, instant, error) {
	var w wire
	if err := json.Unmarshal(line, &w); err != nil {
		return Row{}, instant{}, err
	}
	var text string
	switch w.TS.Kind() {
	case '"':
		unquoted, err := jsontext.AppendUnquote(nil, w.TS)
		if err != nil {
			return Row{}, instant{}, err
		}
		text = string(unquoted)
	case '0':
		text = string(w.TS)
	default:
		return Row{}, instant{}, errNoTime
	}
	in, err := parseInstant(text)
	if err != nil {
		return Row{}, instant{}, err
	}
	row := Row{
		ID: w.ID, Request: w.request(), Status: int(w.Status), Headers: w.Headers, Refused: w.Refused, Body: clipBody(w.Body),
	}
	if err := checkStatus(w.Status); err != nil {
		return Row{}, instant{}, err
	}
	switch w.LatencyMs.Kind() {
	case '0':
		row.Latency, err = parseLatency(string(w.LatencyMs), time.Millisecond)
	case 'n', 0: // null or absent
	default:
		err = fmt.Errorf("latencyMs %s is not a number of milliseconds", w.LatencyMs)
	}
	return row, in, err
}

var errNoTime = fmt.Errorf("no ts: a row needs the instant of its request")

func checkStatus(status int64) error {
	if status < 0 || status > maxStatus {
		return fmt.Errorf("status %d is not between 0 and %d", status, maxStatus)
	}
	return nil
}

// decodeRequest reads what appendRequest wrote.
func decodeRequest(text string) Request {
	var w wire
	buf := make([]byte, 0, len(text)+2)
	buf = append(append(append(buf, '{'), text...), '}')
	if err := json.Unmarshal(buf, &w); err != nil {
		panic("journal: a request's own text does not decode: " + err.Error())
	}
	return w.request()
}

// parseLatency reads a decimal number of units. Decimals beyond the nanosecond are cut.
func parseLatency(text string, unit time.Duration) (time.Duration, error) {
	s := strings.TrimSpace(text)
	whole, frac, _ := strings.Cut(s, ".")
	n, okWhole := digits(whole)
	f, scale, okFrac := int64(0), int64(1), true
	if len(frac) > 9 {
		_, okFrac = digits(frac[9:])
		frac = frac[:9]
	}
	if okFrac {
		f, okFrac = digits(frac)
	}
	for range len(frac) {
		scale *= 10
	}
	if okWhole && okFrac && whole != "" && len(whole) <= 15 && n <= int64(maxLatency/unit) {
		if d := time.Duration(n)*unit + time.Duration(f*int64(unit)/scale); d <= maxLatency {
			return d, nil
		}
	}
	// Exponents and signs are rare enough to go through a float.
	value, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(value) || value < 0 || value > float64(maxLatency/unit) || strings.ContainsAny(s, "xX_pP") {
		return 0, fmt.Errorf("latency %q is not a number of %s between 0 and 30 days", text, unitName(unit))
	}
	return min(time.Duration(value*float64(unit)), maxLatency), nil
}

func unitName(unit time.Duration) string {
	switch unit {
	case time.Second:
		return "seconds"
	case time.Microsecond:
		return "microseconds"
	default:
		return "milliseconds"
	}
}

package cli

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/plan"
)

// counterColumns are the columns of counters as CSV that a plan needs.
var counterColumns = []string{"provider", "limit", "scope_key", "window_start", "window_end", "used", "observed_remaining", "observed_max", "observed_used"}

// readPlanState reads what is known from running.
func readPlanState(file string) (*plan.State, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, cause(err))
	}
	return readCounters(file, data)
}

// readCounters reads counters as CSV, the form of tapyr ledger export --what counters.
func readCounters(file string, data []byte) (*plan.State, error) {
	reader := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	reader.ReuseRecord = true
	header, err := reader.Read()
	if err != nil {
		return nil, fmt.Errorf("%s:1: not counters as CSV: %w", file, err)
	}
	at := make(map[string]int)
	for i, name := range header {
		at[name] = i
	}
	for _, name := range counterColumns {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("%s:1: there is no column %q; want the columns of \"tapyr ledger export --what counters --format csv\"", file, name)
		}
	}
	state := &plan.State{}
	for {
		record, err := reader.Read()
		if err == io.EOF {
			return state, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		r := counterRecord{record: record, at: at}
		counter := r.counter()
		if r.err != nil {
			line, _ := reader.FieldPos(0)
			return nil, fmt.Errorf("%s:%d: %w", file, line, r.err)
		}
		state.Counters = append(state.Counters, counter)
	}
}

// counterRecord reads the fields of one row; the first error stays.
type counterRecord struct {
	record []string
	at     map[string]int
	err    error
}

func (r *counterRecord) text(name string) string { return r.record[r.at[name]] }

func (r *counterRecord) time(name string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, r.text(name))
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s is %q, want an instant such as 2026-11-30T00:00:00Z", name, r.text(name))
	}
	return t
}

func (r *counterRecord) count(name string) *int64 {
	if r.text(name) == "" {
		return nil
	}
	n, err := strconv.ParseInt(r.text(name), 10, 64)
	if (err != nil || n < 0) && r.err == nil {
		r.err = fmt.Errorf("%s is %q, want a whole number", name, r.text(name))
	}
	return &n
}

func (r *counterRecord) counter() plan.Counter {
	c := plan.Counter{
		Provider: r.text("provider"), Limit: r.text("limit"), Key: r.text("scope_key"),
		Start: r.time("window_start"), End: r.time("window_end"),
		ObservedRemaining: r.count("observed_remaining"), ObservedMax: r.count("observed_max"), ObservedUsed: r.count("observed_used"),
	}
	if used := r.count("used"); used != nil {
		c.UsedUnits = *used
	}
	return c
}

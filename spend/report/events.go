package report

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/tapyr/tapyr/spend"
)

// Event is a recorded event: what was asked for and when.
type Event struct {
	spend.Admission
	At time.Time `json:"at"`
}

// EventError is a line that is no event.
type EventError struct {
	// Line counts from 1.
	Line   int
	Reason string
}

// Error names the line and says what is wanted.
func (e *EventError) Error() string {
	return fmt.Sprintf(`line %d: %s; want an object such as {"event_id":"e1","capability":"tracking","at":"2026-11-01T00:00:00Z"}`,
		e.Line, e.Reason)
}

// maxEventBytes bounds a line.
const maxEventBytes = 1 << 20

// ReadEvents yields the events of a file, one JSON object a line: event_id, capability and at, and class, size, vars, reference
// and content_hash where they are known; other members are ignored. Blank lines and a byte order mark are skipped. A bad line
// yields an *EventError and reading goes on.
func ReadEvents(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		in := bufio.NewScanner(r)
		in.Buffer(make([]byte, 64<<10), maxEventBytes)
		line := 0
		for in.Scan() {
			line++
			text := in.Bytes()
			if line == 1 {
				text = bytes.TrimPrefix(text, []byte("\ufeff"))
			}
			if text = bytes.TrimSpace(text); len(text) == 0 {
				continue
			}
			e, reason := parseEvent(text)
			var err error
			if reason != "" {
				err = &EventError{line, reason}
			}
			if !yield(e, err) {
				return
			}
		}
		if err := in.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				err = &EventError{line + 1, "is longer than a megabyte"}
			}
			yield(Event{}, err)
		}
	}
}

func parseEvent(text []byte) (e Event, reason string) {
	if err := jsonv2.Unmarshal(text, &e); err != nil {
		return e, strings.TrimPrefix(err.Error(), "jsontext: ")
	}
	switch {
	case e.EventID == "":
		return e, "has no event_id"
	case e.Capability == "":
		return e, "has no capability"
	case e.At.IsZero():
		return e, "has no at"
	}
	e.At = e.At.UTC()
	return e, ""
}

// byTime is the events in order of time; those of one instant stay in theirs.
func byTime(events []Event) []Event {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b Event) int { return a.At.Compare(b.At) })
	return sorted
}

package chain

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// maxLineBytes bounds a line of an export. The longest entry that spend writes is a policy of some kilobytes.
const maxLineBytes = 16 << 20

// LineError is a line of an export that is no entry.
type LineError struct {
	// Line counts from 1.
	Line int64
	// Reason says what is wrong.
	Reason string
}

// Error names the line.
func (e *LineError) Error() string {
	return fmt.Sprintf("line %d: %s; want one JSON object with entry_hash and previous_hash", e.Line, e.Reason)
}

// Read yields the entries of an export, one JSON object a line. Blank lines, spaces between tokens and another order of members
// do not matter, a byte order mark is skipped. A line that is no entry yields a *LineError, after which reading goes on; an
// error of the reader ends it.
func Read(r io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		for line, position := int64(1), int64(1); ; line++ {
			text, err := readLine(in)
			if errors.Is(err, io.EOF) && len(text) == 0 {
				return
			}
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Entry{}, fmt.Errorf("line %d: %w", line, err))
				return
			}
			if line == 1 {
				text = bytes.TrimPrefix(text, []byte("\ufeff"))
			}
			if len(bytes.TrimSpace(text)) == 0 {
				continue
			}
			e, reason := parseEntry(text)
			if e.Seq == 0 { // a bare entry has no number of its own
				e.Seq = position
			}
			position++
			var bad error
			if reason != "" {
				bad = &LineError{line, reason}
			}
			if !yield(e, bad) {
				return
			}
		}
	}
}

// readLine is the next line without its end. io.EOF comes with the last one.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLineBytes {
			return nil, fmt.Errorf("is longer than %d MiB", maxLineBytes>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), err
		}
	}
}

// parseEntry splits a line into its hash and the rest. reason is empty where the line is an entry.
func parseEntry(line []byte) (e Entry, reason string) {
	members, err := splitObject(line)
	if err != nil {
		return e, err.Error()
	}
	body := []byte{'{'}
	bare := true
	for i := range members {
		m := &members[i]
		switch m.name {
		case nameHash:
			e.Hash, reason = textOf(m, reason)
			continue
		case namePrevious:
			e.Previous, reason = textOf(m, reason)
		case nameSequence:
			bare = false
			if e.Seq, err = strconv.ParseInt(string(m.value), 10, 64); err != nil || e.Seq < 1 {
				return e, fmt.Sprintf("seq is %s, want a whole number from 1", m.value)
			}
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = appendString(body, m.name)
		body = append(body, ':')
		body = append(body, m.value...)
	}
	switch {
	case reason != "":
		return e, reason
	case e.Hash == "":
		return e, "has no entry_hash"
	case e.Previous == "":
		return e, "has no previous_hash"
	}
	if isPruned(members) && !bare {
		return e, ""
	}
	body = append(body, '}')
	e.Body = body
	return e, ""
}

// isPruned tells whether these are the members of an entry of which nothing but its place is left.
func isPruned(members []member) bool {
	return len(members) == 4 && members[2].name == namePruned && string(members[2].value) == "true"
}

func textOf(m *member, reason string) (string, string) {
	text, err := jsontext.AppendUnquote(nil, m.value)
	if err != nil {
		return "", m.name + " is no string"
	}
	return string(text), reason
}

// splitObject is the members of a JSON object, sorted, each value in canonical form.
func splitObject(text []byte) ([]member, error) {
	canonical, err := Canonical(text)
	if err != nil {
		return nil, err
	}
	if canonical[0] != '{' {
		return nil, errors.New("is no JSON object")
	}
	var members []member
	for at := 1; at < len(canonical)-1; at++ { // each round ends on a comma or the brace
		name := canonical[at : at+stringEnd(canonical[at:])]
		at += len(name) + 1 // the colon
		width := valueEnd(canonical[at:])
		plain, err := jsontext.AppendUnquote(nil, name)
		if err != nil {
			return nil, err
		}
		members = append(members, member{string(plain), canonical[at : at+width]})
		at += width
	}
	return members, nil
}

// Text is a string member of the entry, and empty where there is none, or the entry was pruned.
func (e Entry) Text(name string) string {
	members, err := splitObject(e.Body)
	if err != nil {
		return ""
	}
	return text(members, name)
}

// Number is a member of the entry that is a whole number, and 0 where there is none, or the entry was pruned.
func (e Entry) Number(name string) int64 {
	members, err := splitObject(e.Body)
	if err != nil {
		return 0
	}
	return number(members, name)
}

// numbered tells whether the entry holds its own number: bare ones do not.
func (e Entry) numbered() bool {
	members, err := splitObject(e.Body)
	return e.Body == nil || err == nil && number(members, nameSequence) != 0
}

// text is the string member of this name, and empty where there is none.
func text(members []member, name string) string {
	for i := range members {
		if members[i].name == name {
			value, _ := textOf(&members[i], "")
			return value
		}
	}
	return ""
}

// number is the whole number of this name, and 0 where there is none.
func number(members []member, name string) int64 {
	for i := range members {
		if members[i].name == name {
			n, _ := strconv.ParseInt(string(members[i].value), 10, 64)
			return n
		}
	}
	return 0
}

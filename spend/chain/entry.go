// Package chain keeps an audit log in which every entry holds the hash of the one before, so that a change to any of them
// shows.
//
// An entry is a JSON object in canonical form (see Canonical). Its entry_hash is the SHA-256, in lower-case hex, of the object
// without that member; its previous_hash is the entry_hash before it, and Genesis in the first. A chain proves what it holds
// and in which order. It does not prove that its tail is there: for that, keep an Anchor where the chain's keeper cannot reach
// it.
package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"strconv"
	"unicode/utf8"
)

// Genesis is the previous_hash of the first entry.
const Genesis = "GENESIS"

// The members that the chain itself writes.
const (
	nameHash     = "entry_hash"
	namePrevious = "previous_hash"
	nameSequence = "seq"
	namePruned   = "pruned"
)

// Field is a member of an entry.
type Field struct {
	// Name is the member's name.
	Name string
	// Text is the value of a string.
	Text string
	// Literal is the value of anything else, as JSON; it wins where it is not empty.
	Literal string
}

// Int is a field with a whole number.
func Int(name string, n int64) Field { return Field{Name: name, Literal: strconv.FormatInt(n, 10)} }

// Entry is one entry of a chain.
type Entry struct {
	// Seq counts from 1.
	Seq int64
	// Body is the canonical JSON without entry_hash. It is nil where the entry was pruned: then its hashes still hold their
	// place in the chain, and nothing else is left of it.
	Body []byte
	// Previous and Hash link the entry, in lower-case hex.
	Previous string
	Hash     string
}

// Head is the last entry of a chain: how many there are and its hash. The head of an empty chain is {0, ""}.
type Head struct {
	Count int64  `json:"count"`
	Hash  string `json:"head"`
}

// Head is that of a chain which ends with this entry.
func (e Entry) Head() Head { return Head{Count: e.Seq, Hash: e.Hash} }

// Next is the previous_hash of the entry that follows.
func (h Head) Next() string {
	if h.Hash == "" {
		return Genesis
	}
	return h.Hash
}

// Seal makes the entry that follows the head. It adds previous_hash and, unless bare, seq. The order of the fields does not
// matter; Seal sorts them where they stand. A name that stands twice, and a text that is not UTF-8, which no JSON can hold, are
// errors.
func Seal(head Head, bare bool, fields ...Field) (Entry, error) {
	e := Entry{Seq: head.Count + 1, Previous: head.Next()}
	fields = append(fields, Field{Name: namePrevious, Text: e.Previous})
	if !bare {
		fields = append(fields, Int(nameSequence, e.Seq))
	}
	sortFields(fields)
	body := make([]byte, 0, 768) // an admission has some 500 bytes
	for i, f := range fields {
		if i > 0 && fields[i-1].Name == f.Name {
			return Entry{}, fmt.Errorf("entry has two fields %q", f.Name)
		}
		if !utf8.ValidString(f.Text) || !utf8.ValidString(f.Name) {
			return Entry{}, fmt.Errorf("field %q holds %q, which is not UTF-8", f.Name, f.Text)
		}
		body = append(body, ',')
		body = appendString(body, f.Name)
		body = append(body, ':')
		if f.Literal != "" {
			body = append(body, f.Literal...)
		} else {
			body = appendString(body, f.Text)
		}
	}
	body[0] = '{' // there is at least previous_hash
	body = append(body, '}')
	e.Body = body
	e.Hash = hashOf(e.Body)
	return e, nil
}

// sortFields puts fields in order. Callers write them nearly so, which makes one pass of it.
func sortFields(fields []Field) {
	for i := 1; i < len(fields); i++ {
		for j := i; j > 0 && fields[j].Name < fields[j-1].Name; j-- {
			fields[j], fields[j-1] = fields[j-1], fields[j]
		}
	}
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// AppendJSON writes the entry as a line of an export, without the line's end. A pruned entry is written with its place and its
// hashes alone.
func (e Entry) AppendJSON(dst []byte) []byte {
	if e.Body == nil {
		dst = append(dst, `{"entry_hash":`...)
		dst = appendString(dst, e.Hash)
		dst = append(dst, `,"previous_hash":`...)
		dst = appendString(dst, e.Previous)
		dst = append(dst, `,"pruned":true,"seq":`...)
		dst = strconv.AppendInt(dst, e.Seq, 10)
		return append(dst, '}')
	}
	at := hashPlace(e.Body)
	dst = append(dst, e.Body[:at]...)
	if at > 1 {
		dst = append(dst, ',')
	}
	dst = append(dst, `"entry_hash":`...)
	dst = appendString(dst, e.Hash)
	if at == 1 {
		dst = append(dst, ',')
	}
	return append(dst, e.Body[at:]...)
}

// hashPlace is where entry_hash stands among the members of a canonical object: before the comma of the first member with a
// greater name, or after the brace. previous_hash is always there and greater.
func hashPlace(body []byte) int {
	at := 1 // of the member's name, or of the comma before it
	for at < len(body) {
		name := body[at:]
		if name[0] == ',' {
			name = name[1:]
		}
		end := stringEnd(name)
		if bytes.Compare(name[1:end-1], []byte(nameHash)) > 0 {
			return at
		}
		at += len(body[at:]) - len(name) + end + 1 // the colon
		at += valueEnd(body[at:])
	}
	return at
}

// stringEnd is the length of the string literal at the front of b.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// valueEnd is the length of the value at the front of b, which is canonical and followed by a comma or a brace.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); {
		switch b[i] {
		case '"':
			i += stringEnd(b[i:])
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(b)
}

// Write writes entries as an export, one a line, and returns the head: what to keep as an anchor.
func Write(w io.Writer, entries iter.Seq2[Entry, error]) (Head, error) {
	var head Head
	var line []byte
	for e, err := range entries {
		if err != nil {
			return head, err
		}
		line = append(e.AppendJSON(line[:0]), '\n')
		if _, err := w.Write(line); err != nil {
			return head, err
		}
		head = e.Head()
	}
	return head, nil
}

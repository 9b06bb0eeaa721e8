package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/tapyr/tapyr/schema"
)

// Error says what is wrong with an expression before it ever runs.
type Error struct {
	// Place is where the expression stands.
	Place *Place
	// Text is the expression.
	Text string
	// Line and Column are where the mistake is in the text, from 1, columns in characters.
	Line, Column int
	// Message is lower case and says what is allowed.
	Message string
}

// Error is the message and where in the expression it applies.
func (e *Error) Error() string {
	if e.Line > 1 {
		return fmt.Sprintf("%s (line %d, column %d of the expression)", e.Message, e.Line, e.Column)
	}
	return fmt.Sprintf("%s (column %d of the expression)", e.Message, e.Column)
}

// EvalError says why an expression gave no value for some data: a field that is not there, a value of the wrong kind, a bound
// that was reached.
type EvalError struct {
	// Place is where the expression stands.
	Place *Place
	// Text is the expression.
	Text string
	// Err is the cause; it is the context's error where that ended the evaluation.
	Err error
}

// Error quotes the expression and says why.
func (e *EvalError) Error() string {
	return fmt.Sprintf("%s %q: %v", e.Place.name, clip(e.Text), e.Err)
}

// Unwrap is the cause.
func (e *EvalError) Unwrap() error { return e.Err }

func clip(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

func (p *Place) errorAt(text string, line, column int, message string) *Error {
	return &Error{Place: p, Text: text, Line: line, Column: column, Message: message}
}

var (
	undeclared    = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	noOverload    = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
	operatorName  = regexp.MustCompile(`^_(.+)_$`)
	extraneous    = regexp.MustCompile(`^Syntax error: (?:extraneous|mismatched) input '([^']*)'`)
	unrecognized  = regexp.MustCompile(`(?s)^Syntax error: token recognition error at: '(.*)'$`)
	missingSymbol = regexp.MustCompile(`^Syntax error: missing '([^']*)' at`)
)

// explain words the first mistake that the compiler found; the others often follow from it.
func (p *Place) explain(text string, found []*cel.Error) *Error {
	first := slices.MinFunc(found, func(a, b *cel.Error) int {
		if d := a.Location.Line() - b.Location.Line(); d != 0 {
			return d
		}
		return a.Location.Column() - b.Location.Column()
	})
	return p.errorAt(text, max(first.Location.Line(), 1), max(first.Location.Column()+1, 1), p.words(first.Message))
}

// words puts the compiler's message into the words of the other messages.
func (p *Place) words(message string) string {
	if m := undeclared.FindStringSubmatch(message); m != nil {
		known := strings.Join(p.vars, ", ")
		hint := schema.DidYouMean(m[1], append(p.Vars(), Functions()...))
		return fmt.Sprintf("unknown name %q, this expression knows %s%s", m[1], known, hint)
	}
	if m := noOverload.FindStringSubmatch(message); m != nil {
		name := m[1]
		if op := operatorName.FindStringSubmatch(name); op != nil {
			name = op[1]
		}
		return fmt.Sprintf("%q cannot be applied to %s; convert one with string(), int() or double()", name, m[2])
	}
	if m := unrecognized.FindStringSubmatch(message); m != nil {
		switch {
		case strings.HasPrefix(m[1], "'"), strings.HasPrefix(m[1], `"`):
			return "a text begins here and does not end; close its quote"
		case strings.HasPrefix(m[1], "="):
			return "= compares nothing; write =="
		case strings.HasPrefix(m[1], "&"), strings.HasPrefix(m[1], "|"):
			return "write && for and, || for or"
		}
		return fmt.Sprintf("%q has no meaning here", m[1])
	}
	if m := extraneous.FindStringSubmatch(message); m != nil {
		if m[1] == "<EOF>" {
			return "the expression ends too early"
		}
		return fmt.Sprintf("%q is not expected here", m[1])
	}
	if m := missingSymbol.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("missing %q", m[1])
	}
	return strings.TrimPrefix(message, "Syntax error: ")
}

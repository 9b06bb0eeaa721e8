package cli

import (
	"errors"
	"fmt"
	"regexp"
	"syscall"
)

// UsageError says that the command line itself is wrong. It exits with 2.
type UsageError struct {
	// Problem is what is wrong, in lower case, with the word quoted.
	Problem string
	// Nearest is the valid word nearest to the wrong one, or "".
	Nearest string
	// WayOut is the command that shows what would be right.
	WayOut string
}

// Error is one line: the problem, the nearest valid word, the way out.
func (e *UsageError) Error() string {
	text := e.Problem
	if e.Nearest != "" {
		text += fmt.Sprintf("; did you mean %q?", e.Nearest)
	}
	if e.WayOut != "" {
		if e.Nearest == "" {
			text += ";"
		}
		text += fmt.Sprintf(" see %q", e.WayOut)
	}
	return text
}

// usageErrorf returns a UsageError whose way out is the help of c.
func usageErrorf(c *Command, nearest, format string, args ...any) *UsageError {
	return &UsageError{
		Problem: fmt.Sprintf(format, args...),
		Nearest: nearest,
		WayOut:  c.fullName() + " --help",
	}
}

// BadNewsError says that the command answered and the answer is bad news:
// invalid documents, an infeasible plan. It exits with 1; the result is
// written all the same.
type BadNewsError struct {
	// Summary is one line for standard error, or "" where the result says all.
	Summary string
}

// Error returns the summary.
func (e *BadNewsError) Error() string {
	if e.Summary == "" {
		return "the answer is bad news"
	}
	return e.Summary
}

// isBadNews tells whether err is or wraps a BadNewsError.
func isBadNews(err error) bool {
	var badNews *BadNewsError
	return errors.As(err, &badNews)
}

// isBrokenPipe tells whether err comes from a reader that went away.
func isBrokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE)
}

// flagValuePattern is how package flag words a value that a flag refuses.
var flagValuePattern = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-([^:]+): (.*)$`)

// flagValueError rewords an error of the flag parser. Names and arity were
// checked when the words were arranged, so what is left is a value that the
// flag's type refuses.
func flagValueError(c *Command, err error) error {
	match := flagValuePattern.FindStringSubmatch(err.Error())
	if match == nil {
		return usageErrorf(c, "", "%s", err)
	}
	value, name, reason := match[1], match[2], match[3]
	switch reason {
	case "parse error":
		// The standard types say only this much; the value tells the rest.
		return usageErrorf(c, "", "%s: %s is not a value that this flag takes", dashed(name), value)
	case "value out of range":
		return usageErrorf(c, "", "%s: %s is out of range", dashed(name), value)
	default:
		return usageErrorf(c, "", "%s: %s", dashed(name), reason)
	}
}

package validate

import (
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/window"
)

// maxWindows is the number of different windows that a set of documents may have. A real one has a dozen; compiling one walks
// through all the offsets of its time zone.
const maxWindows = 1000

// windows compiles each window once, however many limits and accounts have it.
type windows map[window.Spec]compiledWindow

type compiledWindow struct {
	schedule *window.Schedule // nil where there are problems
	problems []*window.SpecError
}

// compile makes a document's window ready. The schedule is nil where the window is none, which the rule "window" reports. full
// tells that there are too many windows to look at this one.
func (w windows) compile(declared *schema.Window) (c compiledWindow, full bool) {
	spec := declared.Spec()
	c, there := w[spec]
	if there {
		return c, false
	}
	if len(w) >= maxWindows {
		return c, true
	}
	if c.problems = spec.Check(); len(c.problems) == 0 {
		c.schedule, _ = window.Compile(spec) // it has no problems
	}
	w[spec] = c
	return c, false
}

package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleSpendDeadline = &Rule{
	Name:     "spend-deadline",
	Severity: schema.SeverityError,
	Summary:  "deadline and onDeadline belong to events that can wait",
	Why: "Only fallback: defer makes an event wait for the budget, and onUnavailable: wait, the default, for a route that is down. With another " +
		"fallback onDeadline has no effect. An event that is deferred without a deadline may wait for ever: that is a warning.",
	Wrong: examplePolicy(`{ limit: "100" }`, `{ limit: "100", routes: [standard], fallback: reject, onUnavailable: next, onDeadline: minimal }`),
	Right: examplePolicy(`{ limit: "100" }`, `{ limit: "100", routes: [standard], fallback: defer, deadline: 15m, onDeadline: minimal }`),
	check: func(f *finder) {
		for _, p := range f.config.Policies {
			for _, name := range sortedKeys(p.Spec.Capabilities) {
				c, path := p.Spec.Capabilities[name], schema.JoinPath("spec.capabilities", name)
				waits := c.Fallback == "defer" || c.OnUnavailable != "next"
				switch {
				case c.Fallback == "":
				case !waits && c.OnDeadline != "":
					f.key(p.Doc, path+".onDeadline", "events of capability %q never wait, since its fallback is %s; remove onDeadline, or write fallback: defer", name, c.Fallback)
				case !waits && c.Deadline != nil:
					f.key(p.Doc, path+".deadline", "events of capability %q never wait, since its fallback is %s; remove deadline, or write fallback: defer", name, c.Fallback)
				case c.Fallback == "defer" && c.Deadline == nil:
					f.warn(p.Doc, path+".fallback", "deferred events of capability %q have no deadline and may wait for ever", name)
				}
			}
		}
	},
}

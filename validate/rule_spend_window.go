package validate

import (
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/window"
)

var ruleSpendWindow = &Rule{
	Name:     "spend-window",
	Severity: schema.SeverityError,
	Summary:  "a spend limit holds for a calendar period or a fixed span, not for a rolling one",
	Why: "Spend belongs to the window in which it was admitted, and a settlement that arrives later is booked there. A window that " +
		"rolls, or opens with a request, has no such name. Leave the window out for a limit that holds for ever.",
	Wrong: examplePolicy(`{ limit: "100", window: { rolling: 30d } }`, `{ limit: "100", routes: [standard], fallback: reject }`),
	Right: examplePolicy(`{ limit: "100", window: { period: month } }`, `{ limit: "100", routes: [standard], fallback: reject }`),
	check: func(f *finder) {
		for _, p := range f.config.Policies {
			w := p.Spec.Account.Window
			switch {
			case w == nil:
			case w.Rolling != nil:
				f.key(p.Doc, "spec.account.window.rolling", "spend is not counted over rolling windows; write period: month, or every")
			case w.Anchor == window.AnchorFirstRequest:
				f.at(p.Doc, "spec.account.window.anchor", "spend windows do not open with a request; remove anchor")
			}
		}
	},
}

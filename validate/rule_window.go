package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleWindow = &Rule{
	Name:     "window",
	Severity: schema.SeverityError,
	Summary:  "a window must have one form, with the fields of that form, in a zone that exists",
	Why: "A window is a calendar period (minute, hour, day, week or month, in a time zone), a fixed span (every), or a rolling one. " +
		"A field of another form would have no effect. Time zones are IANA names, such as Europe/Paris; abbreviations such as CET are " +
		"not unique, and some do not follow summer time.",
	Wrong: exampleLimit(`
kind: quota
max: 5000
window: { period: day, timezone: Europe/Pari }`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: day, timezone: Europe/Paris }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			if l.Spec.Kind == schema.KindQuota && l.Spec.Window != nil {
				f.window(p.Doc, path+".window", l.Spec.Window)
			}
		})
		for _, p := range f.config.Policies {
			if p.Spec.Account.Window != nil {
				f.window(p.Doc, "spec.account.window", p.Spec.Account.Window)
			}
		}
	},
}

func (f *finder) window(doc *schema.Document, path string, w *schema.Window) {
	if w.Every != nil && *w.Every == 0 || w.Rolling != nil && *w.Rolling == 0 {
		f.at(doc, path, "a window of length 0 holds nothing; write a length above 0")
		return
	}
	compiled, full := f.config.windows.compile(w)
	if full {
		f.at(doc, path, "there are more than %d different windows; this one was not looked at", maxWindows)
	}
	for _, problem := range compiled.problems {
		at := path
		if problem.Field != "window" && problem.Field != "" {
			at += "." + problem.Field
		}
		f.at(doc, at, "%s", problem.Error())
	}
}

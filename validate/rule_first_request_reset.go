package validate

import (
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/window"
)

var ruleFirstRequestReset = &Rule{
	Name:     "first-request-reset",
	Severity: schema.SeverityWarning,
	Summary:  "a window that rolls, or opens with the first request, reads no reset header",
	Why: "A reset tells when a fixed window ends. A rolling window has no end, and one with anchor firstRequest is kept as a rolling one " +
		"for safety, since nobody knows which request opened it; of both, sync.resetHeader is not read. Where the header can be " +
		"trusted, declare a fixed window (period, or every) and its end follows the header.",
	Wrong: exampleLimit(`
kind: quota
max: 5000
window: { every: 1h, anchor: firstRequest }
sync: { remainingHeader: X-Remaining, resetHeader: X-Reset }`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: hour }
sync: { remainingHeader: X-Remaining, resetHeader: X-Reset }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			if l.Spec.Sync == nil || l.Spec.Sync.ResetHeader == nil || l.Spec.Kind != schema.KindQuota || l.Window == nil {
				return
			}
			what := map[window.Kind]string{window.Rolling: "a rolling window has no end", window.FirstRequest: "a window with anchor firstRequest is kept as a rolling one"}[l.Window.Kind()]
			if what != "" {
				f.at(p.Doc, path+".sync.resetHeader", "limit %q does not read its resetHeader: %s; declare a fixed window, or leave the header out", l.Spec.Name, what)
			}
		})
	},
}

package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleSyncFields = &Rule{
	Name:     "sync-fields",
	Severity: schema.SeverityError,
	Summary:  "format belongs to resetHeader, and sync must name a header",
	Why: "Only a reset can be written in several ways, so only resetHeader takes a format. A sync that names no header teaches " +
		"nothing: that is a warning.",
	Wrong: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
sync: { remainingHeader: { name: X-Remaining, format: epoch } }`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: day }
sync: { remainingHeader: X-Remaining, resetHeader: { name: X-Reset, format: epoch } }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			sync := l.Spec.Sync
			if sync == nil {
				return
			}
			headers := syncHeaders(sync)
			for _, h := range headers {
				if h.header.Format != "" && h.field != "resetHeader" {
					f.at(p.Doc, path+".sync."+h.field+".format", "format says how a reset is written and belongs to resetHeader, not to %s", h.field)
				}
			}
			if len(headers) == 0 && sync.Policy == "" {
				f.warn(p.Doc, path+".sync", "sync of limit %q names no header, so it teaches nothing", l.Spec.Name)
			}
		})
	},
}

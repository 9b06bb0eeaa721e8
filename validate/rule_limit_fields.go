package validate

import (
	"slices"

	"github.com/tapyr/tapyr/schema"
)

var ruleLimitFields = &Rule{
	Name:     "limit-fields",
	Severity: schema.SeverityError,
	Summary:  "a limit must have the fields of its kind, and no others",
	Why: "A rate has a rate and perhaps a burst; a concurrency has a max; a quota has a max and a window. A field of another kind " +
		"would have no effect, and whoever wrote it expects one.",
	Wrong: exampleLimit(`
kind: rate
rate: 10/s
burst: 10
window: { period: day }`),
	Right: exampleLimit(`
kind: quota
max: 5000
window: { period: day }`),
	check: func(f *finder) {
		f.config.eachLimit(func(p *Provider, l *Limit, path string) {
			kind := l.Spec.Kind
			for _, field := range limitFields {
				has := p.Doc.Has(path + "." + field.name)
				belongs := slices.Contains(field.kinds, kind)
				switch {
				case has && !belongs:
					f.key(p.Doc, path+"."+field.name, "%s belongs to limits of kind %s, and this one is of kind %s; remove it, or change the kind",
						field.name, list(field.kinds), kind)
				case !has && slices.Contains(field.requiredBy, kind):
					f.missing(p.Doc, path, field.name, "missing field %q in limit %q: a limit of kind %s needs one", field.name, l.Spec.Name, kind)
				}
			}
			if kind == schema.KindConcurrency && l.Spec.Max != nil && l.Spec.Max.Auto {
				f.at(p.Doc, path+".max", "max of a concurrency cannot be auto: no header tells it; write a number")
			}
		})
	},
}

// limitFields says which kinds of limits have the fields that not all have.
var limitFields = []struct {
	name       string
	kinds      []string
	requiredBy []string
}{
	{"rate", []string{schema.KindRate}, []string{schema.KindRate}},
	{"burst", []string{schema.KindRate}, nil},
	{"adaptive", []string{schema.KindRate}, nil},
	{"max", []string{schema.KindConcurrency, schema.KindQuota}, []string{schema.KindConcurrency, schema.KindQuota}},
	{"initialMax", []string{schema.KindQuota}, nil},
	{"window", []string{schema.KindQuota}, []string{schema.KindQuota}},
	{"cost", []string{schema.KindRate, schema.KindQuota}, nil},
	{"costs", []string{schema.KindRate, schema.KindQuota}, nil},
	{"costFrom", []string{schema.KindRate, schema.KindQuota}, nil},
	{"counts", []string{schema.KindQuota}, nil},
	{"sync", []string{schema.KindQuota}, nil},
	{"overrides", []string{schema.KindConcurrency, schema.KindQuota}, nil},
}

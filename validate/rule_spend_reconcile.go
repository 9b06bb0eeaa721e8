package validate

import (
	"slices"

	"github.com/tapyr/tapyr/schema"
)

// reconcileFields are what a map of columns may name.
var reconcileFields = []string{"event_id", "amount", "settled_at", "currency"}

var ruleSpendReconcile = &Rule{
	Name:     "spend-reconcile",
	Severity: schema.SeverityError,
	Summary:  "reconciliation must have a folder, a cadence and columns that exist",
	Why: "tapyr run looks into the folder at the cadence: without one of the two it never reconciles, and nobody would notice. A map " +
		"may name the columns of event_id, amount, settled_at and currency; the first two cannot be left out.",
	Wrong: examplePolicy(`{ limit: "100" }`, `{ limit: "100", routes: [standard], fallback: reject }`) +
		"  reconcile: { every: 1d, map: { event: id } }\n",
	Right: examplePolicy(`{ limit: "100" }`, `{ limit: "100", routes: [standard], fallback: reject }`) +
		"  reconcile: { every: 1d, folder: settled, map: { event_id: id } }\n",
	check: func(f *finder) {
		for _, p := range f.config.Policies {
			r := p.Spec.Reconcile
			if r == nil {
				continue
			}
			if r.Every != nil && r.Folder == "" {
				f.at(p.Doc, "spec.reconcile", "every is given and folder is missing; want the folder to look into, such as settled")
			}
			if r.Every == nil && r.Folder != "" {
				f.at(p.Doc, "spec.reconcile.folder", "folder %q is given and every is missing; want the cadence, such as 1d", r.Folder)
			}
			for _, field := range sortedKeys(r.Map) {
				path := schema.JoinPath("spec.reconcile.map", field)
				required := field == "event_id" || field == "amount"
				switch {
				case !slices.Contains(reconcileFields, field):
					f.at(p.Doc, path, "field %q is none; want %s", field, list(reconcileFields))
				case required && r.Map[field] == "":
					f.at(p.Doc, path, "field %q is left without a column; only settled_at and currency may be", field)
				}
			}
		}
	},
}

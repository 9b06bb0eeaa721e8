package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleStateStore = &Rule{
	Name:     "state-store",
	Severity: schema.SeverityError,
	Summary:  "state is kept in a file or in a database, not in both",
	Why:      "path is an SQLite file, dsn says where the connection string of a PostgreSQL database is found. Only one can hold the counters.",
	Wrong: exampleDocument("Settings", "default", `
state: { path: tapyr.db, dsn: { env: TAPYR_DSN } }`),
	Right: exampleDocument("Settings", "default", `
state: { dsn: { env: TAPYR_DSN } }`),
	check: func(f *finder) {
		s := f.config.Settings
		if s.Doc != nil && s.Spec.State.Path != "" && s.Spec.State.DSN != nil {
			f.key(s.Doc, "spec.state.path", "state has path and dsn; remove one of them")
		}
	},
}

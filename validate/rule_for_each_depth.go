package validate

import (
	"fmt"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleForEachDepth = &Rule{
	Name:     "for-each-depth",
	Severity: schema.SeverityError,
	Summary:  "a chain of forEach must not be longer than 16 jobs",
	Why: "Vendors nest their resources three or four deep: organizations, networks, devices. A chain of dozens of jobs is a mistake of " +
		"a generator, and every job in it waits for all above it.",
	Wrong: exampleDocument("Job", "level-0", "account: main\ninterval: 1h\nrequest: { endpoint: /levels }\ninventory: { items: response }") + exampleChain(17),
	Right: exampleDocument("Job", "level-0", "account: main\ninterval: 1h\nrequest: { endpoint: /levels }\ninventory: { items: response }") + exampleChain(1),
	check: func(f *finder) {
		for _, j := range f.config.Jobs {
			if j.TooDeep {
				doc, path := j.place("spec.forEach")
				f.at(doc, path, "more than %d jobs stand above job %q in its chain of forEach", maxForEachDepth, j.Name)
			}
		}
	},
}

// exampleChain writes jobs that each run over the one before.
func exampleChain(length int) string {
	var b strings.Builder
	for i := 1; i <= length; i++ {
		b.WriteString("---\n" + exampleDocument("Job", fmt.Sprintf("level-%d", i),
			fmt.Sprintf("account: main\ninterval: 1h\nforEach: level-%d\nrequest: { endpoint: /levels }\ninventory: { items: response }", i-1)))
	}
	return b.String()
}

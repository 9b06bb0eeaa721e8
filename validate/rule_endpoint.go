package validate

import (
	"strings"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
)

var ruleEndpoint = &Rule{
	Name:     "endpoint",
	Severity: schema.SeverityError,
	Summary:  "a job must have an endpoint: a path below the base URL, with {name} for variables",
	Why: "The endpoint stands in the job's request or in its template. It is what the limits' globs are held against, so it is " +
		"written with its variables, not with their values.",
	Wrong: exampleJob(`request: { endpoint: "/networks/{network-id}/devices" }`),
	Right: exampleDocument("Account", "main", `
provider: example
vars: { networkId: N_1 }`) + "---\n" + exampleJob(`request: { endpoint: "/networks/{networkId}/devices" }`),
	check: func(f *finder) {
		f.config.eachRequest(func(doc *schema.Document, path string, r *schema.Request) {
			if r.Endpoint == "" {
				return
			}
			if _, err := match.ParseTemplate(r.Endpoint); err != nil {
				f.at(doc, path+".endpoint", "%s", err)
			} else if strings.Contains(r.Endpoint, "#") {
				f.at(doc, path+".endpoint", "endpoint %q has a fragment, which is never sent; remove # and what follows", r.Endpoint)
			}
		})
		for _, j := range f.config.Jobs {
			if j.Spec.Request != nil && j.Spec.Request.Endpoint != "" || j.unresolvedTemplate() {
				continue
			}
			f.missing(j.Doc, "spec.request", "endpoint", "job %q has no request.endpoint, here or in a template", j.Name)
		}
	},
}

// unresolvedTemplate tells that the job names a template that cannot be found, so that what it lacks may be there.
func (j *Job) unresolvedTemplate() bool {
	return j.Spec.Template != "" && j.templateIndex() < 0
}

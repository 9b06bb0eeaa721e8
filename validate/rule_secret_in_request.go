package validate

import (
	"regexp"

	"github.com/tapyr/tapyr/schema"
)

var ruleSecretInRequest = &Rule{
	Name:     "secret-in-request",
	Severity: schema.SeverityWarning,
	Summary:  "keys and tokens should not stand in requests or variables",
	Why: "What stands in a document ends up in version control, in plans and in journals. The provider's auth puts credentials into " +
		"requests, from the environment or a file, and keeps them out of everything else.",
	Wrong: exampleJob(`request: { endpoint: /devices, headers: { Authorization: "Bearer 6bec40cf957de430a6f1f2baa056b99a4fac9ea0" } }`),
	Right: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
auth: { type: bearer, credential: apiKey }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
credentials: { apiKey: { env: EXAMPLE_KEY } }`),
	check: func(f *finder) {
		look := func(doc *schema.Document, path string, values map[string]string) {
			for _, name := range sortedKeys(values) {
				value := values[name]
				if value == "" || !secretName.MatchString(name) || len(variablesIn(value)) > 0 {
					continue
				}
				f.at(doc, schema.JoinPath(path, name), "%s looks like a secret; name it in the account's credentials and the provider's auth", name)
				f.conceal()
			}
		}
		f.config.eachRequest(func(doc *schema.Document, path string, r *schema.Request) {
			look(doc, path+".headers", r.Headers)
			look(doc, path+".query", r.Query)
		})
		for _, a := range f.config.Accounts {
			look(a.Doc, "spec.vars", a.Spec.Vars)
			for i := range a.Spec.Targets {
				look(a.Doc, index("spec.targets", i)+".vars", a.Spec.Targets[i].Vars)
			}
		}
		for _, p := range f.config.Providers {
			if p.Spec.Auth != nil {
				look(p.Doc, "spec.auth.params", p.Spec.Auth.Params)
			}
		}
	},
}

// secretName are names that secrets are sent under.
var secretName = regexp.MustCompile(`(?i)^((proxy-)?authorization|cookie|(x-)?(.*[-_])?(api[-_]?key|auth[-_]?token|access[-_]?token|client[-_]?secret|secret|password|passwd|token))$`)

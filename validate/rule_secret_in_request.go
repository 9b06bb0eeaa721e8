package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleSecretInRequest = &Rule{
	Name:     "secret-in-request",
	Severity: schema.SeverityWarning,
	Summary:  "keys and tokens should not stand in requests or variables",
	Why: "What stands in a document ends up in version control, in plans and in journals. The provider's auth puts credentials into " +
		"requests, from the environment or a file, and keeps them out of everything else. Looked at are the headers, the query (that of " +
		"the endpoint, too) and the body of requests and logins, the fields of token requests, variables, and the prefix of auth: what " +
		"stands under a name that secrets are sent under, and what has the form of a well-known vendor's keys.",
	Wrong: exampleJob(`request: { endpoint: /devices, headers: { Authorization: "Bearer 6bec40cf957de430a6f1f2baa056b99a4fac9ea0" } }`),
	Right: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
auth: { type: bearer, credential: apiKey }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
credentials: { apiKey: { env: EXAMPLE_KEY } }`),
	check: func(f *finder) {
		f.config.eachLiteralSecret(func(l literalSecret) {
			f.at(l.doc, l.path, "%s looks like a secret; name it in the account's credentials and the provider's auth", l.name)
			f.conceal()
		})
	},
}

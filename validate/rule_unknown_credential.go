package validate

import (
	"slices"

	"github.com/tapyr/tapyr/schema"
)

var ruleUnknownCredential = &Rule{
	Name:     "unknown-credential",
	Severity: schema.SeverityError,
	Summary:  "an account must have the credentials that its provider's auth names",
	Why: "The provider's auth says by which name a key, user or password is found; each account says where that one's value is. " +
		"Without it no request of the account can be sent.",
	Wrong: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
auth: { type: bearer, credential: apiKey }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
credentials: { apikey: { env: EXAMPLE_KEY } }`),
	Right: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
auth: { type: bearer, credential: apiKey }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
credentials: { apiKey: { env: EXAMPLE_KEY } }`),
	check: func(f *finder) {
		for _, a := range f.config.Accounts {
			if a.Provider == nil {
				continue
			}
			for _, name := range credentialNames(a.Provider.Spec.Auth) {
				if _, there := a.Spec.Credentials[name]; there {
					continue
				}
				path := schema.JoinPath("spec.credentials", name)
				f.at(a.Doc, path, "credential %q, which the auth of provider %s names, is missing%s", name, a.Provider.Name,
					f.hint(name, sortedKeys(a.Spec.Credentials)))
			}
		}
	},
}

// credentialNames lists the credentials that an auth needs, in the order of its fields. In the body of a login {name} stands for
// one, too.
func credentialNames(auth *schema.Auth) []string {
	if auth == nil {
		return nil
	}
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range []string{auth.Credential, auth.Username, auth.Password, auth.ClientID, auth.ClientSecret} {
		add(name)
	}
	if auth.Login != nil {
		eachText(auth.Login.Body, "", func(_, text string) {
			for _, name := range variablesIn(text) {
				add(name)
			}
		})
	}
	return names
}

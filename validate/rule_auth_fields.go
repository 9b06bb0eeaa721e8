package validate

import (
	"slices"

	"github.com/tapyr/tapyr/schema"
)

var ruleAuthFields = &Rule{
	Name:     "auth-fields",
	Severity: schema.SeverityError,
	Summary:  "an auth must have the fields of its type, and no others",
	Why: "header and bearer need credential, basic needs username and password, oauth2_client_credentials needs tokenURL, clientId " +
		"and clientSecret, session_login needs login and either token or cookie. A field of another type would have no effect.",
	Wrong: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
auth: { type: basic, username: user }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
credentials: { user: { env: EXAMPLE_USER } }`),
	Right: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
auth: { type: basic, username: user, password: password }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
credentials: { user: { env: EXAMPLE_USER }, password: { env: EXAMPLE_PASSWORD } }`),
	check: func(f *finder) {
		for _, p := range f.config.Providers {
			auth := p.Spec.Auth
			if auth == nil || auth.Type == "" {
				continue
			}
			for _, field := range authFields {
				has := p.Doc.Has("spec.auth." + field.name)
				switch {
				case has && !slices.Contains(field.types, auth.Type):
					f.key(p.Doc, "spec.auth."+field.name, "%s belongs to auth of type %s, and this one is %s; remove it, or change the type", field.name, list(field.types), auth.Type)
				case !has && slices.Contains(field.requiredBy, auth.Type):
					f.missing(p.Doc, "spec.auth", field.name, "missing field %q: auth of type %s needs one", field.name, auth.Type)
				}
			}
			if auth.Type != "session_login" {
				continue
			}
			if auth.Token == "" && auth.Cookie == "" {
				f.missing(p.Doc, "spec.auth", "token", "auth of type session_login needs token, an expression that finds the session's token, or cookie")
			}
			if auth.Login != nil && auth.Login.Endpoint == "" {
				f.missing(p.Doc, "spec.auth.login", "endpoint", "the login has no endpoint")
			}
		}
	},
}

// authFields says which types of auth have which fields.
var authFields = []struct {
	name       string
	types      []string
	requiredBy []string
}{
	{"credential", []string{"header", "bearer"}, []string{"header", "bearer"}},
	{"header", []string{"header", "session_login"}, nil},
	{"prefix", []string{"header", "session_login"}, nil},
	{"username", []string{"basic", "session_login"}, []string{"basic"}},
	{"password", []string{"basic", "session_login"}, []string{"basic"}},
	{"tokenURL", []string{"oauth2_client_credentials"}, []string{"oauth2_client_credentials"}},
	{"clientId", []string{"oauth2_client_credentials"}, []string{"oauth2_client_credentials"}},
	{"clientSecret", []string{"oauth2_client_credentials"}, []string{"oauth2_client_credentials"}},
	{"scopes", []string{"oauth2_client_credentials"}, nil},
	{"params", []string{"oauth2_client_credentials"}, nil},
	{"login", []string{"session_login"}, []string{"session_login"}},
	{"token", []string{"session_login"}, nil},
	{"cookie", []string{"session_login"}, nil},
	{"ttl", []string{"oauth2_client_credentials", "session_login"}, nil},
}

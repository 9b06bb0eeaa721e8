package validate

import (
	"github.com/tapyr/tapyr/schema"
)

var ruleSecretReference = &Rule{
	Name:     "secret-reference",
	Severity: schema.SeverityError,
	Summary:  "a secret must say where it is found: env or file, and one of them only",
	Why: "env is the name of an environment variable, file the path of a file. A secret itself in the documents would end up in " +
		"version control; messages about secrets never show what stands there.",
	Wrong: exampleDocument("Account", "main", `
provider: example
credentials: { apiKey: { env: EXAMPLE_KEY, file: /run/secrets/example } }`),
	Right: exampleDocument("Account", "main", `
provider: example
credentials: { apiKey: { file: /run/secrets/example } }`),
	check: func(f *finder) {
		for _, a := range f.config.Accounts {
			for _, name := range sortedKeys(a.Spec.Credentials) {
				ref := a.Spec.Credentials[name]
				f.secret(a.Doc, schema.JoinPath("spec.credentials", name), name, &ref)
			}
		}
		if s := f.config.Settings; s.Doc != nil {
			f.secret(s.Doc, "spec.state.dsn", "dsn", s.Spec.State.DSN)
			f.secret(s.Doc, "spec.status.token", "token", s.Spec.Status.Token)
		}
	},
}

func (f *finder) secret(doc *schema.Document, path, name string, ref *schema.SecretRef) {
	switch {
	case ref == nil:
	case ref.Env == "" && ref.File == "":
		f.at(doc, path, "%s says nowhere where it is found; write env: NAME or file: PATH", name)
	case ref.Env != "" && ref.File != "":
		f.at(doc, path, "%s has env and file; remove one of them", name)
	case ref.Env != "" && !variableName.MatchString(ref.Env):
		f.at(doc, path+".env", "env of %s takes the name of an environment variable: letters, digits and _, no digit first; if this is the secret itself, change it, it is known now", name)
		f.conceal()
	}
}

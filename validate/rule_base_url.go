package validate

import (
	"net/url"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleBaseURL = &Rule{
	Name:     "base-url",
	Severity: schema.SeverityError,
	Summary:  "a base URL must be http or https, with a host, and without credentials or a query",
	Why: "Endpoints are appended to the path of the base URL. Credentials in a URL end up in logs and journals; name them in " +
		"credentials instead. An account without any base URL can be planned for, but not run: that is a warning. So is a base URL of an " +
		"account with targets, which have their own.",
	Wrong: exampleDocument("Provider", "example", `baseURL: ftp://api.example.com/v1`),
	Right: exampleDocument("Provider", "example", `baseURL: https://api.example.com/v1`),
	check: func(f *finder) {
		for _, p := range f.config.Providers {
			f.baseURL(p.Doc, "spec.baseURL", p.Spec.BaseURL)
			if p.Spec.Auth != nil && strings.Contains(p.Spec.Auth.TokenURL, "://") {
				f.baseURL(p.Doc, "spec.auth.tokenURL", p.Spec.Auth.TokenURL)
			}
		}
		for _, a := range f.config.Accounts {
			f.baseURL(a.Doc, "spec.baseURL", a.Spec.BaseURL)
			for i := range a.Spec.Targets {
				f.baseURL(a.Doc, index("spec.targets", i)+".baseURL", a.Spec.Targets[i].BaseURL)
			}
			switch {
			case len(a.Spec.Targets) > 0 && a.Spec.BaseURL != "":
				f.warn(a.Doc, "spec.baseURL", "every request goes to one of the targets, so this base URL is not used; remove it")
			case len(a.Spec.Targets) == 0 && a.Spec.BaseURL == "" && a.Provider != nil && a.Provider.Spec.BaseURL == "":
				f.warn(a.Doc, "spec.baseURL", "neither provider %s nor account %q has a baseURL, so requests of the account cannot be sent", a.Provider.Name, a.Name)
			}
		}
	},
}

func (f *finder) baseURL(doc *schema.Document, path, text string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		f.at(doc, path, "this is not a URL; want one such as https://api.example.com/v1")
		f.conceal() // it may hold a password that the parser stumbled over
	case u.User != nil:
		f.at(doc, path, "a URL must not hold credentials; name them in the account's credentials and the provider's auth")
		f.conceal()
	case u.Scheme != "http" && u.Scheme != "https":
		f.at(doc, path, "URL %q has the scheme %q, want https or http", text, u.Scheme)
	case u.Hostname() == "":
		f.at(doc, path, "URL %q has no host", text)
	case path != "spec.auth.tokenURL" && (u.RawQuery != "" || u.ForceQuery || u.Fragment != ""):
		f.at(doc, path, "base URL %q has a query or fragment, which would be lost; put query parameters into the requests", text)
	}
}

package validate

import (
	"net/netip"
	"net/url"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var rulePlainHTTP = &Rule{
	Name:     "plain-http",
	Severity: schema.SeverityWarning,
	Summary:  "credentials should travel over https",
	Why:      "With http everybody on the way can read the key and use it. Addresses of this machine itself are exempt.",
	Wrong: exampleDocument("Provider", "example", `
baseURL: http://api.example.com/v1
auth: { type: bearer, credential: apiKey }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
credentials: { apiKey: { env: EXAMPLE_KEY } }`),
	Right: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
auth: { type: bearer, credential: apiKey }`) + "---\n" + exampleDocument("Account", "main", `
provider: example
credentials: { apiKey: { env: EXAMPLE_KEY } }`),
	check: func(f *finder) {
		look := func(p *Provider, doc *schema.Document, path, text string) {
			if p == nil || p.Spec.Auth == nil || p.Spec.Auth.Type == "none" {
				return
			}
			u, err := url.Parse(text)
			if err == nil && u.Scheme == "http" && u.User == nil && u.Host != "" && !loopback(u.Hostname()) {
				f.at(doc, path, "credentials go to %s unencrypted; use https if the host offers it", u.Host)
			}
		}
		for _, p := range f.config.Providers {
			look(p, p.Doc, "spec.baseURL", p.Spec.BaseURL)
			if p.Spec.Auth != nil {
				look(p, p.Doc, "spec.auth.tokenURL", p.Spec.Auth.TokenURL)
			}
		}
		for _, a := range f.config.Accounts {
			look(a.Provider, a.Doc, "spec.baseURL", a.Spec.BaseURL)
			for i := range a.Spec.Targets {
				look(a.Provider, a.Doc, index("spec.targets", i)+".baseURL", a.Spec.Targets[i].BaseURL)
			}
		}
	},
}

// loopback tells whether a host is this machine.
func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && address.IsLoopback()
}

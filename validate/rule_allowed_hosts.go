package validate

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

var ruleAllowedHosts = &Rule{
	Name:     "allowed-hosts",
	Severity: schema.SeverityError,
	Summary:  "allowedHosts must hold host names, with *. in front for all below a domain",
	Why: "Redirects are followed, with credentials, to these hosts only. A URL, a port or a path never matches a host's name, and * " +
		"alone would send credentials anywhere. A list without the base URL's own host is a warning.",
	Wrong: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
allowedHosts: [api.example.com, "https://*.example.com/"]`),
	Right: exampleDocument("Provider", "example", `
baseURL: https://api.example.com/v1
allowedHosts: ["*.example.com"]`),
	check: func(f *finder) {
		for _, p := range f.config.Providers {
			valid := true
			for i, host := range p.Spec.AllowedHosts {
				if !hostPattern.MatchString(host) {
					valid = false
					f.at(p.Doc, index("spec.allowedHosts", i), "%q is not a host's name, such as api.example.com or *.example.com", host)
				}
			}
			u, err := url.Parse(p.Spec.BaseURL)
			if err != nil || !valid || len(p.Spec.AllowedHosts) == 0 || u.Host == "" {
				continue
			}
			if own := u.Hostname(); !allowsHost(p.Spec.AllowedHosts, own) {
				f.warn(p.Doc, "spec.allowedHosts", "the base URL's own host %s is not among the allowed ones, so it cannot even redirect to itself", own)
			}
		}
	},
}

var hostPattern = regexp.MustCompile(`^(\*\.)?([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*$|^\[?[0-9A-Fa-f:.]+\]?$`)

// allowsHost tells whether a host is one of the allowed ones, or below one that begins with "*.".
func allowsHost(allowed []string, host string) bool {
	host = strings.ToLower(host)
	for _, pattern := range allowed {
		pattern = strings.ToLower(pattern)
		suffix, wild := strings.CutPrefix(pattern, "*")
		if pattern == host || wild && strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}

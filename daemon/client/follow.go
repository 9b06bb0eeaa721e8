package client

import (
	"net/http"
	"net/url"
	"strings"
)

// maxHops bounds the redirects of one page.
const maxHops = 5

// origin is scheme, host and port of a URL, the default port written out (RFC 6454, section 4).
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

func defaultPort(scheme string) string {
	if strings.EqualFold(scheme, "https") {
		return "443"
	}
	return "80"
}

// rules are where requests of an account may go. Credentials go to the origin of the base URL, and over https, at its default port,
// to the hosts that allowedHosts names (Meraki's shards need that); to no other. Requests go to the same origin and to allowed
// hosts, with or without credentials, but never from https to http.
type rules struct {
	base    *url.URL
	allowed []string // lower case
}

func newRules(base *url.URL, allowed []string) *rules {
	r := &rules{base: base}
	for _, host := range allowed {
		r.allowed = append(r.allowed, strings.ToLower(host))
	}
	return r
}

// names tells whether allowedHosts names a host, or a domain above it with "*." in front.
func (r *rules) names(host string) bool {
	host = strings.ToLower(host)
	for _, pattern := range r.allowed {
		suffix, wild := strings.CutPrefix(pattern, "*")
		if strings.Trim(pattern, "[]") == host || wild && strings.HasSuffix(host, suffix) && len(host) > len(suffix) {
			return true
		}
	}
	return false
}

// follow decides about a step from one URL to another, that of a redirect or of a link to the next page.
func (r *rules) follow(from, to *url.URL) error {
	switch {
	case to.Scheme != "http" && to.Scheme != "https":
		return &RedirectError{shown(from), shown(to), "only http and https are followed"}
	case to.User != nil:
		return &RedirectError{shown(from), shown(to), "it carries a user's name"}
	case to.Hostname() == "":
		return &RedirectError{shown(from), shown(to), "it names no host"}
	case from.Scheme == "https" && to.Scheme == "http":
		return &RedirectError{shown(from), shown(to), "a step from https to http is not taken"}
	case origin(to) == origin(r.base):
		return nil
	case len(r.allowed) == 0 && strings.EqualFold(to.Hostname(), r.base.Hostname()):
		return nil
	case r.names(to.Hostname()):
		return nil
	}
	return &RedirectError{shown(from), shown(to), "the host is not among the provider's allowedHosts"}
}

// trusts tells whether credentials may go to a URL.
func (r *rules) trusts(to *url.URL) bool {
	if origin(to) == origin(r.base) {
		return true
	}
	port := to.Port()
	return to.Scheme == "https" && (port == "" || port == "443") && r.names(to.Hostname())
}

// shown is a URL for messages: without user and query, which may carry secrets.
func shown(u *url.URL) string {
	return shortened((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), mostErrorBytes)
}

// redirected is the method after a redirect (RFC 9110, section 15.4); keep tells that the body goes along.
func redirected(status int, method string) (next string, keep, ok bool) {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound:
		if method == http.MethodPost {
			return http.MethodGet, false, true
		}
		return method, true, true
	case http.StatusSeeOther:
		if method == http.MethodHead {
			return method, false, true
		}
		return http.MethodGet, false, true
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return method, true, true
	}
	return method, false, false
}

// Redirect is the request that an answer sends us on to; nil where it does not. The error is a *RedirectError.
func (c *Client) Redirect(r *Request, a *Answer) (*Request, error) {
	method, keep, ok := redirected(a.Status, r.Method)
	location := a.Header.Get("Location")
	if !ok || location == "" {
		return nil, nil
	}
	to, err := r.URL.Parse(location)
	if err != nil {
		return nil, &RedirectError{shown(r.URL), shortened(c.redactor.Text(location), mostErrorBytes), "it is no URL"}
	}
	if err := c.Follow(r.URL, to); err != nil {
		return nil, err
	}
	if r.hops >= maxHops {
		return nil, &RedirectError{shown(r.URL), shown(to), "it is one redirect after many"}
	}
	next := &Request{Method: method, URL: to, Header: r.Header, hops: r.hops + 1}
	if keep {
		next.Body = r.Body
	}
	return next, nil
}

// Follow decides whether a step from one URL to another may be taken. The error is a *RedirectError.
func (c *Client) Follow(from, to *url.URL) error { return c.rules.follow(from, to) }

package simulate

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tapyr/tapyr/schema"
)

// doorman checks credentials as a provider declares them, and issues tokens and sessions.
type doorman struct {
	auth *schema.Auth
	base *url.URL
	// secrets are the values of the credentials by account and name; where there are none, anything of the right form is accepted.
	secrets map[string]map[string]string
	tokens  map[string]issued
	tokenAt string // the path of token or login requests, "" for none
	method  string
	// token is the shape of a login's answer, headers of its header.
	body, headers *shape
	issuedCount   int64
}

// issued is a token or a session.
type issued struct {
	identity   string
	untilNanos int64
}

// defaultTokenTTL is how long a token lasts where the documents do not say.
const defaultTokenTTL = time.Hour

func newDoorman(auth *schema.Auth, base *url.URL, secrets map[string]map[string]string) *doorman {
	d := &doorman{auth: auth, base: base, secrets: secrets, tokens: make(map[string]issued), body: &shape{kind: object}, headers: &shape{kind: object}}
	if auth == nil {
		d.auth = &schema.Auth{Type: "none"}
		return d
	}
	d.method, d.tokenAt, _ = loginEndpoint(auth)
	if auth.Token != "" {
		s, found := read(auth.Token, map[string]*shape{"response": d.body, "headers": d.headers})
		for _, leaf := range found.leaves {
			leaf.role = tokenRole
		}
		if s != nil {
			s.role = tokenRole
		}
	}
	return d
}

// isLogin tells whether a request asks for a token.
func (d *doorman) isLogin(method, path string) bool {
	return d.tokenAt != "" && method == d.method && under(strings.TrimSuffix(d.base.Path, "/"), path) == under(strings.TrimSuffix(d.base.Path, "/"), d.tokenAt)
}

// identify says who sends a request: the account, where the secrets are known, else the credential itself. ok is false where nobody
// is let in; why says what is missing, without the secret.
func (d *doorman) identify(now int64, r *http.Request) (identity, why string, ok bool) {
	a := d.auth
	switch a.Type {
	case "none", "":
		return "anybody", "", true
	case "basic":
		user, password, has := r.BasicAuth()
		if !has {
			return "", "want basic credentials in Authorization", false
		}
		return d.known(map[string]string{a.Username: user, a.Password: password}, user)
	case "header":
		name := a.Header
		if name == "" {
			name = "Authorization"
		}
		key, has := strings.CutPrefix(r.Header.Get(name), a.Prefix)
		if !has || key == "" {
			return "", "want the key in the header " + name, false
		}
		return d.known(map[string]string{a.Credential: key}, key)
	case "session_login":
		return d.session(now, r)
	}
	prefix := a.Prefix
	if prefix == "" {
		prefix = "Bearer "
	}
	header := r.Header.Get("Authorization")
	if len(header) <= len(prefix) || !strings.EqualFold(header[:len(prefix)], prefix) {
		return "", "want a bearer token in Authorization", false
	}
	token := header[len(prefix):]
	if a.Type == "bearer" {
		return d.known(map[string]string{a.Credential: token}, token)
	}
	return d.issuedTo(now, token)
}

func (d *doorman) session(now int64, r *http.Request) (identity, why string, ok bool) {
	a := d.auth
	if a.Cookie != "" {
		cookie, err := r.Cookie(a.Cookie)
		if err != nil {
			return "", "want the session cookie " + a.Cookie, false
		}
		return d.issuedTo(now, cookie.Value)
	}
	name := a.Header
	if name == "" {
		name = "Authorization"
	}
	token := strings.TrimPrefix(r.Header.Get(name), a.Prefix)
	if token == "" {
		return "", "want the session's token in the header " + name, false
	}
	return d.issuedTo(now, token)
}

func (d *doorman) issuedTo(now int64, token string) (identity, why string, ok bool) {
	one, there := d.tokens[token]
	switch {
	case !there:
		return "", "the token was not issued here", false
	case now >= one.untilNanos:
		delete(d.tokens, token)
		return "", "the token has expired", false
	}
	return one.identity, "", true
}

// known finds the account whose secrets these are, by the names of its credentials.
func (d *doorman) known(presented map[string]string, identity string) (account, why string, ok bool) {
	if len(d.secrets) == 0 {
		return identity, "", identity != ""
	}
	for name, secrets := range d.secrets {
		all := true
		for credential, value := range presented {
			all = all && secrets[credential] != "" && secrets[credential] == value
		}
		if all {
			return name, "", true
		}
	}
	return "", "the credentials are not those of an account", false
}

// login reads who asks for a token, and issues one.
func (d *doorman) login(now int64, r *http.Request, body []byte) (one issued, token, why string, ok bool) {
	identity, why, ok := d.loginIdentity(r, body)
	if !ok {
		return issued{}, "", why, false
	}
	d.issuedCount++
	m := maker{seed: uint64(d.issuedCount), path: identity}
	token = m.secret("token")
	one = issued{identity: identity, untilNanos: now + int64(d.auth.TTL.Or(defaultTokenTTL))}
	d.tokens[token] = one
	return one, token, "", true
}

func (d *doorman) loginIdentity(r *http.Request, body []byte) (identity, why string, ok bool) {
	a := d.auth
	if a.Type == "oauth2_client_credentials" {
		form, err := url.ParseQuery(string(body))
		if err != nil || form.Get("grant_type") != "client_credentials" {
			return "", "want a form with grant_type=client_credentials", false
		}
		id, secret, basic := r.BasicAuth()
		if !basic {
			id, secret = form.Get("client_id"), form.Get("client_secret")
		} else { // RFC 6749, section 2.3.1: both are form-encoded before they are joined
			if decoded, err := url.QueryUnescape(id); err == nil {
				id = decoded
			}
			if decoded, err := url.QueryUnescape(secret); err == nil {
				secret = decoded
			}
		}
		if id == "" || secret == "" {
			return "", "want client_id and client_secret", false
		}
		return d.known(map[string]string{a.ClientID: id, a.ClientSecret: secret}, id)
	}
	if len(d.secrets) == 0 {
		return "anybody", "", true
	}
	// The login's body has the secrets where its template puts them; whose they are can be told without knowing where.
	text, _ := url.QueryUnescape(string(body))
	for name, secrets := range d.secrets {
		user, password := secrets[a.Username], secrets[a.Password]
		basicUser, basicPassword, basic := r.BasicAuth()
		inBody := user != "" && password != "" && strings.Contains(string(body)+text, user) && strings.Contains(string(body)+text, password)
		if inBody || basic && basicUser == user && basicPassword == password {
			return name, "", true
		}
	}
	return "", "the credentials are not those of an account", false
}

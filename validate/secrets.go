package validate

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

// literalSecret is a value in a document that looks like a secret.
type literalSecret struct {
	doc *schema.Document
	// path leads to the value, or to the text that it is a part of; name is what a message calls it.
	path, name string
	value      string
}

// LiteralSecrets are the values in the documents that look like secrets, each once, sorted: what must not be shown, where a document
// is. Rule secret-in-request complains of each.
func (c *Config) LiteralSecrets() []string {
	var values []string
	c.eachLiteralSecret(func(l literalSecret) {
		values = append(values, l.value)
		if i := strings.LastIndexByte(strings.TrimSpace(l.value), ' '); i >= 0 {
			values = append(values, strings.TrimSpace(l.value)[i+1:]) // without the scheme, as it is sent elsewhere
		}
	})
	slices.Sort(values)
	return slices.Compact(values)
}

// eachLiteralSecret calls visit for every value that looks like a secret, by its name or by its form.
func (c *Config) eachLiteralSecret(visit func(literalSecret)) {
	look := func(doc *schema.Document, path, name, value string) {
		if IsSecret(name, value) {
			visit(literalSecret{doc, path, name, value})
		}
	}
	all := func(doc *schema.Document, path string, values map[string]string) {
		for _, name := range sortedKeys(values) {
			look(doc, schema.JoinPath(path, name), name, values[name])
		}
	}
	c.eachRequest(func(doc *schema.Document, path string, r *schema.Request) {
		all(doc, path+".headers", r.Headers)
		all(doc, path+".query", r.Query)
		inURL(r.Endpoint, func(name, value string) { look(doc, path+".endpoint", name, value) })
		inBody(r.Body, path+".body", "body", func(path, name, value string) { look(doc, path, name, value) })
	})
	for _, a := range c.Accounts {
		all(a.Doc, "spec.vars", a.Spec.Vars)
		for i := range a.Spec.Targets {
			all(a.Doc, index("spec.targets", i)+".vars", a.Spec.Targets[i].Vars)
		}
	}
	for _, p := range c.Providers {
		auth := p.Spec.Auth
		if auth == nil {
			continue
		}
		all(p.Doc, "spec.auth.params", auth.Params)
		inURL(auth.TokenURL, func(name, value string) { look(p.Doc, "spec.auth.tokenURL", name, value) })
		for word := range strings.FieldsSeq(auth.Prefix) { // a scheme, and what does not belong there
			if isSecretWord(word) {
				visit(literalSecret{p.Doc, "spec.auth.prefix", "prefix", word})
			}
		}
	}
}

// IsSecret tells whether a value looks like a secret: it is not empty, no variable stands in it, and it has the name of one or the
// form of a well-known vendor's keys.
func IsSecret(name, value string) bool {
	if value == "" || len(variablesIn(value)) > 0 {
		return false
	}
	return isSecretName(name) || secretForm.MatchString(value)
}

// Masked is a name's value as it may be shown: mark where it looks like a secret, also where a variable's value would stand there.
func Masked(name, value, mark string) string {
	if value != "" && (isSecretName(name) || secretForm.MatchString(value)) {
		return mark
	}
	return value
}

// MaskedBody is a declared body with mark in place of every value that looks like a secret. The original stays as it is.
func MaskedBody(body any, mark string) any { return maskedBody(body, "body", mark) }

func maskedBody(body any, name, mark string) any {
	switch b := body.(type) {
	case string:
		return maskedText(b, name, mark)
	case []any:
		out := make([]any, len(b))
		for i, one := range b {
			out[i] = maskedBody(one, name, mark)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(b))
		for key, one := range b {
			out[key] = maskedBody(one, key, mark)
		}
		return out
	}
	if isSecretName(name) && body != nil {
		return mark // a number can be a secret, too
	}
	return body
}

func maskedText(text, name, mark string) any {
	found := false
	inBody(text, "", name, func(_, name, value string) { found = found || Masked(name, value, mark) != value })
	if !found {
		return text
	}
	var inner any
	switch {
	case strings.HasPrefix(strings.TrimSpace(text), "{") && json.Unmarshal([]byte(text), &inner) == nil:
		masked, err := json.Marshal(maskedBody(inner, name, mark))
		if err != nil {
			return mark
		}
		return string(masked)
	case name == "body" && strings.Contains(text, "="):
		pairs := strings.Split(text, "&")
		for i, pair := range pairs {
			if key, value, ok := strings.Cut(pair, "="); ok && Masked(unescaped(key), unescaped(value), mark) != unescaped(value) {
				pairs[i] = key + "=" + mark
			}
		}
		return strings.Join(pairs, "&")
	}
	return mark
}

// MaskedPrefix is what stands before a credential, with mark in place of what does not belong there.
func MaskedPrefix(prefix, mark string) string {
	for word := range strings.FieldsSeq(prefix) {
		if isSecretWord(word) {
			prefix = strings.Replace(prefix, word, mark, 1)
		}
	}
	return prefix
}

// isSecretWord tells whether a word of a prefix is no scheme, but looks like a secret.
func isSecretWord(word string) bool { return looksRandom(word) || secretForm.MatchString(word) }

// inURL calls visit for the parameters of a path or URL.
func inURL(text string, visit func(name, value string)) {
	_, query, _ := strings.Cut(text, "?")
	query, _, _ = strings.Cut(query, "#")
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		visit(unescaped(name), unescaped(value))
	}
}

func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// inBody calls visit for the texts of a declared body, with their names: those of the nearest key above. A text can be JSON or a
// form of its own; its parts have its path.
func inBody(body any, path, name string, visit func(path, name, value string)) {
	switch b := body.(type) {
	case string:
		var inner any
		trimmed := strings.TrimSpace(b)
		switch {
		case strings.HasPrefix(trimmed, "{") && json.Unmarshal([]byte(trimmed), &inner) == nil:
			inBody(inner, path, name, func(_, name, value string) { visit(path, name, value) })
		case name == "body" && strings.Contains(b, "="):
			inURL("?"+trimmed, func(name, value string) { visit(path, name, value) })
		default:
			visit(path, name, b)
		}
	case []any:
		for i, one := range b {
			inBody(one, index(path, i), name, visit)
		}
	case map[string]any:
		for _, key := range sortedKeys(b) {
			inBody(b[key], schema.JoinPath(path, key), key, visit)
		}
	}
}

// secretName are names that secrets are sent under, in kebab case; a word may stand before them.
var secretName = regexp.MustCompile(`(^|-)(authorization|cookie|(api|auth|access|private|secret|subscription|signing|encryption)-?key|` +
	`((auth|access|refresh|bearer|session|id|security)-?)?token|(client-?)?secret|password|passwd|passphrase|pwd|jwt|session-?id|x-auth)$`)

// innocentName are names that end like those of secrets, and are not: places in a list.
var innocentName = regexp.MustCompile(`(^|-)(page|next|prev|previous|continuation|continue|start|resume|cursor|sync|skip|delta)-?token$`)

var camelHump = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// isSecretName tells whether secrets are sent under a name, however it is written: X-API-Key, api_key, apiKey, vendor.apiKey.
func isSecretName(name string) bool {
	name = camelHump.ReplaceAllString(name, "$1-$2")
	name = strings.ToLower(strings.NewReplacer("_", "-", ".", "-", " ", "-", "[", "-", "]", "").Replace(name))
	return secretName.MatchString(name) && !innocentName.MatchString(name)
}

// secretForm are forms that vendors give their keys and tokens so that they are found where they should not be: GitHub, GitLab,
// Slack, Stripe, AWS, Google, SendGrid, Airtable, and JSON web tokens.
var secretForm = regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{20,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|` +
	`[rs]k_(live|test)_[A-Za-z0-9]{16,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|` +
	`pat[A-Za-z0-9]{14}\.[0-9a-f]{64}|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`)

// looksRandom tells whether a word was made by a machine: long, with letters and digits.
func looksRandom(word string) bool {
	const least = 16
	word = word[strings.LastIndexAny(word, "=:")+1:] // token=..., key:...
	return len(word) >= least && strings.ContainsAny(word, "0123456789") && strings.ContainsFunc(word, func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	})
}

package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// minSecretBytes is the length from which a secret is looked for in texts: shorter ones would take innocent words with them, and
// nothing of ours writes them anyway.
const minSecretBytes = 6

// Redacted stands where a secret stood.
const Redacted = "[secret]"

// Redactor takes secrets out of texts that others will see. Its methods may be called by any goroutine. What a provider echoes,
// an error quotes or a header carries goes through it before it reaches a log, a file, a metric or the ledger.
type Redactor struct {
	mu       sync.RWMutex // guards all below
	forms    map[string]bool
	replacer *strings.Replacer
	longest  []string // forms, longest first: a secret may be part of another
}

// NewRedactor knows no secrets.
func NewRedactor() *Redactor {
	return &Redactor{forms: make(map[string]bool), replacer: strings.NewReplacer()}
}

// Add makes secrets known, in every form in which they may turn up: as they are, in a URL, in JSON and in base64.
func (r *Redactor) Add(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.forms)
	for _, secret := range secrets {
		if len(secret) < minSecretBytes {
			continue
		}
		r.forms[secret] = true
		r.forms[url.QueryEscape(secret)] = true
		r.forms[url.PathEscape(secret)] = true
		r.forms[base64.StdEncoding.EncodeToString([]byte(secret))] = true
		if quoted, err := json.Marshal(secret); err == nil {
			r.forms[string(quoted[1:len(quoted)-1])] = true
		}
	}
	if len(r.forms) == before {
		return
	}
	r.longest = r.longest[:0]
	for form := range r.forms {
		r.longest = append(r.longest, form)
	}
	slices.SortFunc(r.longest, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(r.longest))
	for _, form := range r.longest {
		pairs = append(pairs, form, Redacted)
	}
	r.replacer = strings.NewReplacer(pairs...)
}

// Text is a text without secrets.
func (r *Redactor) Text(text string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.replacer.Replace(text)
}

// Bytes is data without secrets: data itself, where there are none in it.
func (r *Redactor) Bytes(data []byte) []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, form := range r.longest {
		if bytes.Contains(data, []byte(form)) {
			data = bytes.ReplaceAll(data, []byte(form), []byte(Redacted))
		}
	}
	return data
}

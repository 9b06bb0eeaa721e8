package client

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
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
// an error quotes or a header carries goes through it before it reaches a log, a file, a metric or the ledger. What that costs does not
// grow with the number of secrets: every answer of every account goes through it.
type Redactor struct {
	mu    sync.RWMutex   // guards all below
	forms map[string]int // how many secrets have each form
	// starts are the forms by their first bytes, longest first: a secret may be part of another. pairs are their first two bytes, a bit
	// for each: hardly any place of a text has one of them.
	starts map[start][]string
	pairs  [1 << 16 / 64]uint64
}

// start is the beginning of a form.
type start [minSecretBytes]byte

// NewRedactor knows no secrets.
func NewRedactor() *Redactor {
	return &Redactor{forms: make(map[string]int), starts: make(map[start][]string)}
}

var lowerPercent = regexp.MustCompile(`%[0-9A-F]{2}`)

// AddBasic makes a user's password known in the form that basic authentication gives the two (RFC 7617).
func (r *Redactor) AddBasic(username, password string) {
	if len(password) >= minSecretBytes {
		r.Add(base64.RawStdEncoding.EncodeToString([]byte(username + ":" + password)))
	}
}

// Add makes secrets known, in every form in which they may turn up: as they are, in a URL, in JSON and in base64.
func (r *Redactor) Add(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range secrets {
		for _, form := range formsOf(secret) {
			r.add(form)
		}
	}
}

// remove forgets a secret as often as it was added: a token that is long out of date.
func (r *Redactor) remove(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, form := range formsOf(secret) {
		if r.forms[form]--; r.forms[form] > 0 {
			continue
		}
		delete(r.forms, form)
		begin := start([]byte(form[:minSecretBytes]))
		list := slices.DeleteFunc(slices.Clone(r.starts[begin]), func(other string) bool { return other == form })
		if r.starts[begin] = list; len(list) == 0 {
			delete(r.starts, begin) // its pair may be another's, and costs a look at most
		}
	}
}

// formsOf a secret, none where it is too short.
func formsOf(secret string) []string {
	if len(secret) < minSecretBytes {
		return nil
	}
	forms := []string{secret}
	for _, escaped := range []string{url.QueryEscape(secret), url.PathEscape(secret)} {
		forms = append(forms, escaped, lowerPercent.ReplaceAllStringFunc(escaped, strings.ToLower))
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		forms = append(forms, encoding.EncodeToString([]byte(secret)))
	}
	if quoted, err := json.Marshal(secret); err == nil && len(quoted)-2 >= minSecretBytes {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	return forms
}

// add requires mu.
func (r *Redactor) add(form string) {
	if r.forms[form]++; r.forms[form] > 1 {
		return
	}
	begin := start([]byte(form[:minSecretBytes]))
	list := append(slices.Clone(r.starts[begin]), form)
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	r.starts[begin] = list
	pair := binary.LittleEndian.Uint16(begin[:])
	r.pairs[pair/64] |= 1 << (pair % 64)
}

// Text is a text without secrets.
func (r *Redactor) Text(text string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	at, end := find(r, text, 0)
	if end == 0 {
		return text
	}
	var out strings.Builder
	done := 0
	for ; end > 0; at, end = find(r, text, done) {
		out.WriteString(text[done:at])
		out.WriteString(Redacted)
		done = end
	}
	out.WriteString(text[done:])
	return out.String()
}

// Bytes is data without secrets: data itself, where there are none in it.
func (r *Redactor) Bytes(data []byte) []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	at, end := find(r, data, 0)
	if end == 0 {
		return data
	}
	out := make([]byte, 0, len(data))
	done := 0
	for ; end > 0; at, end = find(r, data, done) {
		out = append(append(out, data[done:at]...), Redacted...)
		done = end
	}
	return append(out, data[done:]...)
}

// find is the first part of a text, at or after a place, that secrets cover: one, or several that overlap. end is 0 where there is none.
// It requires mu for reading.
func find[T string | []byte](r *Redactor, text T, from int) (at, end int) {
	if len(r.starts) == 0 {
		return 0, 0
	}
	for i := from; i+minSecretBytes <= len(text) && (end == 0 || i < end); i++ {
		pair := uint16(text[i]) | uint16(text[i+1])<<8
		if r.pairs[pair/64]&(1<<(pair%64)) == 0 {
			continue
		}
		var begin start
		copy(begin[:], text[i:])
		for _, form := range r.starts[begin] {
			if len(form) <= len(text)-i && string(text[i:i+len(form)]) == form {
				if end == 0 {
					at = i
				}
				end = max(end, i+len(form))
				break
			}
		}
	}
	return at, end
}

// header takes secrets out of a header.
func (r *Redactor) header(h http.Header) {
	for _, values := range h {
		for i, value := range values {
			values[i] = r.Text(value)
		}
	}
}

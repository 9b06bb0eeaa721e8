package client

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// redactPlainly is the dumb twin: it marks what any form covers, and replaces each marked stretch that overlaps hold together.
func redactPlainly(forms map[string]int, text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		end := i
		for j := i; j < len(text) && (j == i || j < end); j++ {
			for form := range forms {
				if strings.HasPrefix(text[j:], form) {
					end = max(end, j+len(form))
				}
			}
		}
		if end > i {
			out.WriteString(Redacted)
			i = end
			continue
		}
		out.WriteByte(text[i])
		i++
	}
	return out.String()
}

func TestRedactorAgreesWithItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.RuneFrom([]rune("aab/\"é")), 0, 12, -1)
		r := NewRedactor()
		secrets := rapid.SliceOfN(letters, 0, 6).Draw(t, "secrets")
		r.Add(secrets...)
		text := strings.Join(rapid.SliceOfN(rapid.OneOf(letters, rapid.SampledFrom(append(secrets, "x"))), 0, 8).Draw(t, "text"), "")
		want := redactPlainly(r.forms, text)
		if got := r.Text(text); got != want {
			t.Errorf("%v of %q: %q, want %q", r.forms, text, got, want)
		}
		if got := string(r.Bytes([]byte(text))); got != want {
			t.Errorf("as bytes, %v of %q: %q, want %q", r.forms, text, got, want)
		}
	})
}

func TestRedactorForgetsWhatIsRemoved(t *testing.T) {
	r := NewRedactor()
	r.Add("planted-token-1", "planted-token-2", "planted-token-1")
	r.remove("planted-token-1")
	if got := r.Text("planted-token-1 planted-token-2"); strings.Contains(got, "planted") {
		t.Errorf("%q: both are known still", got)
	}
	r.remove("planted-token-1")
	if got := r.Text("planted-token-1 planted-token-2"); got != "planted-token-1 "+Redacted {
		t.Errorf("%q: only the second is known", got)
	}
	r.remove("planted-token-2")
	if len(r.forms)+len(r.starts) != 0 {
		t.Errorf("%d forms and %d beginnings are left", len(r.forms), len(r.starts))
	}
}

func TestAClientForgetsOldTokens(t *testing.T) {
	c := &Client{redactor: NewRedactor()}
	for i := range 10 * keptTokens {
		c.passing(fmt.Sprintf("planted-token-%04d", i))
	}
	if got := c.redactor.Text(fmt.Sprintf("planted-token-%04d", 10*keptTokens-keptTokens)); got != Redacted {
		t.Errorf("%q: one of the last %d is known", got, keptTokens)
	}
	if n := len(c.redactor.forms); n > 9*keptTokens {
		t.Errorf("%d forms of %d tokens", n, keptTokens)
	}
}

// What looking for secrets costs must not grow with their number.
func BenchmarkRedact(b *testing.B) {
	body := []byte(strings.Repeat(`{"id":"Q2XX-0001","name":"device","up":true,"clients":12,"load":0.5},`, 1000))
	for _, secrets := range []int{1, 1000} {
		b.Run(fmt.Sprintf("%d secrets", secrets), func(b *testing.B) {
			r := NewRedactor()
			for i := range secrets {
				r.Add(fmt.Sprintf("%x-planted-secret", i*7919))
			}
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				r.Bytes(body)
			}
		})
	}
}

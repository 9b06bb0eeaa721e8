package schedule

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/golden"
)

// HT-04: the grammar of Link headers, as vendors use it.
func TestNextLink(t *testing.T) {
	for header, want := range map[string]string{
		`<https://h/c?page=2>; title="x, y"; rel="next"`:                                      "https://h/c?page=2",
		`<https://h/c?page=2>; rel=next`:                                                      "https://h/c?page=2",
		`<https://h/c?page=1>; rel="first", <https://h/c?a=1,2&page=2>; rel="prev next"`:      "https://h/c?a=1,2&page=2",
		`<https://h/c?page=2>; REL="Next"`:                                                    "https://h/c?page=2",
		`<https://h/c?page=2>; rel="nextpage"`:                                                "",
		`<https://h/c?page=2>; rel="prev"; rel="next"`:                                        "",
		`<https://h/c?page=2>; rel="next"; anchor="#part"`:                                    "",
		`<https://h/a;b>;;rel=next ; type="text/html"`:                                        "https://h/a;b",
		`,, <a>;rel=prev,<b>;rel=next`:                                                        "b",
		`<https://h/x>; title="a \" b, <https://evil/>; rel=next"; rel=last, <c>; rel = next`: "c",
		``:                "",
		`rubbish, <d>`:    "",
		`<unclosed; rel=`: "",
	} {
		got, err := nextLink(header)
		if got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", header, got, err, want)
		}
	}
	for _, header := range []string{`not a link; rel="next"`, `<https://h/c?page=2; rel="next"`, `<a>; rel=prev, https://h/2; rel=next`} {
		_, err := nextLink(header)
		var link *LinkError
		if !errors.As(err, &link) {
			t.Errorf("%s: got %v, want a *LinkError: a next page is announced but cannot be followed", header, err)
		}
	}
}

// HT-03: relative links are resolved against where they were found (RFC 3986, section 5).
func TestRelativeLinks(t *testing.T) {
	var input struct {
		Base  string
		Links []string
	}
	var expected struct{ Next []string }
	golden.Case(t, "HT-03", &input, &expected)
	from, err := url.Parse(input.Base)
	if err != nil || len(input.Links) == 0 {
		t.Fatal(err)
	}
	for i, header := range input.Links {
		want := expected.Next[i]
		reference, err := nextLink(header)
		if err != nil {
			t.Fatal(err)
		}
		p := &Pager{seen: make(map[string]bool)}
		next, err := p.byLink(from, reference)
		if err != nil || next.String() != want {
			t.Errorf("%s: got %v, %v; want %s", reference, next, err, want)
		}
		if _, err := p.byLink(from, reference); err == nil {
			t.Errorf("%s a second time is not an error", reference)
		}
	}
}

// What a well-behaved writer writes is read back, whatever the URL holds.
func TestNextLinkRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target := rapid.StringMatching(`[!#-;=?-~]{1,40}`).Draw(t, "target")
		before := rapid.SampledFrom([]string{"", `<x>; rel="prev", `, `<x,y;z>; title="a, \"b; c"; rel=first,`}).Draw(t, "before")
		param := rapid.SampledFrom([]string{"", `; title="n, m"`, `; hreflang=de`, ` ;;`}).Draw(t, "param")
		header := before + "<" + target + ">" + param + `; rel="next"`
		got, err := nextLink(header)
		if err != nil || got != target {
			t.Fatalf("%s: got %q, %v", header, got, err)
		}
	})
}

// Whatever a vendor sends, the reader ends, and what it returns stood in the header between angle brackets.
func FuzzNextLink(f *testing.F) {
	for _, seed := range []string{`<a>; rel=next`, `<a; rel="next", <b>`, `"<x>;rel=next`, `<a>;rel="next\`, `,;,;<>;REL=NEXT`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got, err := nextLink(header)
		if err != nil && got != "" {
			t.Errorf("%q: both %q and %v", header, got, err)
		}
		if got != "" && !strings.Contains(header, "<"+got+">") {
			t.Errorf("%q: %q did not stand there", header, got)
		}
	})
}

package schedule_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate/validatetest"
)

func pagerOf(t *testing.T, pagination string) *schedule.Pager {
	t.Helper()
	config := validatetest.Config(t, documents("pagination: "+pagination, "vars: {}", "list interval: 1m, request: { endpoint: /list }"))
	p, err := schedule.NewPager(config.Job("list"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// page is an answer's body and Link header.
type page struct{ body, link, want string }

// TestPager follows pages; want is where the next one is, "" for the end, or a part of the error behind "error: ".
func TestPager(t *testing.T) {
	tests := []struct {
		name, pagination string
		pages            []page
	}{
		{"none", "{ type: none }", []page{{`[1]`, "", ""}}},
		{"offset", "{ type: offset, offsetParam: o, limitParam: l, limit: 2 }", []page{{`[1,2]`, "", "http://h/list?l=2&o=2"}, {`[3,4]`, "", "http://h/list?l=2&o=4"}, {`[5]`, "", ""}}},
		{"offset, no size: an empty page is the end", "{ type: offset, offsetParam: o }", []page{{`[1,2]`, "", "http://h/list?o=2"}, {`[]`, "", ""}}},
		{"page", "{ type: page, pageParam: p, limit: 1 }", []page{{`{"a":[1]}`, "", "http://h/list?p=2"}, {`{"a":[]}`, "", ""}}},
		{"page from 0", "{ type: page, pageParam: p, firstPage: 0, limit: 1 }", []page{{`[1]`, "", "http://h/list?p=1"}, {`[1]`, "", "http://h/list?p=2"}}},
		{"cursor", "{ type: cursor, cursorParam: c, cursor: response.next }", []page{{`{"next":"x y"}`, "", "http://h/list?c=x+y"}, {`{"next":null}`, "", ""}}},
		{"cursor, a number", "{ type: cursor, cursorParam: c, cursor: response.next }", []page{{`{"next":12}`, "", "http://h/list?c=12"}, {`{"next":""}`, "", ""}}},
		{"cursor, in circles", "{ type: cursor, cursorParam: c, cursor: response.next }", []page{{`{"next":"x"}`, "", "http://h/list?c=x"}, {`{"next":"x"}`, "", `error: the cursor "x" a second time`}}},
		{"link", "{ type: link_header }", []page{{`[]`, `<http://h/list?p=0>; rel=first, <http://h/list?p=2>; rel="next last"`, "http://h/list?p=2"}, {`[]`, `<http://h/list>; rel=prev`, ""}}},
		{"link, relative", "{ type: link_header }", []page{{`[]`, `</list?p=2>; title="a, b; rel=next"; rel=next`, "http://h/list?p=2"}}},
		{"link, in circles", "{ type: link_header }", []page{{`[]`, `</list?p=2>; rel=next`, "http://h/list?p=2"}, {`[]`, `</list?p=2>; rel=next`, `error: the link`}}},
		{"expression, URL", "{ type: expression, next: response.next }", []page{{`{"next":"?p=2"}`, "", "http://h/list?p=2"}, {`{"next":null}`, "", ""}}},
		{"expression, map", `{ type: expression, next: 'response.more ? {"p": string(page + 1)} : {}' }`, []page{{`{"more":true}`, "", "http://h/list?p=2"}, {`{"more":false}`, "", ""}}},
		{"expression, no field", "{ type: expression, next: response.next }", []page{{`{}`, "", "error: no such key"}}},
		{"maxPages", "{ type: link_header, maxPages: 2 }", []page{{`[]`, `</list?p=2>; rel=next`, "http://h/list?p=2"}, {`[]`, `</list?p=3>; rel=next`, "cut"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := pagerOf(t, test.pagination)
			u := p.First(parse(t, "http://h/list"))
			for i, one := range test.pages {
				body, err := expr.DecodeJSON([]byte(one.body))
				if err != nil {
					t.Fatal(err)
				}
				next, cut, err := p.Next(t.Context(), schedule.Answer{URL: u, Body: body, Headers: map[string]string{"link": one.link}})
				got := ""
				switch {
				case err != nil:
					got = "error: " + err.Error()
				case cut:
					got = "cut"
				case next != nil:
					got = next.String()
				}
				message, isError := strings.CutPrefix(one.want, "error: ")
				if isError && (err == nil || !strings.Contains(got, message)) || !isError && got != one.want {
					t.Fatalf("after page %d: %q, want %q", i+1, got, one.want)
				}
				u = next
			}
		})
	}
}

func TestRepeatedPageIsTyped(t *testing.T) {
	p := pagerOf(t, "{ type: link_header }")
	u := parse(t, "http://h/list")
	_, _, err := p.Next(t.Context(), schedule.Answer{URL: u, Headers: map[string]string{"link": `<http://h/list>; rel=next`}})
	var repeated *schedule.RepeatedPageError
	if !errors.As(err, &repeated) || repeated.Kind != "link" || repeated.Page != 1 {
		t.Errorf("a page that names itself: %v", err)
	}
}

// FuzzLink: whatever a vendor sends, the pager ends, and follows nothing that the header does not hold.
func FuzzLink(f *testing.F) {
	for _, seed := range []string{`<a>; rel=next`, `<a>; rel="prev", <b>; rel="x next"`, `<a`, `<>;rel=next`, `<a>;rel="next`, `<a>;title="\"";rel=next`, `,<,>`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		config := validatetest.Config(t, documents("pagination: { type: link_header }", "vars: {}", "list interval: 1m, request: { endpoint: /list }"))
		p, err := schedule.NewPager(config.Job("list"))
		if err != nil {
			t.Fatal(err)
		}
		next, _, err := p.Next(t.Context(), schedule.Answer{URL: &url.URL{Scheme: "http", Host: "h", Path: "/list"}, Headers: map[string]string{"link": header}})
		if err == nil && next != nil && !strings.Contains(strings.ToLower(header), "next") {
			t.Errorf("%q leads to %s", header, next)
		}
	})
}

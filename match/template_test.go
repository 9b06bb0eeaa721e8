package match

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func parse(t *testing.T, endpoint string) *Template {
	t.Helper()
	template, err := ParseTemplate(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func TestParseTemplate(t *testing.T) {
	template := parse(t, "//organizations/{organizationId}/networks/?perPage=1000&tags=a%20b&tags=c&x={y}")
	if template.Path != "/organizations/{organizationId}/networks" || !slices.Equal(template.Vars, []string{"organizationId"}) {
		t.Errorf("%+v", template)
	}
	if want := map[string]string{"perPage": "1000", "tags": "a b", "x": "{y}"}; !maps.Equal(template.Query, want) {
		t.Errorf("query %v", template.Query)
	}
	if v := parse(t, "/{a}/{b}-{a}.json").Vars; !slices.Equal(v, []string{"a", "b"}) {
		t.Errorf("variables %v", v)
	}
	for _, bad := range []string{"/{a", "/a}", "/{}", "/{a-b}", "/{1a}", "/{{a}}", "/{a}{", "/a?x=%zz", "/{ä}"} {
		if template, err := ParseTemplate(bad); err == nil {
			t.Errorf("%q gives %+v", bad, template)
		} else if !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: the message does not quote it: %v", bad, err)
		}
	}
}

func TestTemplateMatch(t *testing.T) {
	tests := []struct {
		endpoint, path string
		want           map[string]string // nil: no match
	}{
		{"/organizations/{id}", "/organizations/1", map[string]string{"id": "1"}},
		{"/organizations/{id}", "/organizations/a%2Fb", map[string]string{"id": "a/b"}},
		{"/organizations/{id}", "/organizations/", nil},
		{"/organizations/{id}", "/organizations/1/x", nil},
		{"/organizations/{id}", "/organizations/{id}", map[string]string{}},
		{"/a/{x}/{x}", "/a/1/1", map[string]string{"x": "1"}},
		{"/a/{x}/{x}", "/a/1/2", nil},
		{"/f/{name}.{ext}", "/f/a.b.c", map[string]string{"name": "a.b", "ext": "c"}},
		{"/f/{name}.json", "/f/.json", nil},
		{"/f/v{n}", "/f/v12", map[string]string{"n": "12"}},
		{"/a.b/{x}", "/aXb/1", nil},
		{"/f/a+{x}", "/f/a+1", map[string]string{"x": "1"}},
		{"/f/a+{x}", "/f/aa1", nil},
		{"/a", "//a/", map[string]string{}},
		{"/a b", "/a%20b", map[string]string{}},
		{"/x/{y}", "/x/%zz", map[string]string{"y": "%zz"}},
	}
	for _, tt := range tests {
		got, ok := parse(t, tt.endpoint).Match(tt.path)
		if ok != (tt.want != nil) || ok && !maps.Equal(got, tt.want) {
			t.Errorf("%q against %q: %v, %v; want %v", tt.endpoint, tt.path, got, ok, tt.want)
		}
	}
}

// Whatever a variable's value holds, it comes back from the path it was put into.
func TestExpandAndMatchRoundTrip(t *testing.T) {
	template := parse(t, "/organizations/{org}/networks/{net}")
	rapid.Check(t, func(t *rapid.T) {
		vars := map[string]string{"org": rapid.StringN(1, 10, -1).Draw(t, "org"), "net": rapid.StringN(1, 10, -1).Draw(t, "net")}
		path, missing := template.Expand(vars)
		if missing != "" {
			t.Fatalf("missing %s", missing)
		}
		if got, ok := template.Match(path); !ok || !maps.Equal(got, vars) {
			t.Fatalf("%q became %q and was read as %q, %v", vars, path, got, ok)
		}
		if u, err := url.Parse("https://h" + path); err != nil || strings.Count(u.EscapedPath(), "/") != 4 {
			t.Fatalf("%q is not a path of four segments: %v", path, err)
		}
	})
	for _, vars := range []map[string]string{{"org": "1"}, {"org": "1", "net": ""}} {
		if path, missing := template.Expand(vars); missing != "net" || path != "" {
			t.Errorf("%q, missing %q, want net", path, missing)
		}
	}
}

func TestBestPrefersLiterals(t *testing.T) {
	templates := []*Template{
		parse(t, "/{a}/{b}"), parse(t, "/devices/{serial}"), parse(t, "/devices/statuses"), parse(t, "/{a}/statuses"), parse(t, "/devices/{other}"),
	}
	for path, want := range map[string]int{"/x/y": 0, "/devices/Q2": 1, "/devices/statuses": 2, "/x/statuses": 3, "/x": -1, "/x/y/z": -1} {
		if got, _ := Best(templates, path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if _, vars := Best(templates, "/devices/Q2"); vars["serial"] != "Q2" {
		t.Errorf("variables %v", vars)
	}
	if got, _ := Best(nil, "/x"); got != -1 {
		t.Errorf("of nothing: %d", got)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range [][2]string{{"/a/{b}", "/a/1"}, {"/{a}.{b}", "/x.y"}, {"/{a}{b}?q={c}", "/xy"}, {"{", "}"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, endpoint, path string) {
		template, err := ParseTemplate(endpoint)
		if err != nil {
			return
		}
		vars, ok := template.Match(path)
		if ok && CleanPath(path) != template.Path && len(vars) != len(template.Vars) {
			t.Errorf("%q against %q: %v, variables %v", endpoint, path, vars, template.Vars)
		}
		if _, ok := template.Match(template.Path); !ok {
			t.Errorf("%q does not match itself", template.Path)
		}
	})
}

package smartflow

import (
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func merakiLearner(t testing.TB) *Learner {
	t.Helper()
	l, err := NewLearner(merakiSpec())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLearnerLessons(t *testing.T) {
	l := merakiLearner(t)
	if l.Var() != "organizationId" {
		t.Errorf("Var is %q", l.Var())
	}
	for _, c := range []struct {
		url, body string
		want      Lesson
		ok        bool
	}{
		{"/organizations/1/networks/N_1?x=/devices/Q", `{}`, Lesson{"1", []Key{{Network, "N_1"}}}, true},
		{"/networks/N_1", `{"organizationId":"2","networkId":"N_2","serial":"Q","network":{"id":"N_3"}}`, Lesson{"2", []Key{{Network, "N_1"}, {Network, "N_2"}, {Device, "Q"}, {Network, "N_3"}}}, true},
		{"/networks/N_1", `{"organization":{"id":"3"}}`, Lesson{"3", []Key{{Network, "N_1"}}}, true},
		{"/networks/N_1", `{"organizationId":null,"organization":{"id":"3"}}`, Lesson{}, false},
		{"/networks/N_1", `{"organizationId":3}`, Lesson{}, false},
		{"/networks/N_1", `[{"organizationId":"3"}]`, Lesson{}, false},
		{"/organizations/1", `{"networkId":7,"serial":"","network":[]}`, Lesson{Value: "1"}, true},
		{"/administered", `null`, Lesson{}, false},
	} {
		var body any
		if err := json.Unmarshal([]byte(c.body), &body); err != nil {
			t.Fatal(err)
		}
		got, ok := l.Lesson(c.url, body)
		if ok != c.ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %s: got %v, %v; want %v, %v", c.url, c.body, got, ok, c.want, c.ok)
		}
	}
}

// What an object says by itself, and what counts as an identifier in it.
func TestLearnerNamed(t *testing.T) {
	spec := merakiSpec()
	strict := merakiLearner(t)
	spec.Numbers = true
	wide, err := NewLearner(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body              string
		strictly, withAll string
		keys, allKeys     []Key
	}{
		{`{"organizationId":"1","networkId":"N_1"}`, "1", "1", []Key{{Network, "N_1"}}, []Key{{Network, "N_1"}}},
		{`{"serial":"Q","network":{"id":12}}`, "", "", []Key{{Device, "Q"}}, []Key{{Device, "Q"}, {Network, "12"}}},
		{`{"organizationId":549236,"networkId":1.5}`, "", "549236", nil, nil},
		{`{"organizationId":9007199254740992,"serial":-4}`, "", "", nil, []Key{{Device, "-4"}}},
		{`{"organizationId":true,"serial":null,"networkId":["N"]}`, "", "", nil, nil},
		{`["N_1"]`, "", "", nil, nil},
	} {
		var body any
		if err := json.Unmarshal([]byte(c.body), &body); err != nil {
			t.Fatal(err)
		}
		if value, keys := strict.Named(body); value != c.strictly || !reflect.DeepEqual(keys, c.keys) {
			t.Errorf("%s: got %q, %v; want %q, %v", c.body, value, keys, c.strictly, c.keys)
		}
		if value, keys := wide.Named(body); value != c.withAll || !reflect.DeepEqual(keys, c.allKeys) {
			t.Errorf("%s with numbers: got %q, %v; want %q, %v", c.body, value, keys, c.withAll, c.allKeys)
		}
	}
	// Decoders that keep whole numbers keep all of their digits.
	if value, _ := wide.Named(map[string]any{"organizationId": int64(9223372036854775807)}); value != "9223372036854775807" {
		t.Errorf("got %q", value)
	}
}

// A learner for another API than the one this package is about.
func TestLearnerOfAnotherAPI(t *testing.T) {
	l, err := NewLearner(LearnSpec{
		Var:  "account",
		From: []string{`^/accounts/(\d+)`, `^/a/(\d+)`},
		Keys: []KeySpec{{Kind: "zone", URL: `/zones/([0-9a-f]+)`, Body: []string{"result.zone.id"}}, {Kind: "worker", Body: []string{"result.worker"}}},
		Body: []string{"result.account.id"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := l.Value("/a/17/b"); !ok || v != "17" {
		t.Errorf("got %q, %v", v, ok)
	}
	body := map[string]any{"result": map[string]any{"account": map[string]any{"id": "9"}, "zone": map[string]any{"id": "ff"}, "worker": "w"}}
	want := Lesson{"9", []Key{{"zone", "ab"}, {"zone", "ff"}, {"worker", "w"}}}
	if got, ok := l.Lesson("/zones/ab", body); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLearnSpecErrors(t *testing.T) {
	for field, spec := range map[string]LearnSpec{
		"Var":             {},
		"From[0]":         {Var: "v", From: []string{`(`}},
		"From[1]":         {Var: "v", From: []string{`(a)`, `a`}},
		"Body[0]":         {Var: "v", Body: []string{"a..b"}},
		"Keys[0].Kind":    {Var: "v", Keys: []KeySpec{{URL: "(a)"}}},
		"Keys[1].Kind":    {Var: "v", Keys: []KeySpec{{Kind: "a"}, {Kind: "a"}}},
		"Keys[0].URL":     {Var: "v", Keys: []KeySpec{{Kind: "a", URL: "(a)(b)"}}},
		"Keys[0].Body[0]": {Var: "v", Keys: []KeySpec{{Kind: "a", Body: []string{""}}}},
	} {
		_, err := NewLearner(spec)
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// drawURL makes URLs in which the names of the three collections collide a lot.
func drawURL() *rapid.Generator[string] {
	part := rapid.SampledFrom([]string{
		"/", "/", "organizations", "networks", "devices", "organizations/", "/networks/", "/devices/",
		"my", "N_1", "1", "Q2AA-BBBB-CCCC", "?", "#", "%2F", "é", "\n", ".", "Networks",
	})
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "parts"), "") })
}

// scan, which runs for every request, finds what the regular expressions find.
func TestScanIsTheExpressions(t *testing.T) {
	l := merakiLearner(t)
	rapid.Check(t, func(t *rapid.T) { checkScan(t, l, drawURL().Draw(t, "url")) })
}

// The expressions as section 3 of the specification has them.
var published = []*regexp.Regexp{
	regexp.MustCompile(`/organizations/([^/]+)`), regexp.MustCompile(`/networks/([^/]+)`), regexp.MustCompile(`/devices/([^/]+)`),
}

func checkScan(t interface{ Fatalf(string, ...any) }, l *Learner, url string) {
	found := (&dialect{}).scan(url, false)
	if value, _ := l.Value(url); value != found.org {
		t.Fatalf("%q: organization %q, the expression finds %q", url, found.org, value)
	}
	var keys []Key
	if found.network != "" {
		keys = append(keys, Key{Network, found.network})
	}
	if found.device != "" {
		keys = append(keys, Key{Device, found.device})
	}
	if want := l.Keys(url); !reflect.DeepEqual(keys, want) {
		t.Fatalf("%q: %v, the expressions find %v", url, keys, want)
	}
	whole := reference.scan(url, false)
	for i, got := range []string{whole.org, whole.network, whole.device} {
		want := ""
		if m := published[i].FindStringSubmatch(url); m != nil {
			want = m[1]
		}
		if got != want {
			t.Fatalf("%q, whole: %q, %v finds %q", url, got, published[i], want)
		}
	}
	// The quick way to the target is the slow one.
	target := (&dialect{}).target(url)
	want := Key{}
	switch {
	case found.org != "":
		want = Key{organization, found.org}
	case len(keys) > 0:
		want = keys[0]
	}
	if target != want {
		t.Fatalf("%q: target %v, want %v", url, target, want)
	}
}

func FuzzURL(f *testing.F) {
	for _, url := range []string{
		"/organizations/1/networks/N_1/devices/Q", "https://a/networks//networks/N_1?x=/organizations/1#/devices/Q",
		"/organizations/networks/devices/x", "", "/", "/devices/", "//organizations//1",
	} {
		f.Add(url)
	}
	l := merakiLearner(f)
	f.Fuzz(func(t *testing.T, url string) {
		if strings.ContainsRune(url, '\uFFFD') {
			t.Skip() // an expression sees bytes that are no UTF-8 as this character
		}
		checkScan(t, l, url)
	})
}

package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tapyr/tapyr/golden"
)

// one decodes a text that holds one document.
func one(t *testing.T, text string) *Document {
	t.Helper()
	docs, problems := Decode("test.yaml", []byte(text))
	if len(problems) > 0 || len(docs) != 1 {
		t.Fatalf("%d documents, problems %v", len(docs), problems)
	}
	return docs[0]
}

// describe writes problems a line each, as a command does.
func describe(problems []Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%d:%d %s %s: %s (%s)\n", p.Line, p.Column, p.Severity, p.Rule, p.Message, p.Path)
	}
	return b.String()
}

const providerHead = "apiVersion: tapyr/v1alpha1\nkind: Provider\nmetadata: { name: vendor }\nspec:\n"

const quotaHead = providerHead + "  limits:\n    - name: daily\n      kind: quota\n      max: 5000\n      window:\n        period: day\n"

// mistakes are what people get wrong, and what they are told: each line is position, severity, rule, message and path.
var mistakes = []struct{ name, text, want string }{
	{
		"field", providerHead + "  limts: []\n",
		"5:3 error unknown-field: unknown field \"limts\"; did you mean \"limits\"? (spec.limts)\n",
	},
	{
		"two letters swapped", providerHead + "  limits: [{ name: a, kind: qouta }]\n",
		"5:29 error shape: kind is \"qouta\", want one of rate, concurrency, quota; did you mean \"quota\"? (spec.limits[0].kind)\n",
	},
	{
		"a required field misspelt is one mistake", "apiVersion: tapyr/v1alpha1\nkind: Account\nmetadata: { name: a }\nspec: { provder: x }\n",
		"4:9 error unknown-field: unknown field \"provder\"; did you mean \"provider\"? (spec.provder)\n",
	},
	{
		"unit of a rate", providerHead + "  limits: [{ name: a, kind: rate, rate: 10/sec }]\n",
		"5:41 error unit: rate \"10/sec\": \"sec\" is not a span, want N/s, N/m, N/h, N/d or N/DURATION, such as 10/s or 1/90s (spec.limits[0].rate)\n",
	},
	{
		"unit of a duration", providerHead + "  retry: { initial: 5 }\n",
		"5:21 error shape: initial is 5, want a duration: a number with a unit: ms, s, m, h, d, w or y, such as 90s or 1h30m (spec.retry.initial)\n",
	},
	{
		"number in quotes", providerHead + "  limits: [{ name: a, kind: quota, max: \"10\" }]\n",
		"5:41 error shape: max is \"10\", want a whole number, auto, or byVar with values; write it without quotes (spec.limits[0].max)\n",
	},
	{
		"fraction for a count", providerHead + "  limits: [{ name: a, kind: quota, max: 1.5 }]\n",
		"5:41 error shape: max is 1.5, want a whole number, auto, or byVar with values (spec.limits[0].max)\n",
	},
	{
		"fraction for a plain count", providerHead + "  limits: [{ name: a, kind: rate, rate: 1/s, burst: 1.5 }]\n",
		"5:53 error shape: burst is 1.5, want a whole number (spec.limits[0].burst)\n",
	},
	{
		"leading zero", providerHead + "  limits: [{ name: a, kind: rate, rate: 1/s, burst: 010 }]\n",
		"5:53 error ambiguous-scalar: 010 begins with a zero: some YAML readers take it for an octal number; leave the zero out, or write quotes if it is a name (spec.limits[0].burst)\n",
	},
	{
		"range", providerHead + "  retry: { maxAttempts: 0, jitter: 1.5 }\n",
		"5:25 error shape: maxAttempts is 0, want at least 1 (spec.retry.maxAttempts)\n" +
			"5:36 error shape: jitter is 1.5, want at most 1 (spec.retry.jitter)\n",
	},
	{
		"number for a text", "apiVersion: tapyr/v1alpha1\nkind: Account\nmetadata: { name: a }\nspec:\n  provider: x\n  vars: { site: 7 }\n",
		"6:17 error shape: site is 7, want a text; write it in quotes (spec.vars.site)\n",
	},
	{
		"kind", "apiVersion: tapyr/v1alpha1\nkind: provider\nmetadata: { name: a }\nspec: {}\n",
		"2:7 error shape: kind is \"provider\", want one of Provider, Account, Job, Settings, SpendPolicy; did you mean \"Provider\"? (kind)\n",
	},
	{
		"version", "apiVersion: tapyr/v1\nkind: Provider\nmetadata: { name: a }\nspec: {}\n",
		"1:13 error shape: apiVersion is \"tapyr/v1\", want tapyr/v1alpha1 (apiVersion)\n",
	},
	{
		"name", "apiVersion: tapyr/v1alpha1\nkind: Provider\nmetadata: { name: My Vendor }\nspec: {}\n",
		"3:19 error shape: name is \"My Vendor\", want a name: lower-case letters, digits and hyphens, a letter or digit first and last (metadata.name)\n",
	},
	{
		"empty", "apiVersion: tapyr/v1alpha1\nkind: Account\nmetadata: { name: a }\nspec:\n  provider:\n",
		"5:3 error shape: provider is empty, want a text (spec.provider)\n",
	},
	{
		"list for a mapping", providerHead + "  auth: [bearer]\n",
		"5:3 error shape: auth is a list, want a mapping (spec.auth)\n",
	},
	{
		"not a mapping at all", "- a\n- b\n",
		"1:1 error shape: a document must be a mapping with apiVersion, kind, metadata and spec ()\n",
	},
	{
		"missing", "kind: Provider\nspec: {}\n",
		"1:1 error missing-field: missing field \"apiVersion\" in the document (apiVersion)\n" +
			"1:1 error missing-field: missing field \"metadata\" in the document (metadata)\n",
	},
	{
		"key of two lines", "apiVersion: tapyr/v1alpha1\nkind: Provider\nmetadata: { name: a }\nspec: {}\nkind: Account\n",
		"5:1 error duplicate-key: key \"kind\" stands twice, first in line 2; remove one of them (kind)\n",
	},
	{
		"tag", providerHead + "  title: !!binary aGVsbG8=\n",
		"5:10 error shape: tag !!binary is not supported; write a plain text, number, true or false (spec.title)\n",
	},
	{
		"hexadecimal", providerHead + "  limits: [{ name: a, kind: concurrency, max: 0x10 }]\n",
		"5:47 error shape: 0x10 is not a number in plain decimal digits, such as 15, 0.5 or 1e6 (spec.limits[0].max)\n",
	},
	{
		"an ignored part", "x-anchors: &a { a: b }\n" + providerHead + "  title: text\n", "",
	},
}

func TestProblems(t *testing.T) {
	for _, tt := range mistakes {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, describe(one(t, tt.text).Problems)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// CF-01: a time of day without quotes is read as written, with a warning; a number or 24:00 is never taken for one.
func TestFieldTimesOfDay(t *testing.T) {
	var input struct {
		Each []string `json:"yaml_each"`
	}
	var expected struct {
		Results []string `json:"results"`
	}
	golden.Case(t, "CF-01", &input, &expected)
	if len(input.Each) == 0 || len(input.Each) != len(expected.Results) {
		t.Fatalf("%d inputs, %d results", len(input.Each), len(expected.Results))
	}
	for i, line := range input.Each {
		doc := one(t, quotaHead+"        "+line+"\n")
		got := doc.Spec.(*ProviderSpec).Limits[0].Window.ResetAt
		failed := slices.ContainsFunc(doc.Problems, func(p Problem) bool { return p.Severity == SeverityError })
		if strings.HasPrefix(expected.Results[i], "validation error") {
			if !failed || got != "" {
				t.Errorf("%s: %q, problems %v", line, got, doc.Problems)
			}
			continue
		}
		if failed || got != expected.Results[i] {
			t.Errorf("%s: %q, want %q, problems %v", line, got, expected.Results[i], doc.Problems)
		}
		warned := len(doc.Problems) == 1 && doc.Problems[0].Rule == RuleAmbiguous && doc.Problems[0].Severity == SeverityWarning
		if quoted := strings.Contains(line, `"`); warned == quoted {
			t.Errorf("%s: problems %v", line, doc.Problems)
		}
	}
}

// CF-03: NO is a country and on is a key; both are remarked on.
func TestFieldNorway(t *testing.T) {
	var input struct {
		YAML string `json:"yaml"`
	}
	var expected struct{ Country, Region, KeyNamed string }
	golden.Case(t, "CF-03", &input, &expected)
	doc := one(t, "kind: Provider\nspec:\n  "+strings.ReplaceAll(strings.TrimSpace(input.YAML), "\n", "\n  ")+"\n")
	scopes, _ := doc.Tree["spec"].(map[string]any)
	_, there := scopes["scopes"]
	if there {
		t.Error("an unknown field stayed in the tree")
	}
	w := walker{doc: &Document{File: "x"}}
	tree, _ := w.value(node(t, input.YAML), nil).(map[string]any)
	got, _ := tree["scopes"].(map[string]any)
	if got["country"] != expected.Country || got["region"] != expected.Region {
		t.Errorf("country %v, region %v", got["country"], got["region"])
	}
	if _, named := got[expected.KeyNamed]; !named {
		t.Errorf("no key %q in %v", expected.KeyNamed, got)
	}
	if len(w.doc.Problems) != 4 { // NO, on, y, no
		t.Errorf("remarks:\n%s", describe(w.doc.Problems))
	}
}

// CF-04: a key that stands twice is an error that names it and its line.
func TestFieldDuplicateKeys(t *testing.T) {
	var input struct {
		YAML string `json:"yaml"`
	}
	var expected struct{ Result string }
	golden.Case(t, "CF-04", &input, &expected)
	w := walker{doc: &Document{File: "x"}}
	w.value(node(t, input.YAML), nil)
	if len(w.doc.Problems) != 1 {
		t.Fatalf("problems:\n%s", describe(w.doc.Problems))
	}
	p := w.doc.Problems[0]
	if p.Rule != RuleDuplicateKey || p.Severity != SeverityError || !strings.Contains(p.Message, "rate") || !strings.Contains(expected.Result, fmt.Sprint("(", p.Line, ")")) {
		t.Errorf("%s; want: %s", describe(w.doc.Problems), expected.Result)
	}
}

// CF-07: own keys beat merged ones in any order, and the earlier of a list the later.
func TestFieldMergeKeys(t *testing.T) {
	var input struct {
		YAML string `json:"yaml"`
	}
	var expected struct{ Fourth, Fifth, Sixth map[string]int }
	golden.Case(t, "CF-07", &input, &expected)
	w := walker{doc: &Document{File: "x"}}
	list, _ := w.value(node(t, input.YAML), nil).([]any)
	if len(list) != 6 {
		t.Fatalf("%v", list)
	}
	for _, p := range w.doc.Problems { // y is a truth value to YAML 1.1; each of the two is remarked on once, though merged again
		if p.Severity != SeverityWarning || p.Column != 13 || len(w.doc.Problems) != 2 {
			t.Errorf("problems:\n%s", describe(w.doc.Problems))
		}
	}
	for i, want := range []map[string]int{expected.Fourth, expected.Fifth, expected.Sixth} {
		got := list[3+i].(map[string]any)
		if len(got) != len(want) {
			t.Errorf("%d: %v, want %v", 4+i, got, want)
		}
		for k, v := range want {
			if fmt.Sprint(got[k]) != fmt.Sprint(v) {
				t.Errorf("%d: %s is %v, want %v", 4+i, k, got[k], v)
			}
		}
	}
}

// A merge key takes a mapping or a list of them, directly or by an alias; anything else is an error.
func TestMergeKeysTakeMappings(t *testing.T) {
	doc := one(t, "x-a: &a { title: A }\nx-b: &b [*a, { baseURL: \"https://b.example\" }]\n"+providerHead+"  <<: *b\n")
	if spec := doc.Spec.(*ProviderSpec); spec.Title != "A" || spec.BaseURL != "https://b.example" || len(doc.Problems) > 0 {
		t.Errorf("%+v\n%s", spec, describe(doc.Problems))
	}
	if at := doc.Position("spec.baseURL"); at.Line != 2 || at.Column != 25 {
		t.Errorf("merged from a list, it stands at %d:%d", at.Line, at.Column)
	}
	doc = one(t, providerHead+"  <<: text\n")
	if len(doc.Problems) != 1 || doc.Problems[0].Line != 5 || !strings.Contains(doc.Problems[0].Message, "takes a mapping") {
		t.Errorf("a text:\n%s", describe(doc.Problems))
	}
}

// A secret that was written into a document by mistake is never shown, whatever is wrong with it.
func TestSecretsAreConcealed(t *testing.T) {
	const secret = "6bec40cf957de430"
	for _, spec := range []string{
		"credentials: { apiKey: " + secret + " }",
		"credentials: " + secret,
		"credentials: [" + secret + "]",
		"credentials: { apiKey: { value: " + secret + " } }",
		"credentials: { apiKey: { env: [" + secret + "] } }",
		"credentials: { apiKey: !!binary " + secret + " }",
		"credentials: { apiKey: 0" + "123456" + " }",
	} {
		doc := one(t, "apiVersion: tapyr/v1alpha1\nkind: Account\nmetadata: { name: a }\nspec:\n  provider: x\n  "+spec+"\n")
		if len(doc.Problems) == 0 {
			t.Errorf("%s: no problem", spec)
		}
		for _, p := range doc.Problems {
			if !p.Concealed || strings.Contains(p.Message, secret) || strings.Contains(p.Message, "123456") {
				t.Errorf("%s: %+v", spec, p)
			}
		}
	}
	doc := one(t, "apiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: a }\nspec:\n  state: { dsn: \"postgres://u:"+secret+"@h\" }\n  status: { token: "+secret+" }\n")
	for _, p := range doc.Problems {
		if !p.Concealed || strings.Contains(p.Message, secret) {
			t.Errorf("%+v", p)
		}
	}
	if len(doc.Problems) != 2 {
		t.Errorf("problems:\n%s", describe(doc.Problems))
	}
}

// What is wrong is left out; what is right beside it stays.
func TestWrongValuesAreLeftOut(t *testing.T) {
	doc := one(t, providerHead+`  title: A
  limits:
    - { name: a, kind: quota, max: many, window: { period: day } }
    - 17
    - { name: c, kind: concurrency, max: 3 }
`)
	spec := doc.Spec.(*ProviderSpec)
	if spec.Title != "A" || len(spec.Limits) != 3 {
		t.Fatalf("%+v", spec)
	}
	if a := spec.Limits[0]; a.Name != "a" || a.Max != nil || a.Window.Period != "day" {
		t.Errorf("first: %+v", a)
	}
	if spec.Limits[1].Name != "" || spec.Limits[2].Name != "c" || spec.Limits[2].Max.Number != 3 {
		t.Errorf("others: %+v", spec.Limits[1:])
	}
	if len(doc.Problems) != 2 {
		t.Errorf("problems:\n%s", describe(doc.Problems))
	}
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	doc := one(t, "apiVersion: tapyr/v1alpha1\nkind: Account\nmetadata: { name: a }\nspec: { provider: x, budget: { share: 0.29 } }\n")
	if got := doc.Spec.(*AccountSpec).Budget.Share.MulFloor(100); got != 29 {
		t.Errorf("29%% of 100 is %d", got)
	}
	doc = one(t, providerHead+"  limits: [{ name: a, kind: quota, max: 999999999999999 }]\n")
	if got := doc.Spec.(*ProviderSpec).Limits[0].Max.Number; got != 999999999999999 {
		t.Errorf("max is %d", got)
	}
}

func TestSeveralDocuments(t *testing.T) {
	docs, problems := Decode("x", []byte("---\n# nothing\n---\nkind: Account\n---\n\n...\n---\nkind: Job\n"))
	if len(problems) > 0 || len(docs) != 2 || docs[0].Kind != "Account" || docs[1].Kind != "Job" {
		t.Errorf("%d documents, %v", len(docs), problems)
	}
	docs, problems = Decode("x", []byte("kind: Account\n---\nkind: [\n"))
	if len(docs) != 1 || len(problems) != 1 || problems[0].Rule != RuleSyntax || problems[0].Line != 4 {
		t.Errorf("%d documents before the broken one, %v", len(docs), problems)
	}
	for _, empty := range []string{"", "\n\n", "# only a comment\n", "---\n", "--- ~\n", "\ufeff"} {
		docs, problems := Decode("x", []byte(empty))
		if len(docs) != 0 || len(problems) != 1 || problems[0].Rule != RuleEmptyFile || problems[0].Severity != SeverityNotice {
			t.Errorf("%q: %d documents, %v", empty, len(docs), problems)
		}
	}
}

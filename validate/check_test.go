package validate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/schema"
)

// found lists "line:column severity rule" of problems.
func found(problems []schema.Problem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Severity, p.Rule))
	}
	return out
}

// limitText is a provider with an account and a job, and a limit whose fields follow its name.
func limitText(fields string) string {
	return "apiVersion: tapyr/v1alpha1\nkind: Provider\nmetadata: { name: p }\nspec:\n  baseURL: https://p.example\n  limits:\n    - { name: l, " + fields + " }\n" +
		"---\n{ apiVersion: tapyr/v1alpha1, kind: Account, metadata: { name: a }, spec: { provider: p, vars: { plan: basic } } }\n" +
		"---\n{ apiVersion: tapyr/v1alpha1, kind: Job, metadata: { name: j }, spec: { account: a, interval: 5m, request: { endpoint: /x } } }\n"
}

// Further cases of the rules about limits: what the examples of their pages do not show.
func TestLimitRules(t *testing.T) {
	tests := []struct {
		fields string
		want   []string
	}{
		{`kind: rate`, []string{"7:7 error limit-fields"}},
		{`kind: quota, max: 5`, []string{"7:7 error limit-fields"}},
		{`kind: concurrency`, []string{"7:7 error limit-fields"}},
		{`kind: concurrency, max: auto`, []string{"7:42 error limit-fields"}},
		{`kind: rate, rate: 1/s, sync: { limitHeader: X }`, []string{"7:41 error limit-fields"}},
		{`kind: concurrency, max: 5, cost: 2`, []string{"7:45 error limit-fields"}},
		{`kind: rate, rate: 1/s`, nil},
		{`kind: rate, rate: 2/s`, []string{"7:36 notice default-burst"}},
		{`kind: rate, rate: 10/s, cost: 11`, []string{"7:36 notice default-burst", "7:48 error cost-above-burst"}},
		{`kind: quota, max: auto, initialMax: 5, window: { period: day }, sync: { policy: daily }`, nil},
		{`kind: quota, max: auto, initialMax: 0, window: { period: day }, sync: { policy: daily }`, []string{"7:54 warning empty-limit"}},
		{`kind: quota, max: auto, initialMax: 5, window: { period: day }, sync: { limitHeader: "" }`, []string{"7:82 warning sync-fields", "7:103 error max-auto"}},
		{`kind: quota, max: 5, initialMax: 5, window: { period: day }`, []string{"7:39 error max-auto"}},
		{`kind: quota, max: { byVar: plan, values: { basic: 5, gold: 50 } }, window: { period: day }, cost: 10`, []string{"7:116 warning cost-above-max"}},
		{`kind: quota, max: { byVar: tier, values: { basic: 5 } }, window: { period: day }`, []string{"9:90 error max-by-var"}},
		{`kind: quota, max: { byVar: plan, values: { gold: 0 } }, window: { period: day }`, []string{"7:67 warning empty-limit", "9:104 error max-by-var"}},
		{`kind: quota, max: 5, window: { period: day, every: 5m }`, []string{"7:39 error window"}},
		{`kind: quota, max: 5, window: {}`, []string{"7:39 error window"}},
		{`kind: quota, max: 5, window: { every: 0s }`, []string{"7:39 error window"}},
		{`kind: quota, max: 5, window: { every: 15m, timezone: UTC }`, []string{"7:71 error window"}},
		{`kind: quota, max: 5, window: { period: minute, count: 7 }`, []string{"7:72 error window"}},
		{`kind: quota, max: 5, window: { period: month, monthDay: 31, timezone: Nowhere/City }`, []string{"7:88 error window"}},
		{`kind: quota, max: 5, window: { rolling: 24h }`, nil},
		{`kind: concurrency, max: 0`, []string{"7:42 warning empty-limit"}},
		{`kind: concurrency, max: 5, overrides: [{ from: 2026-01-02T00:00:00Z, to: 2026-01-01T00:00:00Z, max: 1 }]`, []string{"7:91 error override-span"}},
		{`kind: concurrency, max: 5, overrides: [{ from: 2026-01-02T00:00:00+02:00, to: 2026-01-02T00:00:00Z, max: 1 }, { from: 2026-01-01T00:00:00Z, to: 2026-01-01T22:00:00Z, max: 1 }]`, nil},
		{`kind: rate, rate: 1/s, appliesTo: { endpoints: ["/y", "/x", "/{a,b}"] }`, []string{"7:66 warning unused-glob", "7:78 warning glob-syntax", "7:78 warning unused-glob"}},
		{`kind: rate, rate: 1/s, scope: { by: [target, credential, "var:site", "var:plan"] }`, []string{"7:55 warning unsupplied-scope", "7:63 warning unsupplied-scope", "7:75 warning unsupplied-scope"}},
		{`kind: rate, rate: 1/s, costs: [{ requestsWithVar: site, cost: 1 }]`, []string{"7:68 warning unsupplied-scope"}},
		{`kind: rate, rate: 1/s, cost: 1, costs: [{ cost: 1 }]`, []string{"7:47 warning unreachable-cost"}},
		{`kind: rate, rate: 1/s, costFrom: { header: X, pattern: "(a)(b)" }`, []string{"7:73 error regular-expression"}},
		{`kind: rate, rate: 1/s, costFrom: { header: X, pattern: "(a" }`, []string{"7:73 error regular-expression"}},
		{`kind: rate, rate: 1/s, costFrom: { header: "X Y" }`, []string{"7:61 error header-name"}},
		{`kind: rate, rate: 1/2h, penalty: 2d`, []string{"7:36 warning slow-rate", "7:51 error duration-order"}},
		{`kind: rate, rate: 1/s, adaptive: { floor: 2 }`, []string{"7:60 error adaptive-floor"}},
		{`kind: rate, rate: 1/s, mode: shadwo`, []string{"7:47 error shape"}},
		{`kind: qouta, max: 5`, []string{"7:24 error shape"}},
	}
	for _, tt := range tests {
		_, problems := checkText(t, limitText(tt.fields))
		if diff := cmp.Diff(tt.want, found(problems)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s%s", tt.fields, diff, dump(problems))
		}
	}
}

// What a job takes from a template is wrong where the template says it, and once however many jobs use it.
func TestProblemsOfTemplatesStandInTheTemplate(t *testing.T) {
	config, problems := checkText(t, `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: p }
spec:
  baseURL: https://p.example
  templates:
    - name: devices
      interval: 10m
      maxInterval: 5m
      request: { endpoint: "/sites/{siteId}/devices", query: { q: "{other}" } }
      inventory: { items: respnse }
---
{ apiVersion: tapyr/v1alpha1, kind: Account, metadata: { name: a }, spec: { provider: p, vars: { siteId: "1" } } }
---
{ apiVersion: tapyr/v1alpha1, kind: Job, metadata: { name: one }, spec: { account: a, template: devices } }
---
{ apiVersion: tapyr/v1alpha1, kind: Job, metadata: { name: two }, spec: { account: a, template: devices, maxInterval: 20m } }
---
{ apiVersion: tapyr/v1alpha1, kind: Job, metadata: { name: three }, spec: { account: a, template: device, interval: 1m } }
`)
	want := []string{
		"9:20 error job-times",             // of job one; two has its own
		"10:67 error unsupplied-variable",  // of one and two, whose messages differ
		"10:67 error unsupplied-variable",  // by the job's name
		"11:27 error expression",           // once
		"19:99 error unresolved-reference", // and no complaint about a missing endpoint
	}
	if diff := cmp.Diff(want, found(problems)); diff != "" || config != nil {
		t.Errorf("(-want +got)\n%s%s", diff, dump(problems))
	}
}

// A broken value gives one finding: what rules would say about its absence follows from that.
func TestBrokenValuesGiveOneFinding(t *testing.T) {
	tests := map[string]string{
		"interval: 5 minutes":      "unit",
		"intervall: 5m":            "unknown-field",
		"interval: [5m]":           "shape",
		"interval: 0s":             "job-times",
		"interval: 5m\n  acount: ": "unknown-field",
	}
	for line, rule := range tests {
		account := "\n  account: a"
		if strings.Contains(line, "acount") {
			account, line = "", line+"a"
		}
		_, problems := checkText(t, strings.TrimSuffix(limitText("kind: rate, rate: 1/s"), "\n")+"\n---\napiVersion: tapyr/v1alpha1\nkind: Job\nmetadata: { name: k }\nspec:\n  request: { endpoint: /x }\n  "+line+account+"\n")
		if len(problems) != 1 || problems[0].Rule != rule {
			t.Errorf("%s:\n%s", line, dump(problems))
		}
	}
}

// Problems come sorted, each once, and depend on the documents alone.
func TestCheckIsDeterministic(t *testing.T) {
	var text strings.Builder
	for _, rule := range Rules() {
		if rule.Name != schema.RuleSyntax && rule.Name != schema.RuleEmptyFile {
			text.WriteString("---\n" + rule.Wrong)
		}
	}
	_, first := checkText(t, text.String())
	if len(first) < 50 {
		t.Errorf("only %d problems", len(first))
	}
	for i := 1; i < len(first); i++ {
		a, b := first[i-1], first[i]
		if a == b || a.Line > b.Line || a.Line == b.Line && (a.Column > b.Column || a.Column == b.Column && a.Rule > b.Rule) {
			t.Errorf("not sorted, or twice: %+v, %+v", a, b)
		}
	}
	for range 5 {
		if _, again := checkText(t, text.String()); !slices.Equal(first, again) {
			t.Fatalf("differs:\n%s", cmp.Diff(dump(first), dump(again)))
		}
	}
}

// A Config is nil exactly where there is an error.
func TestConfigIsTheProof(t *testing.T) {
	config, problems := checkText(t, limitText("kind: rate, rate: 5/s"))
	if config == nil || len(problems) != 1 {
		t.Errorf("a notice: %v\n%s", config, dump(problems))
	}
	if config, _ = checkText(t, limitText("kind: rate, rate: 5/s, cost: 9")); config != nil {
		t.Error("an error gives a Config")
	}
	if config, problems = Check(nil); config == nil || len(problems) > 0 || config.Settings.MaxStretch.String() != "12" {
		t.Errorf("nothing: %+v %v", config, problems)
	}
}

// naiveCycle is the twin of cutChains: it follows each job on its own.
func naiveCycle(parent []int, from int) (inCycle bool) {
	at := parent[from]
	for range parent {
		if at < 0 {
			return false
		}
		if at == from {
			return true
		}
		at = parent[at]
	}
	return false
}

func TestCutChainsAgreesWithTheTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		parent := make([]int, n)
		jobs := make([]*Job, n)
		for i := range jobs {
			jobs[i] = &Job{Name: fmt.Sprint(i)}
			parent[i] = rapid.IntRange(-1, n-1).Draw(t, "parent")
		}
		for i, p := range parent {
			if p >= 0 {
				jobs[i].Parent = jobs[p]
			}
		}
		cutChains(jobs)
		for i, j := range jobs {
			if want := naiveCycle(parent, i); j.InCycle != want {
				t.Fatalf("%v: job %d in a cycle: %v, want %v", parent, i, j.InCycle, want)
			}
			if (j.InCycle || j.TooDeep) && j.Parent != nil || j.InCycle && j.TooDeep {
				t.Fatalf("%v: job %d: %+v", parent, i, j)
			}
			depth := 0
			for up := j.Parent; up != nil; up = up.Parent {
				if depth++; depth > maxForEachDepth {
					t.Fatalf("%v: more than %d jobs stand above job %d", parent, maxForEachDepth, i)
				}
			}
		}
	})
}

const twoProviders = `{ apiVersion: tapyr/v1alpha1, kind: Provider, metadata: { name: p }, spec: { baseURL: "https://p.example", limits: [{ name: l, kind: concurrency, max: 1 }] } }
---
{ apiVersion: tapyr/v1alpha1, kind: Provider, metadata: { name: q }, spec: { baseURL: "https://q.example", limits: [{ name: l, kind: concurrency, max: 1 }] } }
---
{ apiVersion: tapyr/v1alpha1, kind: Account, metadata: { name: pa }, spec: { provider: p } }
---
{ apiVersion: tapyr/v1alpha1, kind: Account, metadata: { name: pb }, spec: { provider: p } }
---
{ apiVersion: tapyr/v1alpha1, kind: Account, metadata: { name: qa }, spec: { provider: q } }
---
{ apiVersion: tapyr/v1alpha1, kind: Job, metadata: { name: orgs }, spec: { account: pa, interval: 1h, request: { endpoint: /o }, inventory: { items: response } } }
---
{ apiVersion: tapyr/v1alpha1, kind: Job, metadata: { name: nets }, spec: { account: pa, interval: 1h, forEach: orgs, request: { endpoint: /n }, inventory: { items: response } } }
---
{ apiVersion: tapyr/v1alpha1, kind: Job, metadata: { name: pb-job }, spec: { account: pb, interval: 1h, request: { endpoint: /b } } }
---
{ apiVersion: tapyr/v1alpha1, kind: Job, metadata: { name: qa-job }, spec: { account: qa, interval: 1h, forEach: orgs, request: { endpoint: /q } } }
---
{ apiVersion: tapyr/v1alpha1, kind: Settings, metadata: { name: s }, spec: { budget: { maxStretch: 3 }, assert: [{ limit: p/l, headroom: 0 }, { limit: q/l, headroom: 0 }] } }
---
{ apiVersion: tapyr/v1alpha1, kind: SpendPolicy, metadata: { name: sp }, spec: { version: "1", unit: EUR, account: { limit: "1" }, routes: { r: { cost: "1", account: qa } }, capabilities: { c: { limit: "1", routes: [r], fallback: reject } } } }
`

func TestOnly(t *testing.T) {
	config, problems := checkText(t, twoProviders)
	if config == nil {
		t.Fatal(dump(problems))
	}
	tests := []struct {
		providers, accounts, jobs []string
		want                      string
	}{
		{jobs: []string{"orgs"}, want: "p pa orgs assert p/l"},
		{jobs: []string{"nets"}, want: "p pa orgs nets assert p/l"},
		{jobs: []string{"qa-job"}, want: "p q pa qa orgs qa-job sp assert p/l q/l"},
		{accounts: []string{"pb"}, want: "p pb pb-job assert p/l"},
		{providers: []string{"p"}, want: "p pa pb orgs nets pb-job assert p/l"},
		{jobs: []string{"orgs"}, accounts: []string{"pb"}, want: "p pa pb orgs pb-job assert p/l"},
	}
	for _, tt := range tests {
		part, err := config.Only(tt.providers, tt.accounts, tt.jobs)
		if err != nil {
			t.Errorf("%+v: %v", tt, err)
			continue
		}
		providers, accounts, jobs := part.names()
		got := append(append(providers, accounts...), jobs...)
		for _, p := range part.Policies {
			got = append(got, p.Name)
		}
		got = append(got, "assert")
		for _, a := range part.Settings.Spec.Assert {
			got = append(got, a.Limit)
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%+v: (-want +got)\n%s", tt, diff)
		}
		if part.Settings.MaxStretch.String() != "3" {
			t.Errorf("%+v: the settings are lost", tt)
		}
	}
	if len(config.Settings.Spec.Assert) != 2 || len(config.Jobs) != 4 {
		t.Error("the whole was changed")
	}
	for _, missing := range [][3][]string{{{"x"}, nil, nil}, {nil, {"paa"}, nil}, {nil, nil, {"net"}}} {
		_, err := config.Only(missing[0], missing[1], missing[2])
		if err == nil || !strings.HasPrefix(err.Error(), "there is no ") {
			t.Errorf("%v: %v", missing, err)
		}
	}
	if _, err := config.Only(nil, nil, []string{"net"}); err == nil || err.Error() != `there is no job "net"; did you mean "nets"?` {
		t.Errorf("%v", err)
	}
}

// Whatever text is decoded, Check answers.
func FuzzCheck(f *testing.F) {
	for _, rule := range Rules() {
		f.Add(rule.Wrong + "---\n" + ExampleBase)
	}
	f.Fuzz(func(t *testing.T, text string) {
		docs, _ := schema.Decode("x", []byte(text))
		config, problems := Check(docs)
		bad := slices.ContainsFunc(problems, func(p schema.Problem) bool { return p.Severity == schema.SeverityError })
		if bad != (config == nil) {
			t.Errorf("errors %v, config %v\n%s", bad, config, dump(problems))
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Message == "" || !slices.ContainsFunc(rules, func(r *Rule) bool { return r.Name == p.Rule }) {
				t.Errorf("%+v", p)
			}
		}
	})
}

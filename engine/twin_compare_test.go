package engine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// drawDocuments are a provider with a few limits of all kinds, two accounts and some jobs.
func drawDocuments(t *rapid.T) string {
	pick := func(name string, options ...string) string { return rapid.SampledFrom(options).Draw(t, name) }
	number := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
	scope := func() string {
		return pick("by", "[account]", "[provider]", "[]", `["var:org"]`, `[account, "var:org"]`, "[endpoint]", "[account, target]",
			"[credential]", `[account, method, endpoint, "var:org"]`)
	}
	var b strings.Builder
	b.WriteString("apiVersion: tapyr/v1alpha1\nkind: Provider\nmetadata: { name: vendor }\nspec:\n  baseURL: https://api.example.com\n  limits:\n")
	for i := range number("limits", 1, 4) {
		fmt.Fprintf(&b, "    - name: l%d\n      scope: { by: %s }\n", i, scope())
		if number("shadow", 0, 9) == 0 {
			b.WriteString("      mode: shadow\n")
		}
		if number("penalty", 0, 3) == 0 {
			fmt.Fprintf(&b, "      penalty: %s\n", pick("own penalty", "2s", "700ms", "11m"))
		}
		b.WriteString(pick("filter", "", "", "", "      appliesTo: { endpoints: [\"/o/**\"] }\n", "      appliesTo: { methods: [POST] }\n",
			"      appliesTo: { requestsWithVar: org }\n", "      appliesTo: { except: { endpoints: [\"/b\"] } }\n", "      appliesTo: { authRequests: exclude }\n"))
		switch number("kind", 0, 3) {
		case 0:
			cost := number("cost", 1, 3)
			fmt.Fprintf(&b, "      kind: rate\n      rate: %s\n      burst: %d\n      cost: %d\n", pick("rate", "1/s", "3/s", "1/3s", "27.4/m", "0.7/s"),
				number("burst", max(cost, 1), 8), cost)
			b.WriteString(pick("costFrom", "", "", "      costFrom: { header: X-Cost }\n"))
		case 1:
			fmt.Fprintf(&b, "      kind: concurrency\n      max: %d\n", number("max", 1, 4))
			b.WriteString(drawOverride(t))
		default:
			drawQuota(t, &b, i)
		}
	}
	fmt.Fprintf(&b, "  errors: { rateLimited: { defaultPenalty: %s, maxPenalty: %s, penalize: %s, limitFrom: { header: X-Why, values: { a: l0, b: l1 } } } }\n",
		pick("default", "2s", "500ms", "30s"), pick("most", "24h", "40s"), pick("penalize", "narrowest", "all"))
	fmt.Fprintf(&b, "  circuitBreaker: { failures: %d, openFor: %s }\n", number("failures", 2, 4), pick("openFor", "3s", "20s"))
	fmt.Fprintf(&b, "---\napiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\nspec: { budget: { retryReserve: %s } }\n",
		pick("reserve", "0", "0.1", "0.25"))
	for _, a := range []string{"acme", "bolt"} {
		fmt.Fprintf(&b, "---\napiVersion: tapyr/v1alpha1\nkind: Account\nmetadata: { name: %s }\nspec: { provider: vendor, budget: { share: %s } }\n", a,
			pick("share", "1", "1", "0.55"))
		for _, j := range []string{"2s", "9s", "60s"} {
			fmt.Fprintf(&b, "---\napiVersion: tapyr/v1alpha1\nkind: Job\nmetadata: { name: %s-%s }\n", a, j)
			fmt.Fprintf(&b, "spec: { account: %s, interval: 1h, deadline: %s, request: { method: GET, endpoint: /x } }\n", a, j)
		}
	}
	return b.String()
}

func drawOverride(t *rapid.T) string {
	if rapid.IntRange(0, 3).Draw(t, "override") != 0 {
		return ""
	}
	from := time.Unix(0, goldenStart).Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "from")) * time.Second)
	to := from.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "for")) * time.Second)
	return fmt.Sprintf("      overrides: [{ from: %q, to: %q, max: %d }]\n", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339),
		rapid.IntRange(0, 9).Draw(t, "instead"))
}

func drawQuota(t *rapid.T, b *strings.Builder, i int) {
	fmt.Fprintf(b, "      kind: quota\n      max: %d\n      cost: %d\n", rapid.IntRange(3, 14).Draw(t, "max"), rapid.IntRange(1, 2).Draw(t, "cost"))
	w := rapid.SampledFrom([]string{
		"{ period: minute }", "{ every: 20s }", "{ every: 45s, phase: 7s }", "{ rolling: 30s }", "{ rolling: 1m }",
		"{ every: 25s, anchor: firstRequest }", "{ period: hour, timezone: Asia/Kathmandu }",
	}).Draw(t, "window")
	fmt.Fprintf(b, "      window: %s\n", w)
	rolling := strings.Contains(w, "rolling") || strings.Contains(w, "anchor")
	if !rolling {
		b.WriteString(drawOverride(t))
	}
	if rapid.Bool().Draw(t, "sync") {
		fmt.Fprintf(b, "      sync: { remainingHeader: X-Left-%d, limitHeader: X-Limit-%d", i, i)
		if !rolling && rapid.Bool().Draw(t, "reset") {
			fmt.Fprintf(b, ", resetHeader: X-Reset-%d", i)
		}
		b.WriteString(" }\n")
	}
	b.WriteString(rapid.SampledFrom([]string{"", "", "", "      costFrom: { header: X-Cost }\n", "      counts: { status: [403, 429] }\n"}).Draw(t, "correction"))
}

// drawRows are arrivals over some minutes, with what the vendor will answer.
func drawRows(t *rapid.T, n int) []*row {
	at := goldenStart
	var rows []*row
	for i := range n {
		at += int64(rapid.SampledFrom([]int{0, 7, 50, 250, 333, 1000, 1500, 4000}).Draw(t, "gap")) * 1e6
		account := rapid.SampledFrom([]string{"acme", "acme", "bolt"}).Draw(t, "account")
		r := &row{
			index: i, at: at, TS: time.Unix(0, at), Provider: "vendor", Account: account,
			Method:   rapid.SampledFrom([]string{"GET", "GET", "POST"}).Draw(t, "method"),
			Endpoint: rapid.SampledFrom([]string{"/o/{org}/a", "/o/{org}/a", "/o/{org}/m", "/b"}).Draw(t, "endpoint"),
			Priority: rapid.SampledFrom([]string{"", "critical", "high", "low", "normal"}).Draw(t, "priority"),
			Job:      account + "-" + rapid.SampledFrom([]string{"0s", "2s", "9s", "60s"}).Draw(t, "job"),
			Retry:    rapid.IntRange(0, 5).Draw(t, "retry") == 0, Auth: rapid.IntRange(0, 9).Draw(t, "auth") == 0,
			Target:     rapid.SampledFrom([]string{"", "", "r1"}).Draw(t, "target"),
			Credential: rapid.SampledFrom([]string{"", "k1", "k1", "k2"}).Draw(t, "credential"),
			Status:     rapid.SampledFrom([]int{200, 200, 200, 200, 403, 429, 500}).Draw(t, "status"),
			Vars:       map[string]string{}, Headers: map[string]string{},
			latency: int64(rapid.SampledFrom([]int{0, 1, 50, 400, 1000, 2500, 20000}).Draw(t, "latency")) * 1e6,
		}
		if r.Endpoint != "/b" {
			r.Vars["org"] = rapid.SampledFrom([]string{"1", "2"}).Draw(t, "org")
		}
		drawHeaders(t, r)
		rows = append(rows, r)
	}
	return rows
}

func drawHeaders(t *rapid.T, r *row) {
	maybe := func(name string, oneIn int, values ...string) {
		if rapid.IntRange(1, oneIn).Draw(t, name+"?") == 1 {
			r.Headers[name] = rapid.SampledFrom(values).Draw(t, name)
		}
	}
	for i := range 4 {
		maybe(fmt.Sprintf("X-Left-%d", i), 2, "0", "1", "2", "3", "4", "5", "6", "8", "9", "12", "-1", "x")
		maybe(fmt.Sprintf("X-Limit-%d", i), 8, "6", "9", "12", "0", "-3", "no")
		maybe(fmt.Sprintf("X-Reset-%d", i), 6, "0", "3", "9", "15", "40", "100", "9000", "-2", "no")
	}
	maybe("X-Cost", 2, "0", "1", "2", "1.2", "5", "-4", "no")
	maybe("Retry-After", 3, "0", "1", "2.5", "30", "no")
	maybe("X-Why", 4, "a", "b", "c")
	maybe("Age", 9, "0", "5")
}

// soak tells how many random requests to try: few, or as many as TAPYR_SOAK says, such as 1000000.
func soak(short int) int {
	if n, err := strconv.Atoi(os.Getenv("TAPYR_SOAK")); err == nil {
		return n
	}
	return short
}

func tryConfig(documents string) *validate.Config {
	docs, _ := schema.Decode("random.yaml", []byte(documents))
	config, _ := validate.Check(docs)
	return config
}

// The engine and its twin decide alike, in every field of every decision.
func TestTwin(t *testing.T) {
	requests, skipped, kinds := 0, 0, map[string]int{}
	one := func(t *rapid.T) {
		documents := drawDocuments(t)
		config := tryConfig(documents)
		if config == nil {
			skipped++
			t.Skip("documents are not valid")
		}
		rows := drawRows(t, rapid.IntRange(5, 60).Draw(t, "rows"))
		requests += len(rows)
		w := &twin{config: config, keys: map[string]*twinKey{}, breakers: map[string]*twinBreaker{}, verdicts: map[int]decision{}}
		want := w.run(rows)
		e := New(config, Options{})
		got := enforce(t, config, e, rows)
		if none := noQuotaMore(); *e.noMore.quotaRare != *none.quotaRare || e.noMore.exhaustedUntil != none.exhaustedUntil || e.noMore.seen != nil ||
			e.noMore.flights != nil || e.noMore.learned != 0 || e.noMore.latestReset != 0 || e.noMore.periodNanos != 0 || e.noMore.disagreed {
			t.Fatal("what plain quotas share was written to")
		}
		for i := range rows {
			kinds[got[i].kind(rows[i])]++
			if a, b := got[i].words(), want[i].words(); a != b {
				for _, r := range rows[:i] {
					t.Logf("row %d at %.3f (%s): %s", r.index, sinceStart(r.at), r.words(), got[r.index].words())
				}
				t.Fatalf("row %d at %.3f (%s):\nengine: %s\ntwin:   %s\n%s", i, sinceStart(rows[i].at), rows[i].words(), a, b, head(documents))
			}
		}
	}
	for requests < soak(4000) {
		rapid.Check(t, one)
		if t.Failed() {
			return
		}
	}
	for _, kind := range []string{"granted at once", "granted after a wait", "circuit_open", "penalized", "quota_exhausted", "deadline"} {
		if kinds[kind] == 0 {
			t.Errorf("no request was %s: the random streams have become too tame", kind)
		}
	}
	t.Logf("%d requests, %v; %d sets of documents skipped", requests, kinds, skipped)
}

// head of the documents, without accounts and jobs.
func head(documents string) string {
	text, _, _ := strings.Cut(documents, "apiVersion: tapyr/v1alpha1\nkind: Account")
	return text
}

func (d decision) kind(r *row) string {
	switch {
	case d.refused != nil:
		return string(d.refused.Reason)
	case d.at > r.at:
		return "granted after a wait"
	}
	return "granted at once"
}

func (d decision) words() string {
	if d.refused == nil {
		return fmt.Sprintf("granted at %.6f", sinceStart(d.at))
	}
	r := *d.refused
	text := fmt.Sprintf("%s %q %q at %.6f", r.Reason, r.Limit, r.Key, sinceStart(d.at))
	if r.RetryKnown {
		text += fmt.Sprintf(", retry at %.6f", sinceStart(r.RetryAtNanos))
	}
	return text
}

func (r *row) words() string {
	return fmt.Sprintf("%d %v latency %v ", r.Status, r.Headers, time.Duration(r.latency)) + r.Account + " " + r.Method + " " + r.Endpoint + " " + r.Vars["org"] + " " + r.Priority + " " + r.Job + " " + strconv.FormatBool(r.Retry)
}

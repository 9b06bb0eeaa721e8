package replay

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const syncedQuota = "{ name: daily, kind: quota, max: 5000, window: { period: day }, scope: { by: [account] }, sync: { limitHeader: X-Limit, remainingHeader: X-Left, resetHeader: { name: X-Reset, format: auto } } }"

// secondsIn writes an instant of the first day.
func secondsIn(n int) string { return start.Add(time.Duration(n) * time.Second).Format(time.RFC3339) }

// A header that names another maximum: once a window and key, with the rows, and the line of the document.
func TestDisagreementOfMaximum(t *testing.T) {
	documents := quotaDocuments(syncedQuota)
	config := validatetest.Config(t, documents)
	lines := []string{
		rowAt(secondsIn(0), `"headers":{"X-Limit":"5000"}`),
		rowAt(secondsIn(10), `"headers":{"X-Limit":"4000"}`),
		"not a row",
		rowAt(secondsIn(20), `"headers":{"X-Limit":"4000"}`),
		rowAt(secondsIn(86400), `"headers":{"X-Limit":"4000"}`),
	}
	report := replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config})[0]
	if len(report.Disagreements) != 1 {
		t.Fatalf("%+v", report.Disagreements)
	}
	d := report.Disagreements[0]
	if d.Kind != KindMax || d.Provider != "vendor" || d.Limit != "daily" || d.Count != 2 || d.Keys != 1 || d.Declared != 5000 || d.Named != 4000 {
		t.Errorf("%+v", d)
	}
	if line := strings.Split(documents, "\n")[d.Place.Line-1]; !strings.Contains(line, "max: 5000") || d.Place.File != "test.yaml" {
		t.Errorf("it points at %v: %q", d.Place, line)
	}
	if e := d.Evidence; len(e) != 2 || e[0].Number != 2 || e[0].Line != 2 || e[1].Line != 5 || e[0].Key != "acme" || e[0].Status != 200 || e[0].At.Before(start) {
		t.Errorf("evidence %+v", e)
	}
	if !strings.Contains(d.Message, "max: 4000") {
		t.Errorf("the message does not say what to write: %s", d.Message)
	}
	if report.Journal.BadRows != 1 {
		t.Errorf("%d bad rows", report.Journal.BadRows)
	}
}

// A 429 that no limit predicts is one; one that follows from a limit is none.
func TestUnexpectedRefusals(t *testing.T) {
	refusal := func(at int) string {
		return strings.Replace(rowAt(secondsIn(at), ""), `"status":200`, `"status":429`, 1)
	}
	for _, test := range []struct {
		name, limit string
		lines       []string
		unexpected  int64
		place       string
	}{
		{"with room", "{ name: daily, kind: quota, max: 100, window: { period: day }, scope: { by: [account] } }", []string{rowAt(secondsIn(0), ""), refusal(100)}, 1, "max: 100"},
		{"used up", "{ name: daily, kind: quota, max: 1, window: { period: day }, scope: { by: [account] } }", []string{rowAt(secondsIn(0), ""), refusal(100)}, 0, ""},
		{"too fast", "{ name: slow, kind: rate, rate: 1/m, burst: 2, scope: { by: [account] } }", []string{rowAt(secondsIn(0), ""), refusal(1)}, 0, ""},
		{"slow enough", "{ name: slow, kind: rate, rate: 1/m, burst: 2, scope: { by: [account] } }", []string{rowAt(secondsIn(0), ""), refusal(400)}, 1, "rate: 1/m"},
		{"in a penalty", "{ name: daily, kind: quota, max: 100, window: { period: day }, scope: { by: [account] } }", []string{refusal(0), refusal(1)}, 1, "max: 100"},
		{"no limit at all", "{ name: other, kind: quota, max: 100, window: { period: day }, appliesTo: { methods: [POST] } }", []string{refusal(0)}, 1, "limits:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			documents := quotaDocuments(test.limit)
			report := replayFile(t, journalFile(t, test.lines...), journal.Options{}, Options{Config: validatetest.Config(t, documents)})[0]
			var found int64
			for _, d := range report.Disagreements {
				if d.Kind != KindUnexpected {
					t.Errorf("%+v", d)
				}
				found += d.Count
				if e := d.Evidence[0]; e.Status != 429 || e.Line == 0 {
					t.Errorf("evidence %+v", e)
				}
				if line := strings.Split(documents, "\n")[d.Place.Line-1]; !strings.Contains(line, test.place) {
					t.Errorf("it points at %q, want %q", line, test.place)
				}
			}
			if found != test.unexpected {
				t.Errorf("%d unexpected, want %d", found, test.unexpected)
			}
			limited := int64(strings.Count(strings.Join(test.lines, ""), "429"))
			if got := report.Jobs[0].RateLimited; got != limited {
				t.Errorf("the job counts %d, want %d", got, limited)
			}
		})
	}
}

// With enforcement the evidence is the same row.
func TestEvidenceWithEnforcement(t *testing.T) {
	config := validatetest.Config(t, quotaDocuments(syncedQuota))
	lines := []string{rowAt(secondsIn(0), ""), strings.Replace(rowAt(secondsIn(5), `"headers":{"X-Limit":"77"}`), `"status":200`, `"status":429`, 1)}
	report := replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config, Enforce: true})[0]
	kinds := map[string]int64{}
	for _, d := range report.Disagreements {
		kinds[d.Kind] = d.Evidence[0].Number
	}
	if kinds[KindMax] != 2 || kinds[KindUnexpected] != 2 {
		t.Errorf("%v, want row 2 for both", kinds)
	}
}

// Values that cannot be are counted with their text.
func TestIgnoredHeaders(t *testing.T) {
	config := validatetest.Config(t, quotaDocuments(syncedQuota))
	lines := []string{
		rowAt(secondsIn(0), `"headers":{"X-Left":"9999"}`),
		rowAt(secondsIn(1), `"headers":{"X-Left":"-3"}`), rowAt(secondsIn(2), `"headers":{"X-Reset":"soon"}`),
	}
	report := replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config})[0]
	var texts []string
	for _, d := range report.Disagreements {
		texts = append(texts, fmt.Sprintf("%s %s %q %d", d.Kind, d.Header, d.Text, d.Count))
	}
	want := []string{`ignored-header remaining "" 2`, `ignored-header reset "soon" 1`}
	if !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
}

// Names that no document has are counted; such rows still count against the limits that they meet.
func TestUnknownNames(t *testing.T) {
	config := validatetest.Config(t, quotaDocuments(syncedQuota))
	row := func(from, to string) string { return strings.Replace(rowAt(secondsIn(0), ""), from, to, 1) }
	lines := []string{
		row(`"account":"acme"`, `"account":"initech"`), row(`"provider":"vendor"`, `"provider":"other"`),
		row(`"job":"things"`, `"job":"old-things"`), row(`"endpoint":"/things","job":"things"`, `"endpoint":"/secrets//"`),
		row(`"endpoint":"/things","job":"things"`, `"endpoint":"/login","auth":true`), row("", ""),
	}
	report := replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config})[0]
	var got []string
	for _, u := range report.Unknown {
		got = append(got, fmt.Sprintf("%s %s %d", u.Kind, u.Name, u.Rows))
	}
	want := []string{"account initech 1", "endpoint GET /secrets 1", "job old-things 1", "provider other 1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if report.Unresolved != 2 || report.Rows != 6 || report.Scopes[0].Windows[0].Used != 4 {
		t.Errorf("%d unresolved of %d, %d used", report.Unresolved, report.Rows, report.Scopes[0].Windows[0].Used)
	}
	// With enforcement they have decisions, too.
	var decisions []string
	replayFile(t, journalFile(t, lines...), journal.Options{}, Options{Config: config, Enforce: true, Decide: func(d *Decision) error {
		decisions = append(decisions, d.Reason)
		return nil
	}})
	if want := []string{"unresolved", "unresolved", "", "", "", ""}; !slices.Equal(decisions, want) {
		t.Errorf("%q, want %q", decisions, want)
	}
}

// Many unknown names do not fill the memory, and none is lost from the count.
func TestUnknownNamesAreBounded(t *testing.T) {
	var tally unknownTally
	for i := range mostUnknown + 500 {
		tally.add([]UnknownName{{Kind: "job", Name: fmt.Sprint("job-", i)}}, 2)
	}
	list, more := tally.report()
	if len(list) != shownUnknown || more != mostUnknown-shownUnknown+2*500 {
		t.Errorf("%d shown and %d more", len(list), more)
	}
}

// A journal keeps what the documents read.
func TestKeepHeader(t *testing.T) {
	config := validatetest.Config(t, quotaDocuments("{ name: daily, kind: quota, max: 10, window: { period: day }, costFrom: { header: X-Cost }, sync: { limitHeader: X-Limit, remainingHeader: { name: X-Left, index: 1 }, when: { header: X-Name, equals: daily } } }\n  errors: { rateLimited: { match: \"status == 403 && headers['x-why'] == 'quota'\", limitFrom: { header: X-Which, values: { d: daily } } } }"))
	keep := KeepHeader(config)
	for name, want := range map[string]bool{
		"x-cost": true, "X-LIMIT": true, "X-Left": true, "x-name": true, "X-Why": true, "x-which": true, "Retry-After": true, "Date": true,
		"age": true, "RateLimit": true, "ratelimit-policy": true, "Content-Type": false, "Set-Cookie": false, "Authorization": false,
	} {
		if keep(name) != want {
			t.Errorf("%s is kept: %v", name, !want)
		}
	}
}

// URLs lead to the account with the longest base URL that they begin with.
func TestLocate(t *testing.T) {
	config := validatetest.Config(t, quotaDocuments("{ name: daily, kind: quota, max: 10, window: { period: day } }")+`---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: eu }
spec: { provider: vendor, baseURL: "https://api.example.com/v1/eu" }
`)
	locate := Locate(config)
	for text, want := range map[string]string{
		"https://api.example.com/v1/things?a=b":   "vendor acme /things?a=b",
		"https://API.example.com/v1/eu/things":    "vendor eu /things",
		"https://api.example.com/v1":              "vendor acme /",
		"https://api.example.com/v1x/things":      "",
		"https://elsewhere.example.com/v1/things": "",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		provider, account, path, ok := locate(u)
		got := ""
		if ok {
			got = provider + " " + account + " " + path
		}
		if got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

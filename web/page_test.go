package web_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/web"
	"github.com/tapyr/tapyr/web/webtest"
)

func pageOf(t *testing.T, c webtest.Condition, scopes int, query string) string {
	t.Helper()
	return get(t, web.New(web.Options{Daemon: stillOf(c, scopes)}), "/"+query)
}

// element is what lies between a tag with an attribute and its end.
func element(t *testing.T, page, tag, attribute string) string {
	t.Helper()
	match := regexp.MustCompile(`(?s)<` + tag + `[^>]*` + regexp.QuoteMeta(attribute) + `[^>]*>(.*?)</` + tag + `>`).FindStringSubmatch(page)
	if match == nil {
		t.Fatalf("no <%s %s>", tag, attribute)
	}
	return match[1]
}

// words is what a reader sees of HTML.
func words(html string) string {
	return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(html, " ")), " ")
}

func TestPageSaysHowItStands(t *testing.T) {
	for _, test := range []struct {
		condition webtest.Condition
		headline  string
		says      []string
	}{
		{webtest.Healthy, "All is well.", []string{"6 of 6", "2 of 2", "3 of 3", "feasible", "No request waits for a budget.", "lasts to the reset", "has room"}},
		{webtest.Degraded, "4 problems and 4 things to know.", []string{
			"Account acme-aruba is failing: the quota daily of acme-aruba is used up until 00:00 UTC; 3 of the last 5 runs failed",
			"Quota daily of meraki, acme-meraki: runs out in 2h 14m, 8h 40m before the reset.",
			"Job aruba-aps: stale and failing: page 1: the server answered 429 Too Many Requests", "Job meraki-networks: paused by an operator",
			"3 unexpected refusals by providers", "wants 15m, ×2.48 by daily acme-meraki (quota)", "and 115 more.", "would have waited beyond its deadline",
		}},
		{webtest.Infeasible, "9 problems and 4 things to know.", []string{
			"The files could not be loaded; the configuration of 08:05 goes on: jobs.yaml:14:13: error:", "The state cannot be written (full)", "no space left on device",
			"The plan is infeasible", "exceeded", "broken", "40 are assumed",
			"Paid calls, logistics: 1 event may have been charged since the start and not sent again; reconcile, settle or release them.",
			`the route standard through account carrier-a is down: status 402`,
		}},
	} {
		page := pageOf(t, test.condition, 3, "")
		if got := words(element(t, page, "h1", `id="overview-title"`)); got != test.headline {
			t.Errorf("%s: headline %q, want %q", test.condition, got, test.headline)
		}
		if title := words(element(t, page, "title", "")); title != test.headline+" tapyr" {
			t.Errorf("%s: title %q", test.condition, title)
		}
		text := words(page)
		for _, say := range test.says {
			if !strings.Contains(text, say) {
				t.Errorf("%s: the page does not say %q", test.condition, say)
			}
		}
	}
}

func TestPageBeforeAndAfter(t *testing.T) {
	d := &still{snapshot: &daemon.Snapshot{At: webtest.At, StartedAt: webtest.At, State: daemon.StateHealth{OK: true}}}
	h := web.New(web.Options{Daemon: d})
	if text := words(get(t, h, "/")); !strings.Contains(text, "Starting: there is no plan yet.") || !strings.Contains(text, "No quota is in use yet.") {
		t.Error(text)
	}
	d.change(func(s *daemon.Snapshot) { s.Stopping = true })
	if text := words(get(t, h, "/")); !strings.Contains(text, "Stopping: nothing starts any more.") {
		t.Error(text)
	}
}

// The worst come first, and hundreds are folded away behind them.
func TestManyQuotas(t *testing.T) {
	page := pageOf(t, webtest.Degraded, 300, "")
	group := element(t, page, "section", `aria-labelledby="limit-2"`)
	open, folded, found := strings.Cut(group, "<details")
	if n, m := strings.Count(open, "<article"), strings.Count(folded, "<article"); !found || n != 6 || m != 292 {
		t.Errorf("%d open, %d folded", n, m)
	}
	if strings.Contains(folded, ">used up<") || !strings.Contains(open, "runs out in 2h 14m") {
		t.Error("the worst are not in front")
	}
	if !strings.Contains(words(group), "298 keys, 121 in trouble") || !strings.Contains(words(folded), "292 more keys, 30% to 70% used") {
		t.Errorf("%.200s", words(group))
	}
	if len(page) > 1_200_000 {
		t.Errorf("%d bytes", len(page))
	}
	if charts := strings.Count(page, `role="img"`); charts != 300 {
		t.Errorf("%d drawings", charts)
	}
	most := pageOf(t, webtest.Degraded, 1000, "")
	if n := strings.Count(most, "<article"); n != 400 || !strings.Contains(words(most), "600 more keys are not shown") {
		t.Errorf("%d of 1000 keys", n)
	}
}

func TestFilter(t *testing.T) {
	page := pageOf(t, webtest.Degraded, 300, "?q=ORGANIZATIONID%3D549236&refresh=10")
	if n := strings.Count(page, "<article"); n != 1 || !strings.Contains(page, "299 keys do not match") || !strings.Contains(page, `value="ORGANIZATIONID=549236"`) {
		t.Errorf("%d keys", n)
	}
	if !strings.Contains(page, `<a href="/?q=ORGANIZATIONID%3D549236&amp;refresh=60">`) || !strings.Contains(page, `<input type="hidden" name="refresh" value="10">`) {
		t.Error("the filter is lost when the page is renewed, or the other way round")
	}
	if text := words(pageOf(t, webtest.Degraded, 3, "?q=zzz")); !strings.Contains(text, "No quota matches the filter.") || !strings.Contains(text, "No job matches the filter.") {
		t.Error(text)
	}
	if long := pageOf(t, webtest.Degraded, 3, "?q="+strings.Repeat("%C3%A9", 500)); strings.Count(long, "é") > 700 {
		t.Error("a filter without bounds")
	}
}

// A page that renews itself unasked takes the place in the text from readers: it is a choice.
func TestRefresh(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "?refresh=10": "10", "?refresh=0": "", "?refresh=4": "", "?refresh=3601": "", "?refresh=-10": "", "?refresh=x": "", "?refresh=5;url=//evil.example": "",
	} {
		page := pageOf(t, webtest.Healthy, 3, query)
		meta := regexp.MustCompile(`<noscript><meta http-equiv="refresh" content="(\d+)"></noscript>`).FindStringSubmatch(page)
		switch {
		case want == "" && (meta != nil || strings.Contains(page, "data-refresh") || strings.Contains(page, "http-equiv")):
			t.Errorf("%q: renews itself", query)
		case want != "" && (meta == nil || meta[1] != want || !strings.Contains(page, `data-refresh="`+want+`"`)):
			t.Errorf("%q: %v", query, meta)
		}
	}
}

// The policy names the one style and the one script by their hashes, so nothing that gets into the page can run.
func TestPolicyMatchesThePage(t *testing.T) {
	w := call{path: "/"}.do(web.New(web.Options{Daemon: stillOf(webtest.Degraded, 3)}))
	page, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	for _, tag := range []string{"style", "script"} {
		if n := strings.Count(page, "<"+tag); n != 1 {
			t.Errorf("%d of <%s>", n, tag)
		}
		sum := sha256.Sum256([]byte(element(t, page, tag, "")))
		if want := tag + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(policy, want) {
			t.Errorf("%s is not in %s", want, policy)
		}
	}
	for _, forbidden := range []string{" style=", " onclick=", " onload=", "javascript:", "<iframe", "<object", "@import", "url(", "//cdn", "https://", "<img", "<link rel=\"stylesheet\""} {
		if strings.Contains(page, forbidden) {
			t.Errorf("the page has %q", forbidden)
		}
	}
	checkHeaders(t, w.Header())
}

// What a provider or a document says is text, wherever it stands.
func TestNothingBecomesMarkup(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>'{{.}}`
	d := secretDaemon(evil)
	page := get(t, web.New(web.Options{Daemon: d}), "/?q="+"%22%3E%3Cscript%3E")
	page += get(t, web.New(web.Options{Daemon: d}), "/")
	if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") || strings.Count(page, "<script") != 2 {
		t.Error("it became markup")
	}
	if !strings.Contains(page, "&lt;script&gt;alert(1)") {
		t.Error("it is not there: the test proves nothing")
	}
}

// What people who do not see the page, or use no mouse, go by.
// Keys stand on the page as people write them, and no name turns the text around it.
func TestKeysOnThePage(t *testing.T) {
	d := stillOf(webtest.Healthy, 3)
	d.change(func(s *daemon.Snapshot) {
		s.Scopes[0].Key, s.Jobs[0].Job = "acme/%2Frepos%2F{repo}%2Fpulls", "evil\u202ejob"
	})
	page := words(get(t, web.New(web.Options{Daemon: d}), "/"))
	if !strings.Contains(page, "acme /repos/{repo}/pulls") || strings.Contains(page, "%2F") {
		t.Error("the key is not decoded")
	}
	if !strings.Contains(page, "evil\ufffdjob") || strings.Contains(page, "\u202e") {
		t.Error("a name turns the direction of reading")
	}
	filtered := words(get(t, web.New(web.Options{Daemon: d}), "/?q=/repos/"))
	if !strings.Contains(filtered, "acme /repos/{repo}/pulls") {
		t.Error("the filter does not know the key as it is shown")
	}
}

func TestStructure(t *testing.T) {
	for _, page := range []string{pageOf(t, webtest.Healthy, 3, ""), pageOf(t, webtest.Infeasible, 300, "?refresh=60")} {
		for tag, want := range map[string]int{"<main": 1, "<header": 1, "<footer": 1, "<nav": 1, "<h1": 1, `<html lang="en"`: 1, "<title": 1, `role="search"`: 1} {
			if got := strings.Count(page, tag); got != want {
				t.Errorf("%d of %s, want %d", got, tag, want)
			}
		}
		ids := map[string]int{}
		for _, match := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if ids[match[1]]++; ids[match[1]] > 1 {
				t.Errorf("two elements have the id %q", match[1])
			}
		}
		for _, match := range regexp.MustCompile(`(?:href="#|aria-labelledby="|for=")([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if ids[match[1]] == 0 {
				t.Errorf("nothing has the id %q", match[1])
			}
		}
		level := 0
		for _, match := range regexp.MustCompile(`<h(\d)`).FindAllStringSubmatch(page, -1) {
			next, _ := strconv.Atoi(match[1])
			if next > level+1 {
				t.Errorf("h%d follows h%d", next, level)
			}
			level = next
		}
		tables := strings.Count(page, "<table")
		if tables < 3 || strings.Count(page, "<caption>") != tables {
			t.Errorf("%d tables, %d captions", tables, strings.Count(page, "<caption>"))
		}
		for _, head := range regexp.MustCompile(`<th [^>]*>`).FindAllString(page, -1) {
			if !strings.Contains(head, `scope="col"`) && !strings.Contains(head, `scope="row"`) {
				t.Errorf("%s has no scope", head)
			}
		}
		for _, drawing := range regexp.MustCompile(`<svg class="chart"[^>]*>`).FindAllString(page, -1) {
			if !regexp.MustCompile(`role="img" aria-label="Use of [^"]{40,}"`).MatchString(drawing) {
				t.Errorf("%s has no words", drawing)
			}
		}
		first := regexp.MustCompile(`<(?:a|button|input)[^>]*>`).FindString(page)
		if first != `<a class="skip" href="#main">` {
			t.Errorf("the first stop of the keyboard is %s", first)
		}
	}
}

// Words need a contrast of 4.5, and what is drawn 3 (WCAG 2.2, 1.4.3 and 1.4.11), in both themes.
func TestContrast(t *testing.T) {
	css, err := os.ReadFile("page.css")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllSubmatch(css, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d themes", len(blocks))
	}
	for i, theme := range []string{"light", "dark"} {
		colors := map[string][3]float64{}
		for _, match := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`).FindAllSubmatch(blocks[i][1], -1) {
			n, _ := strconv.ParseUint(string(match[2]), 16, 32)
			colors[string(match[1])] = [3]float64{float64(n >> 16), float64(n >> 8 & 255), float64(n & 255)}
		}
		for _, pair := range []struct {
			front, back string
			least       float64
		}{
			{"ink", "page", 4.5},
			{"ink", "panel", 4.5},
			{"ink", "none-fill", 4.5},
			{"muted", "page", 4.5},
			{"muted", "panel", 4.5},
			{"link", "page", 4.5},
			{"good", "page", 4.5},
			{"warn", "page", 4.5},
			{"bad", "page", 4.5},
			{"good", "panel", 4.5},
			{"warn", "panel", 4.5},
			{"bad", "panel", 4.5},
			{"good", "good-fill", 4.5},
			{"warn", "warn-fill", 4.5},
			{"bad", "bad-fill", 4.5},
			{"focus", "page", 3},
			{"focus", "panel", 3},
			{"used", "page", 3},
			{"others", "page", 3},
			{"projected", "page", 3},
			{"limit", "page", 3},
			{"usable", "page", 3},
			{"now", "page", 3},
		} {
			if got := contrast(t, colors, pair.front, pair.back); got < pair.least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, less than %v", theme, pair.front, pair.back, got, pair.least)
			}
		}
	}
}

// contrast is that of WCAG 2.2.
func contrast(t *testing.T, colors map[string][3]float64, front, back string) float64 {
	t.Helper()
	luminance := func(name string) float64 {
		color, ok := colors[name]
		if !ok {
			t.Fatalf("no color %q", name)
		}
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			c := color[i] / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	a, b := luminance(front), luminance(back)
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}

// Many jobs: those that are well are folded away.
func TestManyJobs(t *testing.T) {
	d := stillOf(webtest.Degraded, 3)
	d.change(func(s *daemon.Snapshot) {
		for i := range 40 {
			job := s.Jobs[0]
			job.Job = fmt.Sprintf("more-%d", i)
			s.Jobs = append(s.Jobs, job)
		}
	})
	page := get(t, web.New(web.Options{Daemon: d}), "/")
	bad := element(t, page, "table", `id="jobs-table"`)
	if n := strings.Count(bad, "<tr") - 1; n != 3 || !strings.Contains(words(page), "43 jobs on time") {
		t.Errorf("%d jobs in front", n)
	}
	names := regexp.MustCompile(`<th scope="row"[^>]*><div>([a-z-]+)`).FindAllStringSubmatch(bad, -1)
	if names[0][1] != "aruba-aps" {
		t.Errorf("the first is %s, not the worst", names[0][1])
	}
}

// Instants read as what they are near to.
func TestInstantsOnThePage(t *testing.T) {
	page := pageOf(t, webtest.Degraded, 3, "")
	for _, want := range []string{
		`<time datetime="2026-11-30T13:05:00Z">Mon 30 Nov 2026, 13:05:00 UTC</time>`, `<time datetime="2026-11-29T11:05:00Z">Sun 11:05</time>`,
		`<time datetime="2026-11-30T13:04:18Z">42s ago</time>`, `<time datetime="2026-12-01T00:00:00Z">in 10h 55m</time>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
	if slices.Contains(strings.Fields(words(page)), "0001-01-01T00:00:00Z") || strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("an instant or a number that is none")
	}
}

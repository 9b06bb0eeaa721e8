package web_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/web"
	"github.com/tapyr/tapyr/web/webtest"
)

// sick finds, in the page, words with too little contrast to what is behind them (WCAG 2.2, 1.4.3), words that are cut off, and
// things beside the window.
const sick = `(() => {
  const found = [];
  const parse = text => (text.match(/[\d.]+/g) || []).map(Number);
  const luminance = c => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
    const v = c[i] / 255;
    return sum + weight * (v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4));
  }, 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const e = node.parentElement;
    if (!node.textContent.trim() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(e.tagName) || !e.checkVisibility({ visibilityProperty: true })) continue;
    const box = e.getBoundingClientRect();
    const head = e.closest("thead");
    if (box.width <= 1 || box.right <= 0 || head && head.getBoundingClientRect().width <= 1) continue; // for screen readers
    const style = getComputedStyle(e);
    const a = luminance(parse(e.closest("svg") ? style.fill : style.color)), b = luminance(behind(e));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push("contrast " + contrast.toFixed(2) + ": " + node.textContent.trim().slice(0, 40));
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects())
      if (r.right > innerWidth + 1 || r.left < -1) found.push("beside the window: " + node.textContent.trim().slice(0, 40));
  }
  if (document.documentElement.scrollWidth > innerWidth) found.push("scrolls sideways: " + document.documentElement.scrollWidth + " > " + innerWidth);
  for (const cell of document.querySelectorAll("td > div, th > div"))
    if (cell.checkVisibility() && cell.getBoundingClientRect().width < 24 && cell.textContent.trim().length > 3) found.push("squeezed: " + cell.textContent.trim().slice(0, 40));
  return [...new Set(found)].slice(0, 10).join("\n");
})()`

// switched serves one handler or another.
type switched struct{ now atomic.Pointer[http.Handler] }

func (s *switched) set(h http.Handler) { s.now.Store(&h) }

func (s *switched) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*s.now.Load()).ServeHTTP(w, r) }

// TestInABrowser looks at the page as people do: in windows of three widths, light and dark, with few keys and with many, with a
// keyboard, with and without scripts.
func TestInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes long")
	}
	b := startBrowser(t)
	handler := &switched{}
	server := httptest.NewServer(handler)
	defer server.Close()
	long := stillOf(webtest.Infeasible, 300)
	long.change(func(s *daemon.Snapshot) { // names as long as they come
		name := strings.Repeat("a-very-long-name-that-somebody-gave-", 4)
		s.Jobs[5].Job, s.Accounts[0].Account = name, name
		s.Scopes[2].Key = strings.ReplaceAll(name, "-", "_") + strings.Repeat("/organizationId=N_63905538299999", 3)
		s.Refusals[0].Endpoint = "/" + strings.Repeat("organizations/{organizationId}/", 8)
	})
	t.Run("looks", func(t *testing.T) { testLooks(t, b, handler, server.URL, long) })
	t.Run("paid", func(t *testing.T) { testPaid(t, b, handler, server.URL) })
	t.Run("keyboard", func(t *testing.T) { testKeyboard(t, b, handler, server.URL) })
	t.Run("filter", func(t *testing.T) { testFilter(t, b, handler, server.URL) })
	t.Run("renewal", func(t *testing.T) { testRenewal(t, b, handler, server.URL) })
	t.Run("without scripts", func(t *testing.T) { testWithoutScripts(t, b, handler, server.URL) })

	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.requests {
		if !strings.HasPrefix(url, server.URL+"/") && !strings.HasPrefix(url, "data:") && url != "about:blank" {
			t.Errorf("the page asked elsewhere: %s", url)
		}
	}
	for _, complaint := range b.complaints {
		if !strings.Contains(complaint, "503") { // of the daemon that does not answer, below
			t.Errorf("the console says: %s", complaint)
		}
	}
}

func testLooks(t *testing.T, b *browser, handler *switched, url string, long *still) {
	for _, d := range []struct {
		name string
		*still
	}{{"3", stillOf(webtest.Degraded, 3)}, {"healthy", stillOf(webtest.Healthy, 3)}, {"300", long}} {
		handler.set(web.New(web.Options{Daemon: d.still}))
		for _, width := range []int{360, 800, 1400} {
			for _, theme := range []string{"light", "dark"} {
				b.look(width, 900, theme)
				b.open(url + "/")
				if folder := os.Getenv("TAPYR_PICTURES"); folder != "" { // to look at with one's own eyes
					b.picture(filepath.Join(folder, d.name+"-"+strconv.Itoa(width)+"-"+theme+".png"))
				}
				b.eval(`document.querySelectorAll("details").forEach(d => d.open = true)`)
				if got := b.eval(sick); got != "" {
					t.Errorf("%s keys, %d pixels, %s:\n%s", d.name, width, theme, got)
				}
				page := b.eval(`getComputedStyle(document.body).backgroundColor`)
				if want := map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(18, 23, 29)"}[theme]; page != want {
					t.Errorf("%s: the page is %v: the style was not taken", theme, page)
				}
			}
		}
	}
	// Drawings fill their width, at every width.
	if got := b.eval(`[...document.querySelectorAll("svg.chart")].filter(c => c.getBoundingClientRect().width < 250 || c.getBoundingClientRect().height < 100).length`); got != 0.0 {
		t.Errorf("%v drawings are too small to read", got)
	}
}

func testKeyboard(t *testing.T, b *browser, handler *switched, url string) {
	handler.set(web.New(web.Options{Daemon: stillOf(webtest.Degraded, 300)}))
	b.look(800, 900, "light")
	b.open(url + "/")
	b.press("Tab")
	if got := b.eval(`document.activeElement.className + " " + (document.activeElement.getBoundingClientRect().left >= 0)`); got != "skip true" {
		t.Errorf("the first stop is %v", got)
	}
	if got := b.eval(`getComputedStyle(document.activeElement).outlineStyle`); got == "none" {
		t.Error("the focus is not seen")
	}
	b.press("Enter")
	if got := b.eval(`document.activeElement.id`); got != "main" {
		t.Errorf("the skip link leads to %v", got)
	}
	// What is folded away opens by keyboard.
	b.eval(`document.querySelector("#limit-2-more > summary").focus()`)
	b.press("Enter")
	if got := b.eval(`document.getElementById("limit-2-more").open`); got != true {
		t.Error("the rest does not open")
	}
	if got := b.eval(`document.querySelectorAll("#limit-2-more article").length`); got != 292.0 {
		t.Errorf("%v keys behind", got)
	}
}

func testFilter(t *testing.T, b *browser, handler *switched, url string) {
	handler.set(web.New(web.Options{Daemon: stillOf(webtest.Degraded, 300)}))
	b.open(url + "/")
	b.eval(`document.getElementById("q").focus()`)
	b.call("Input.insertText", map[string]any{"text": "organizationId=549236"}, nil)
	b.press("Enter")
	b.settled(url + "/?q=organizationId%3D549236")
	if got := b.eval(`document.querySelectorAll("article").length + " " + document.querySelector("article h4").textContent`); got != "1 acme-meraki/organizationId=549236" {
		t.Errorf("%v", got)
	}
}

// Renewed by its script, a page keeps what the reader has opened and typed, and says when nobody answers.
func testRenewal(t *testing.T, b *browser, handler *switched, url string) {
	d := stillOf(webtest.Degraded, 300)
	live := web.New(web.Options{Daemon: d})
	handler.set(live)
	b.open(url + "/?refresh=5")
	b.eval(`document.getElementById("limit-2-more").open = true; document.getElementById("q").value = "half a wor"; document.getElementById("q").focus()`)
	d.change(func(s *daemon.Snapshot) { s.At = s.At.Add(time.Hour); s.WaitingTotal = 4711 })
	wait(t, "renewal", func() bool { return b.eval(`document.body.textContent.includes("4,711")`) == true })
	state := `document.getElementById("limit-2-more").open + " " + document.getElementById("q").value + " " + document.activeElement.id + " " + document.querySelector("header time").textContent`
	if got := b.eval(state); got != "true half a wor q Mon 30 Nov 2026, 14:05:00 UTC" {
		t.Errorf("%v", got)
	}
	handler.set(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	wait(t, "word that it is old", func() bool { return b.eval(`!document.getElementById("stale").hidden`) == true })
	if got := b.eval(`document.getElementById("stale").textContent`); got != "The daemon does not answer (status 503): what you see is old." {
		t.Errorf("%v", got)
	}
	handler.set(live)
	wait(t, "word that it is back", func() bool { return b.eval(`document.getElementById("stale").hidden`) == true })
}

func testWithoutScripts(t *testing.T, b *browser, handler *switched, url string) {
	d := stillOf(webtest.Degraded, 3)
	handler.set(web.New(web.Options{Daemon: d}))
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	defer b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": false}, nil)
	b.open(url + "/?refresh=5")
	if got := b.eval(`document.querySelectorAll("svg.chart").length + " " + document.querySelectorAll("noscript meta").length`); got != "3 1" {
		t.Errorf("drawings and renewals: %v", got)
	}
	d.change(func(s *daemon.Snapshot) { s.WaitingTotal = 4712 })
	wait(t, "renewal", func() bool {
		return b.eval(`document.body !== null && document.body.textContent.includes("4,712")`) == true
	})
	if got := b.eval(`document.documentElement.lang`); got != "en" {
		t.Errorf("%v", got)
	}
}

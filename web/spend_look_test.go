package web_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/reconcile"
	"github.com/tapyr/tapyr/spend/report"
	"github.com/tapyr/tapyr/spend/spendtest"
	"github.com/tapyr/tapyr/web"
	"github.com/tapyr/tapyr/web/webtest"
)

const busyPolicy = `
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: logistics-of-all-sites }
spec:
  version: quota-2026-11
  unit: EUR
  account: { limit: "20000", bands: [0.5, 0.8, 0.95], window: { period: month, timezone: Europe/Paris } }
  routes:
    standard: { cost: "250.00", class: gold }
    economy: { cost: "100.00", class: silver }
  capabilities:
    tracking: { limit: "12000", protected: "500", routes: [standard, economy], fallback: defer, deadline: 15h, onDeadline: minimal, essential: true }
    labels: { limit: "2000", routes: [economy], fallback: reject }
    geocoding-of-delivery-addresses-with-a-long-name: { limit: "9000", protected: "2000", routes: [standard], fallback: minimal }
    not-used-yet: { limit: "0", routes: [economy], fallback: reject }
`

// busy is a book in the middle of its month, as a web.Spend with a policy beside it that nobody has published.
type busy struct{ *web.BookSpend }

func (b busy) Report(ctx context.Context, now time.Time, policy string) (*report.Report, error) {
	r, err := b.BookSpend.Report(ctx, now, policy)
	if err == nil {
		looked := now.Add(-time.Hour)
		r.Reconcile = &report.Reconciling{
			Folder: "settled", EverySeconds: 86400, Applies: true, LookedAt: &looked, Files: 12, BadFiles: 1, Problem: "october.csv: line 3: byte 0xe9 is not UTF-8; save the file as UTF-8",
			Last: &reconcile.File{Name: "vendor-export-2026-11-29.csv", At: looked, Rows: 120, Matched: 100, Corrected: 15, UnmatchedRows: 5},
		}
	}
	return r, err
}

func busyBook(t *testing.T) web.Spend {
	t.Helper()
	ctx, store := context.Background(), book.NewMemory()
	start := webtest.At.Add(-10 * 24 * time.Hour)
	m := spendtest.Publish(t, store, start, spendtest.Policy(t, busyPolicy))
	for i := range 90 {
		at := start.Add(time.Duration(i) * 2 * time.Hour)
		for _, capability := range []string{"tracking", "labels", "geocoding-of-delivery-addresses-with-a-long-name"} {
			id := fmt.Sprintf("%s-%d", capability, i)
			out, err := m.Admit(ctx, at, spend.Admission{EventID: id, Capability: capability})
			if err != nil {
				t.Fatal(err)
			}
			if out.Route != nil && i%3 > 0 {
				if _, err := m.Settle(ctx, at, id, spendtest.Units(t, "97.35")); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return busy{web.NewBookSpend(store, "logistics-of-all-sites", "not-published")}
}

func busyPage(t *testing.T) *still {
	t.Helper()
	return stillOf(webtest.Healthy, 3)
}

// testPaid looks at the section of paid calls as people do: three widths, light and dark, without scripts, with a screen reader's
// eyes.
func testPaid(t *testing.T, b *browser, handler *switched, url string) {
	handler.set(web.New(web.Options{Daemon: busyPage(t), Spend: busyBook(t), Token: tokenOf, Now: func() time.Time { return webtest.At }}))
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	defer b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": false}, nil)
	bars := settledBars(t)
	for _, width := range []int{360, 800, 1400} {
		for _, theme := range []string{"light", "dark"} {
			b.look(width, 900, theme)
			b.open(url + "/")
			if folder := os.Getenv("TAPYR_PICTURES"); folder != "" {
				b.eval(`document.querySelectorAll("main > section:not(#spend, #overview)").forEach(s => s.hidden = true)`)
				b.picture(filepath.Join(folder, "paid-"+strconv.Itoa(width)+"-"+theme+".png"))
				b.eval(`document.querySelectorAll("main > section").forEach(s => s.hidden = false)`)
			}
			b.eval(`document.querySelectorAll("details").forEach(d => d.open = true)`)
			if got := b.eval(sick); got != "" {
				t.Errorf("%d pixels, %s:\n%s", width, theme, got)
			}
			if got := b.eval(`[...document.querySelectorAll("svg.meter")].filter(m => m.getBoundingClientRect().width < 100 || m.getBoundingClientRect().height < 8).length`); got != 0.0 {
				t.Errorf("%d pixels: %v bars are too small to read", width, got)
			}
			if got := b.eval(`[...document.querySelectorAll("svg.meter .used")].map(u => Math.round(100 * u.getBoundingClientRect().width / u.parentElement.getBoundingClientRect().width)).join()`); got != bars {
				t.Errorf("%d pixels: the bars show %v percent settled", width, got)
			}
		}
	}
	// What a bar shows is said in words too, every table has a caption and heads, and every part can be reached by its name.
	for expression, want := range map[string]any{
		`[...document.querySelectorAll("#spend svg.meter")].filter(m => !m.getAttribute("aria-label") || m.getAttribute("role") !== "img").length`:                            0.0,
		`[...document.querySelectorAll("#spend table")].filter(t => !t.caption || !t.querySelector("thead th[scope=col]") || !t.querySelector("tbody th[scope=row]")).length`: 0.0,
		`document.querySelectorAll("#spend table").length`:                          3.0,
		`document.querySelector("nav a[href='#spend']").textContent`:                "Paid calls",
		`document.querySelectorAll("#spend [id], #spend").length >= 6`:              true,
		`document.getElementById("spend").textContent.includes("Publish one with")`: true,
		`document.getElementById("overview").textContent.includes("vendor-export")`: false, // the file that cannot be read comes first
	} {
		if got := b.eval(expression); got != want {
			t.Errorf("%s is %v, want %v", expression, got, want)
		}
	}
}

// settledBars are the settled parts in percent, as the report tells them.
func settledBars(t *testing.T) string {
	t.Helper()
	r, err := busyBook(t).Report(t.Context(), webtest.At, "logistics-of-all-sites")
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, l := range append([]report.Line{r.Account}, r.Capabilities...) {
		part := 0.0
		if l.Limit.Sign() > 0 {
			settled, _ := l.Settled.Decimal().Float64()
			limit, _ := l.Limit.Decimal().Float64()
			part = 100 * settled / limit
		}
		parts = append(parts, strconv.Itoa(int(part+0.5)))
	}
	return strings.Join(parts, ",")
}

// All of it is there as data too.
func TestBusySpendAsData(t *testing.T) {
	h := web.New(web.Options{Daemon: busyPage(t), Spend: busyBook(t), Token: tokenOf, Now: func() time.Time { return webtest.At }})
	text := get(t, h, "/api/v1/spend")
	for path, want := range map[string]any{
		"policies.0.thresholds.0.band": "0.5", "policies.0.thresholds.1.units": "16000.0", "policies.0.firstDay": "2026-11-01",
		"policies.0.chain.count": 384.0, "policies.0.reconcile.last.file": "vendor-export-2026-11-29.csv", "unpublished.0": "not-published",
	} {
		if got := field(t, text, path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	metrics := get(t, h, "/metrics")
	for _, line := range []string{
		`tapyr_spend_chain_entries 384`,
		`tapyr_spend_settled_units{capability="labels",policy="logistics-of-all-sites",route_class="silver",unit="EUR"} 1265.55`,
		`tapyr_spend_reserved_units{capability="labels",policy="logistics-of-all-sites",route_class="silver",unit="EUR"} 700`,
		`tapyr_spend_reconcile_files{policy="logistics-of-all-sites",result="unreadable"} 1`,
		`tapyr_spend_reconcile_items{kind="unmatched_rows",policy="logistics-of-all-sites"} 5`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

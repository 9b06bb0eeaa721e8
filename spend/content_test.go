package spend

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/validate/validatetest"
	"github.com/tapyr/tapyr/window"
)

const contentDocument = `
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: content }
spec:
  version: "été 🚚"
  unit: EUR
  account: { limit: "20000.00", bands: [0.5, 0.95], window: { period: month, timezone: Europe/Paris, monthDay: 5, resetAt: "06:00" } }
  routes:
    limit: { cost: "0.0000001", class: gold }
    cost: { cost: "2.50" }
  capabilities:
    limit: { limit: "12", protected: "0.10", routes: [limit, cost], fallback: defer, deadline: 15m, onDeadline: minimal, essential: true,
             retain: { reference: 730d, decision: 400d, response: 14d } }
  reconcile: { every: 1d, folder: settled, map: { settled_at: limit, amount: cost }, stale: 48h, format: focus, apply: true, sum: true, releaseStale: true }
`

// A policy that was stored decides as before: the same content, amounts with the same decimals, the same windows. Names that
// are those of amounts mean nothing where no amount stands.
func TestContentComesBack(t *testing.T) {
	p, err := Compile(validatetest.Config(t, contentDocument).Policies[0])
	if err != nil {
		t.Fatal(err)
	}
	back, err := restore(&book.Version{Policy: p.Name, Version: p.Version, Content: p.content, Hash: p.hash})
	if err != nil {
		t.Fatalf("%v\n%s", err, p.content)
	}
	if back.content != p.content || back.hash != p.hash {
		t.Errorf("stored  %s\nrestored %s", p.content, back.content)
	}
	if back.Limit.String() != "20000.00" || back.capabilities["limit"].routes[0].cost.String() != "1E-7" ||
		back.capabilities["limit"].protected.String() != "0.10" {
		t.Errorf("amounts: %+v", back.capabilities["limit"])
	}
	if back.window.Spec() != p.window.Spec() {
		t.Errorf("window %+v, want %+v", back.window.Spec(), p.window.Spec())
	}
	for _, want := range []string{`"settled_at":"limit"`, `"amount":"cost"`, `"version":"\u00e9t\u00e9 \ud83d\ude9a"`, `"bands":[0.5,0.95]`} {
		if !strings.Contains(p.content, want) {
			t.Errorf("%s is not in %s", want, p.content)
		}
	}
}

// Every part of a policy is part of its content.
func TestContentHoldsEverything(t *testing.T) {
	seen := map[string]string{}
	for old, changed := range map[string]string{
		"": "", `"20000.00"`: `"20000"`, "0.95": "0.96", "monthDay: 5": "monthDay: 6", `"2.50"`: `"2.5"`, "class: gold": "class: silver",
		"[limit, cost]": "[cost, limit]", "15m": "16m", "onDeadline: minimal": "onDeadline: reject", "essential: true": "essential: false",
		"400d": "401d", "48h": "49h", "amount: cost": "amount: costs", `"0.10"`: `"0.20"`, "unit: EUR": "unit: USD",
	} {
		p, err := Compile(validatetest.Config(t, strings.Replace(contentDocument, old, changed, 1)).Policies[0])
		if err != nil {
			t.Fatalf("%s: %v", changed, err)
		}
		if other, ok := seen[p.hash]; ok {
			t.Errorf("%q and %q have one content", changed, other)
		}
		seen[p.hash] = changed
	}
}

func TestRestoreRefusesDamage(t *testing.T) {
	p, err := Compile(validatetest.Config(t, contentDocument).Policies[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"no JSON":  "{",
		"amount":   strings.Replace(p.content, `"2.50"`, `"2,50"`, 1),
		"negative": strings.Replace(p.content, `"2.50"`, `"-2.50"`, 1),
		"infinite": strings.Replace(p.content, `"20000.00"`, `"Infinity"`, 1),
		"zone":     strings.Replace(p.content, "Europe/Paris", "Europe/Nowhere", 1),
		"route":    strings.Replace(p.content, `["limit","cost"]`, `["none"]`, 1),
		"fallback": strings.Replace(p.content, `"fallback":"defer"`, `"fallback":"drop"`, 1),
		"protects": strings.Replace(p.content, `"protected":"0.10"`, `"protected":"20000.01"`, 1),
	} {
		if content == p.content {
			t.Fatalf("%s changes nothing in %s", name, content)
		}
		if _, err := restore(&book.Version{Policy: p.Name, Version: p.Version, Content: content}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Only windows that an instant tells can be the home of what was spent.
func TestCompileRefusesWindows(t *testing.T) {
	p := validatetest.Config(t, contentDocument).Policies[0]
	for _, spec := range []window.Spec{{Rolling: time.Hour}, {Every: time.Hour, Anchor: window.AnchorFirstRequest}} {
		schedule, err := window.Compile(spec)
		if err != nil {
			t.Fatal(err)
		}
		p.Window = schedule
		_, err = Compile(p)
		var bad *PolicyError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), "want period or every") {
			t.Errorf("window %+v: %v", spec, err)
		}
	}
}

package planjson_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/plan/planjson"
)

// The keys are a contract; this is all of them, with the values of a small plan.
func TestOfHasEveryKey(t *testing.T) {
	at := time.Date(2026, 11, 30, 1, 0, 0, 1_500_000, time.FixedZone("", 3600))
	p := &plan.Plan{
		At: at,
		Jobs: []plan.Job{{
			Job: "devices", Account: "acme", Provider: "meraki", Priority: "normal", DesiredSeconds: 300, EffectiveSeconds: 600, Stretch: 2,
			Instances: 3, CallsPerRun: 1.05, LimitedBy: &plan.LimitedBy{Limit: "daily", Key: "acme", Reason: "quota"},
			Scopes: []plan.JobScope{{Limit: "daily", Key: "acme", CallsPerWindow: 453.6}},
		}},
		Scopes: []plan.Scope{{
			Provider: "meraki", Limit: "daily", Kind: "quota", Key: "acme", Keys: 1, WindowStart: at, Budget: 4500, Demand: 9000.5,
			Projected: 4499.8, Peak: 4512, ExhaustsAt: at.Add(time.Hour), Quota: &plan.Quota{Max: 5000, Share: 1, Usable: 5000},
			Unused: plan.Unused{Faster: map[string]float64{"low": 1.1}},
		}, {Provider: "meraki", Limit: "rate", Kind: "rate", Key: "acme"}},
		Assertions: []plan.Assertion{{Kind: "headroom", Want: 0.1, Got: 0.2, OK: true}},
		Warnings:   []plan.Warning{{Code: "assumed-limit", Message: "assumed"}},
	}
	text, err := jsonv2.Marshal(planjson.Of(p, []plan.Remedy{{Kind: "max", Flag: "--set x=1"}}), jsonv2.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"at":"2026-11-30T00:00:00.0015Z","feasible":false`,
		`"limitedBy":{"limit":"daily","key":"acme","reason":"quota"},"scopes":[{"limit":"daily","key":"acme","callsPerWindow":453.6}]`,
		`"windowStart":"2026-11-30T00:00:00.001Z","windowEnd":null`, `"max":5000,"share":1,"usable":5000,"reserve":0`,
		`"max":null,"share":null`, `"exhaustsAt":"2026-11-30T01:00:00.001Z"`, `"faster":{"low":1.1}`, `"faster":{}`, `"peak":4512`, `"peak":null`,
		`"assertions":[{"kind":"headroom","want":0.1,"got":0.2,"ok":true}]`, `"flag":"--set x=1"`, `"warnings":[{"code":"assumed-limit"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if !json.Valid(text) {
		t.Error("not valid JSON")
	}
}

func TestAnEmptyPlanHasLists(t *testing.T) {
	text, err := jsonv2.Marshal(planjson.Of(&plan.Plan{}, nil))
	want := `{"at":"0001-01-01T00:00:00Z","feasible":false,"jobs":[],"scopes":[],"assertions":[],"remedies":[],"warnings":[]}`
	if err != nil || string(text) != want {
		t.Errorf("%v, %s", err, text)
	}
}

func TestRounded(t *testing.T) {
	for in, want := range map[float64]float64{
		0.1 + 0.2: 0.3, 1e300: 1e300, 12345678901234567: 12345678901234567, 1.0 / 3: 0.3333333333333, -0.1 - 0.2: -0.3, math.Inf(1): math.Inf(1),
	} {
		if got := planjson.Rounded(in); got != want {
			t.Errorf("%v: %v, want %v", in, got, want)
		}
	}
	if !math.IsNaN(planjson.Rounded(math.NaN())) {
		t.Error("not a number became one")
	}
}

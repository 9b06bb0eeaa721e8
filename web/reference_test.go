package web_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tapyr/tapyr/web"
	"github.com/tapyr/tapyr/web/webtest"
)

var update = flag.Bool("update", false, "write the reference of metrics again")

const referenceFile = "../examples/prometheus/METRICS.md"

// The reference of metrics is made from what is served, so that it cannot lag behind.
func TestReferenceOfMetrics(t *testing.T) {
	paid, _ := paying(t)
	for i := range 5 {
		pay(paid, "admit", fmt.Sprintf(`{"event_id":"e%d","capability":"tracking"}`, i))
	}
	text := get(t, paid, "/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	more, err := parser.TextToMetricFamilies(strings.NewReader(get(t, web.New(web.Options{Daemon: stillOf(webtest.Infeasible, 3)}), "/metrics")))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for name, family := range more {
		families[name] = family
	}
	for name, family := range families {
		if !strings.HasPrefix(name, "tapyr_") {
			continue
		}
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+label.GetName()+"`")
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", name, strings.ToLower(family.GetType().String()), strings.Join(labels, ", "), family.GetHelp()))
	}
	slices.Sort(rows)
	want := "# Metrics\n\nWhat `/metrics` serves beside the series of jobs, those of the Go runtime (`go_`) and of the process (`process_`). Units are those of\n" +
		"the limit, or of the policy's money. What is not known is absent, never 0.\n\n" +
		"| name | type | labels | what it is |\n| --- | --- | --- | --- |\n" + strings.Join(rows, "\n") + "\n"
	if *update {
		if err := os.WriteFile(referenceFile, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what is served (%v): run go test ./web -run Reference -update", referenceFile, err)
	}
	if len(rows) < 70 {
		t.Errorf("only %d metrics", len(rows))
	}
}

package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/schema"
)

// docs/values.md says what the code does: its units are those that are read, its expressions know the names that they know.
func TestValuesPage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/values.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	row := func(first string) string {
		t.Helper()
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "| `"+first+"` |") {
				return line
			}
		}
		t.Errorf("the page has no row for %s", first)
		return ""
	}
	for _, unit := range []string{"ms", "s", "m", "h", "d", "w", "y"} {
		if _, err := schema.ParseDuration("1" + unit); err != nil {
			t.Errorf("the page has the unit %s: %v", unit, err)
		}
		row(unit)
	}
	for _, bad := range []string{"5", "-1s", "1 s", "1mo", "101y"} {
		if d, err := schema.ParseDuration(bad); err == nil {
			t.Errorf("%q is %v, and the page says that it is an error", bad, d)
		}
	}
	for _, good := range []string{"10/s", "27.4/m", "1/90s", "1/h", "1/d"} {
		if _, err := schema.ParseRate(good); err != nil {
			t.Error(err)
		}
	}
	for _, dimension := range []string{"instance", "provider", "account", "target", "credential", "endpoint", "method", "var:NAME"} {
		row(dimension)
		if pattern := string(schema.JSONSchema(schema.KindProvider)); !strings.Contains(pattern, strings.TrimSuffix(dimension, "NAME")) {
			t.Errorf("documents know no dimension %s", dimension)
		}
	}
	names := regexp.MustCompile("`([a-z]+)`")
	for _, place := range []*expr.Place{
		expr.RateLimited, expr.SessionToken, expr.PageItems, expr.PageCursor, expr.PageNext, expr.InventoryItems, expr.InventoryVar,
		expr.MetricItems, expr.MetricLabel, expr.MetricValue, expr.OutputItems, expr.SpendActual,
	} {
		cells := strings.Split(row(place.Name()), "|")
		if len(cells) < 4 {
			continue
		}
		var listed []string
		for _, match := range names.FindAllStringSubmatch(cells[2], -1) {
			listed = append(listed, match[1])
		}
		if got, want := strings.Join(listed, " "), strings.Join(place.Vars(), " "); got != want {
			t.Errorf("%s knows %s, the page says %s", place.Name(), want, got)
		}
	}
	functions := " " + strings.Join(expr.Functions(), " ") + " "
	for _, name := range []string{"matches", "contains", "startsWith", "split", "replace", "lowerAscii", "distinct", "flatten", "slice", "sets.contains", "base64.decode", "regex.extract"} {
		if !strings.Contains(functions, " "+name+" ") || !strings.Contains(page, "`"+name+"`") {
			t.Errorf("function %s: known %v, on the page %v", name, strings.Contains(functions, " "+name+" "), strings.Contains(page, name))
		}
	}
}

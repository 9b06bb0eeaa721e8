package cli

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"pgregory.net/rapid"
)

// render writes a table for a terminal of that width.
func render(t interface{ Fatal(...any) }, tab *table, columns int, colored bool) string {
	var text bytes.Buffer
	out := &Output{buffer: bufio.NewWriter(&text), columns: columns, colored: colored}
	if err := tab.writeText(out); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func sampleTable() *table {
	return &table{
		columns: []column{{title: "job", fit: fitCut}, {title: "every", right: true}, {title: "why", fit: fitWrap}},
		rows: [][]cell{
			plain("devices", "5m", "fits"),
			plain("organization-statuses-of-all-customers", "1h10m", "the daily quota of acme-meraki leaves 4,500 calls for 9,000"),
			{{text: "网络 devices"}, {text: "10s"}, {text: "late", style: styleBad}},
		},
	}
}

func TestTableText(t *testing.T) {
	got := render(t, sampleTable(), 60, false)
	want := strings.TrimPrefix(`
job                        every  why
devices                       5m  fits
organization…ll-customers  1h10m  the daily quota of
                                  acme-meraki leaves 4,500
                                  calls for 9,000
网络 devices                 10s  late
`, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, got)
	}
}

func TestTableWideEnoughIsUntouched(t *testing.T) {
	got := render(t, sampleTable(), 200, false)
	for _, row := range sampleTable().rows {
		for _, c := range row {
			if !strings.Contains(got, c.text) {
				t.Errorf("no %q in\n%s", c.text, got)
			}
		}
	}
	if lines := strings.Count(got, "\n"); lines != 4 {
		t.Errorf("%d lines, want 4:\n%s", lines, got)
	}
}

func TestTableTooNarrowBecomesRecords(t *testing.T) {
	got := render(t, sampleTable(), 24, false)
	want := strings.TrimPrefix(`
job    devices
every  5m
why    fits

job    organization-statuses-of-all-customers
every  1h10m
why    the daily quota
       of acme-meraki
       leaves 4,500
       calls for 9,000

job    网络 devices
every  10s
why    late
`, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, got)
	}
}

func TestTableColorChangesNoWidth(t *testing.T) {
	plainText := render(t, sampleTable(), 60, false)
	colored := render(t, sampleTable(), 60, true)
	if !strings.Contains(colored, "\x1b[31;1mlate\x1b[") {
		t.Errorf("no red in %q", colored)
	}
	if stripped := twwidth.Filter().ReplaceAllString(colored, ""); stripped != plainText {
		t.Error(cmp.Diff(plainText, stripped))
	}
}

// cellText draws texts of letters of several widths.
func cellText() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("ab é网ー0-. ")), 0, 60, -1)
}

// Whatever the cells, no line is wider than the terminal, and no cell that must
// stay whole is touched.
func TestTableFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := &table{}
		n := rapid.IntRange(1, 6).Draw(t, "columns")
		for range n {
			tab.columns = append(tab.columns, column{
				title: rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "title"),
				right: rapid.Bool().Draw(t, "right"),
				fit:   rapid.SampledFrom([]fit{fitWhole, fitCut, fitWrap}).Draw(t, "fit"),
			})
		}
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			var row []cell
			for _, c := range tab.columns {
				text := strings.TrimSpace(cellText().Draw(t, "cell"))
				if c.fit == fitWhole {
					text = rapid.StringMatching(`[0-9]{1,12}`).Draw(t, "number")
				}
				row = append(row, cell{text: text})
			}
			tab.rows = append(tab.rows, row)
		}
		columns := rapid.IntRange(20, 140).Draw(t, "width")
		text := render(t, tab, columns, rapid.Bool().Draw(t, "colored"))
		text = twwidth.Filter().ReplaceAllString(text, "")
		if _, fits := tab.fitWidths(columns); fits {
			for line := range strings.Lines(text) {
				if width := twwidth.Width(strings.TrimRight(line, "\n")); width > columns {
					t.Fatalf("%d columns of %d: %q\n%s", width, columns, line, text)
				}
			}
		}
		for _, row := range tab.rows {
			for i, c := range row {
				if tab.columns[i].fit == fitWhole && !strings.Contains(text, c.text) {
					t.Fatalf("%q is not in\n%s", c.text, text)
				}
			}
		}
	})
}

func TestCutMiddle(t *testing.T) {
	for _, test := range []struct {
		text    string
		columns int
		want    string
	}{
		{"acme-meraki", 11, "acme-meraki"},
		{"acme-meraki", 10, "acme-…raki"},
		{"acme-meraki", 3, "a…i"},
		{"acme-meraki", 2, "a…"},
		{"acme-meraki", 1, "…"},
		{"网络网络", 5, "网…络"},
		{"网络网络", 4, "网…"},
		{"", 0, ""},
	} {
		got := cutMiddle(test.text, test.columns)
		if got != test.want {
			t.Errorf("%q in %d: %q, want %q", test.text, test.columns, got, test.want)
		}
	}
}

// A cell must neither end its row nor start another column.
func TestTableMarkdown(t *testing.T) {
	tab := &table{
		columns: []column{{title: "limit|key"}, {title: "used", right: true}},
		rows:    [][]cell{plain(`a|b\c`, "5"), plain("two\nlines", "1,000")},
	}
	var text bytes.Buffer
	if err := tab.writeMarkdown(&text); err != nil {
		t.Fatal(err)
	}
	var cells [][]string
	for line := range strings.Lines(text.String()) {
		line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00")
		var row []string
		for part := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			row = append(row, strings.ReplaceAll(strings.TrimSpace(part), "\x00", `\|`))
		}
		cells = append(cells, row)
	}
	if len(cells) != 4 {
		t.Fatalf("%d lines:\n%s", len(cells), text.String())
	}
	if !strings.HasSuffix(cells[1][1], "-:") || strings.HasSuffix(cells[1][0], "-:") {
		t.Errorf("alignment is %q", cells[1])
	}
	cells = append(cells[:1], cells[2:]...)
	want := [][]string{{`limit\|key`, "used"}, {`a\|b\\c`, "5"}, {"two lines", "1,000"}}
	if diff := cmp.Diff(want, cells); diff != "" {
		t.Errorf("%s\n%s", diff, text.String())
	}
}

func TestTableCSVReadsBack(t *testing.T) {
	tab := &table{
		columns: []column{{title: "limit, key"}, {title: "used", right: true}},
		rows:    [][]cell{plain(`a "b"`, "5"), plain("two\nlines", "1,000")},
	}
	var text bytes.Buffer
	if err := tab.writeCSV(&text); err != nil {
		t.Fatal(err)
	}
	got, err := csv.NewReader(&text).ReadAll()
	want := [][]string{{"limit, key", "used"}, {`a "b"`, "5"}, {"two\nlines", "1,000"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if err := tab.writeCSV(failingWriter{bytes.ErrTooLarge}); err == nil {
		t.Error("a failed write is no error")
	}
}

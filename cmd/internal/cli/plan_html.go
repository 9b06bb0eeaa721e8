package cli

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"

	"github.com/tapyr/tapyr/cmd/internal/chart"
	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/plan"
)

//go:embed report.html
var reportHTML string

var reportTemplate = template.Must(template.New("report").Parse(reportHTML))

// htmlReport is a report as the template takes it.
type htmlReport struct {
	Title    string
	Headline htmlCell
	Sections []htmlSection
	Pictures []template.HTML
}

type htmlSection struct {
	Title   string
	Columns []htmlColumn
	Rows    [][]htmlCell
	Lines   []htmlCell
}

type htmlColumn struct {
	Title string
	Class string
}

type htmlCell struct {
	Text  string
	Class string
}

// writePlanHTML writes a plan as one page that needs nothing else.
func writePlanHTML(call *Call, p *plan.Plan, remedies []plan.Remedy) error {
	return writeHTML(call.Out, "Plan", planReportOf(p, remedies, call.Zone()), chart.Plan(p))
}

// writeHTML writes a report with its pictures as one page.
func writeHTML(out *Output, title string, r *reportView, pictures ...*chart.Figure) error {
	page := htmlReport{Title: title, Headline: htmlCell{plaintext.Printable(r.headline.text), styleClass(r.headline.style)}}
	for _, picture := range pictures {
		var svg bytes.Buffer
		if err := picture.Write(&svg, "svg"); err != nil {
			return err
		}
		_, drawing, _ := strings.Cut(svg.String(), "?>")
		page.Pictures = append(page.Pictures, template.HTML(drawing)) //nolint:gosec // drawn by our own charts, which escape labels
	}
	for _, s := range r.sections {
		page.Sections = append(page.Sections, htmlSectionOf(s))
	}
	return reportTemplate.Execute(out, page)
}

func htmlSectionOf(s section) htmlSection {
	out := htmlSection{Title: plaintext.Printable(s.title)}
	if s.table != nil {
		for _, c := range s.table.columns {
			class := ""
			if c.right {
				class = "num"
			}
			out.Columns = append(out.Columns, htmlColumn{c.title, class})
		}
		for _, row := range s.table.rows {
			cells := make([]htmlCell, len(row))
			for i, c := range row {
				cells[i] = htmlCell{plaintext.Printable(c.text), strings.TrimSpace(out.Columns[i].Class + " " + styleClass(c.style))}
			}
			out.Rows = append(out.Rows, cells)
		}
	}
	for _, l := range s.lines {
		out.Lines = append(out.Lines, htmlCell{plaintext.Printable(l.text), styleClass(l.style)})
	}
	return out
}

// styleClass is the class of a style in report.html.
func styleClass(s style) string {
	return map[style]string{styleGood: "good", styleWarn: "warn", styleBad: "bad", styleFaint: "faint"}[s]
}

package cli

import (
	"bytes"
	"encoding/csv"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/tapyr/tapyr/plaintext"
)

// table is a result in rows and columns. It knows three formats: text for a
// terminal, Markdown, and CSV.
type table struct {
	columns []column
	rows    [][]cell
}

// column says how the cells of one column are laid out.
type column struct {
	title string
	// right aligns the column to the right, as numbers are.
	right bool
	// fit says what may happen to a cell where the table is too wide.
	fit fit
}

// fit is what may happen to a cell where the table is too wide.
type fit int

const (
	// fitWhole cells are never touched: half a number is a wrong number.
	fitWhole fit = iota
	// fitCut cells lose their middle: names differ at both ends.
	fitCut
	// fitWrap cells are broken into lines between words.
	fitWrap
)

// cell is a text and what it means.
type cell struct {
	text  string
	style style
}

// plain returns cells without a style.
func plain(texts ...string) []cell {
	cells := make([]cell, len(texts))
	for i, text := range texts {
		cells[i].text = text
	}
	return cells
}

const (
	columnGap = 2
	// minFlexColumns is how narrow a column may get that is cut or wrapped:
	// below it, names are no longer told apart.
	minFlexColumns = 10
	ellipsis       = "…"
)

// writeText writes the table for a terminal of out's width. A table that does
// not fit even with its flexible columns at their narrowest is written as one
// paragraph per row, so that nothing is lost.
func (t *table) writeText(out *Output) error {
	t = t.cleaned(plaintext.Printable)
	widths, fits := t.fitWidths(out.Columns())
	if !fits {
		return t.writeRecords(out)
	}
	var text bytes.Buffer
	alignment := make(tw.Alignment, len(t.columns))
	for i, c := range t.columns {
		alignment[i] = tw.AlignLeft
		if c.right {
			alignment[i] = tw.AlignRight
		}
	}
	// The gap is the padding on the right, except behind the last column.
	padding := make([]tw.Padding, len(t.columns))
	for i := range padding {
		padding[i] = tw.Padding{Right: strings.Repeat(" ", columnGap), Overwrite: true}
	}
	padding[len(padding)-1] = tw.PaddingNone
	writer := tablewriter.NewTable(&text,
		tablewriter.WithRendition(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Lines: tw.LinesNone, Separators: tw.SeparatorsNone},
		}),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithAlignment(alignment),
		tablewriter.WithHeaderPaddingPerColumn(padding),
		tablewriter.WithRowPaddingPerColumn(padding),
	)
	header := make([]string, len(t.columns))
	for i, c := range t.columns {
		header[i] = string(out.paint(styleTitle, c.title))
	}
	writer.Header(header)
	for _, row := range t.rows {
		if err := writer.Append(t.fitRow(out, row, widths)); err != nil {
			return err
		}
	}
	if err := writer.Render(); err != nil {
		return err
	}
	// The padding of the last column would wrap on a terminal that is just as
	// wide, and shows in every diff.
	for line := range strings.Lines(text.String()) {
		if err := writeString(out, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// cleaned is the table with each text made fit for where it goes.
func (t *table) cleaned(clean func(string) string) *table {
	out := &table{columns: slices.Clone(t.columns), rows: make([][]cell, len(t.rows))}
	for i := range out.columns {
		out.columns[i].title = clean(out.columns[i].title)
	}
	for i, row := range t.rows {
		out.rows[i] = slices.Clone(row)
		for j := range row {
			out.rows[i][j].text = clean(row[j].text)
		}
	}
	return out
}

// fitRow cuts, wraps and paints the cells of a row to the widths given.
func (t *table) fitRow(out *Output, row []cell, widths []int) []string {
	texts := make([]string, len(row))
	for i, c := range row {
		lines := []string{c.text}
		switch t.columns[i].fit {
		case fitCut:
			lines[0] = cutMiddle(c.text, widths[i])
		case fitWrap:
			lines = wrapText(c.text, widths[i])
		case fitWhole:
		}
		if i == 0 {
			lines = notCommands(lines)
		}
		for j := range lines {
			// Each line by itself, so that no colour runs into the next column. A
			// word longer than the column loses its middle.
			if t.columns[i].fit == fitWrap {
				lines[j] = cutMiddle(lines[j], widths[i])
			}
			lines[j] = string(out.paint(c.style, lines[j]))
		}
		texts[i] = strings.Join(lines, "\n")
	}
	return texts
}

// fitWidths returns a width for each column such that the table fits, or false
// where it cannot. The widest flexible column gives way first.
func (t *table) fitWidths(columns int) ([]int, bool) {
	widths := make([]int, len(t.columns))
	total := columnGap * (len(t.columns) - 1)
	for i, c := range t.columns {
		widths[i] = twwidth.Width(c.title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], twwidth.Width(row[i].text))
		}
		total += widths[i]
	}
	for total > columns {
		widest := -1
		for i, c := range t.columns {
			narrowest := max(minFlexColumns, twwidth.Width(c.title))
			if c.fit != fitWhole && widths[i] > narrowest && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return nil, false
		}
		widths[widest]--
		total--
	}
	return widths, true
}

// writeRecords writes each row as a paragraph of "title  value" lines.
func (t *table) writeRecords(out *Output) error {
	margin := 0
	for _, c := range t.columns {
		margin = max(margin, twwidth.Width(c.title))
	}
	margin += columnGap
	for n, row := range t.rows {
		if n > 0 {
			out.Printf("\n")
		}
		for i, c := range row {
			title := t.columns[i].title
			lead := title + strings.Repeat(" ", margin-twwidth.Width(title))
			for _, line := range wrapText(c.text, out.Columns()-margin) {
				out.Printf("%s%s\n", lead, out.paint(c.style, line))
				lead = strings.Repeat(" ", margin)
			}
		}
	}
	return nil
}

// cutMiddle shortens text to columns by taking out its middle.
func cutMiddle(text string, columns int) string {
	if twwidth.Width(text) <= columns {
		return text
	}
	if columns <= 1 {
		return ellipsis
	}
	runes := []rune(text)
	// The beginning gets the odd column: it says what kind of thing this is.
	tail := (columns - 1) / 2
	head := columns - 1 - tail
	start, end := 0, len(runes)
	for start < len(runes) && twwidth.Width(string(runes[:start+1])) <= head {
		start++
	}
	for end > start && twwidth.Width(string(runes[end-1:])) <= tail {
		end--
	}
	return string(runes[:start]) + ellipsis + string(runes[end:])
}

// writeMarkdown writes the table as GitHub shows it.
func (t *table) writeMarkdown(w io.Writer) error {
	t = t.cleaned(plaintext.Markdown)
	alignment := make(tw.Alignment, len(t.columns))
	header := make([]string, len(t.columns))
	for i, c := range t.columns {
		header[i] = c.title
		alignment[i] = tw.AlignLeft
		if c.right {
			alignment[i] = tw.AlignRight
		}
	}
	writer := tablewriter.NewTable(w,
		tablewriter.WithRenderer(renderer.NewMarkdown()),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithAlignment(alignment),
	)
	writer.Header(header)
	for _, row := range t.rows {
		texts := make([]string, len(row))
		for i, c := range row {
			texts[i] = c.text
		}
		if err := writer.Append(texts); err != nil {
			return err
		}
	}
	return writer.Render()
}

// writeCSV writes the table for a spreadsheet, titles first (RFC 4180).
func (t *table) writeCSV(w io.Writer) error {
	t = t.cleaned(plaintext.Spreadsheet)
	writer := csv.NewWriter(w)
	header := make([]string, len(t.columns))
	for i, c := range t.columns {
		header[i] = c.title
	}
	if err := writer.Write(header); err != nil {
		return err
	}
	for _, row := range t.rows {
		texts := make([]string, len(row))
		for i, c := range row {
			texts[i] = c.text
		}
		if err := writer.Write(texts); err != nil {
			return err
		}
	}
	writer.Flush()
	return writer.Error()
}

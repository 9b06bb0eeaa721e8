package chart

import (
	"fmt"
	"image/color"
	"math"
	"sort"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/plan"
)

const (
	planWidth   = vg.Length(720)
	rowHeight   = vg.Length(30)
	panelMargin = vg.Length(96)
	legendRoom  = vg.Length(36)
	axisRoom    = vg.Length(36)
	barWidth    = vg.Length(9)
	mostRows    = 40
	labelRunes  = 36
)

// Plan draws budget, demand and projected use of each scope, and the stretch of each job.
func Plan(p *plan.Plan) *Figure {
	f := &Figure{width: planWidth}
	f.panels = append(f.panels, scopePanel(p), stretchPanel(p))
	return f
}

// row is one line of a panel of bars.
type row struct {
	label string
	bars  []bar
}

type bar struct {
	value float64
	color color.Color
	note  string
}

// scopePanel shows parts of the budget, so that a quota of a million and a rate of ten a second can stand side by side.
func scopePanel(p *plan.Plan) panel {
	scopes := append([]plan.Scope(nil), p.Scopes...)
	sort.SliceStable(scopes, func(i, j int) bool { return part(scopes[i].Demand, scopes[i]) > part(scopes[j].Demand, scopes[j]) })
	var rows []row
	for _, s := range scopes {
		projected := projectedColor
		if !s.Feasible {
			projected = overColor
		}
		rows = append(rows, row{
			label: s.Limit + " " + plaintext.Key(s.Key),
			bars: []bar{
				{100 * part(s.Demand, s), demandColor, percent(part(s.Demand, s))},
				{100 * part(s.Projected, s), projected, percent(part(s.Projected, s))},
			},
		})
	}
	out := barPanel("Use of each budget", rows, 100)
	out.plot.X.Label.Text = "percent of the budget"
	out.height, out.below = out.height+legendRoom, legendRoom
	out.plot.Legend.Add("at the desired intervals", swatch{demandColor})
	out.plot.Legend.Add("at the planned intervals", swatch{projectedColor})
	if !p.Feasible {
		out.plot.Legend.Add("planned, over the budget", swatch{overColor})
	}
	return out
}

func part(units float64, s plan.Scope) float64 {
	if s.Budget <= 0 {
		if units <= 0 {
			return 0
		}
		return 10
	}
	return units / s.Budget
}

func percent(part float64) string { return fmt.Sprintf("%.0f%%", 100*part) }

// stretchPanel shows how many times longer each job's interval becomes.
func stretchPanel(p *plan.Plan) panel {
	jobs := append([]plan.Job(nil), p.Jobs...)
	sort.SliceStable(jobs, func(i, j int) bool { return jobs[i].Stretch > jobs[j].Stretch })
	var rows []row
	for _, j := range jobs {
		c := goodColor
		if j.Stretch > 1 {
			c = demandColor
		}
		rows = append(rows, row{
			label: fmt.Sprintf("%s (%s)", j.Job, j.Priority),
			bars:  []bar{{j.Stretch, c, fmt.Sprintf("%.3g×", j.Stretch)}},
		})
	}
	out := barPanel("Stretch of each job's interval", rows, 1)
	out.plot.X.Label.Text = "times the desired interval"
	return out
}

// barPanel draws horizontal bars, the first row on top, and a line that they are measured against.
func barPanel(title string, rows []row, limit float64) panel {
	if more := len(rows) - mostRows; more > 0 {
		rows = rows[:mostRows]
		title = fmt.Sprintf("%s (the first %d; %d more)", title, mostRows, more)
	}
	p := newPlot(title)
	most := limit
	for _, r := range rows {
		for _, b := range r.bars {
			most = max(most, b.value)
		}
	}
	p.Add(newGrid())
	p.X.Min, p.X.Max = 0, most*1.12
	p.Y.Min, p.Y.Max = -0.6, float64(len(rows))-0.4
	ticks := make([]plot.Tick, len(rows))
	for i, r := range rows {
		y := float64(len(rows) - 1 - i)
		ticks[i] = plot.Tick{Value: y, Label: clipped(r.label, labelRunes)}
		p.Add(&barRow{y: y, bars: r.bars})
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Tick.Length = 0
	p.Y.LineStyle.Width = 0
	p.Legend.YOffs = -axisRoom - legendRoom // below the axis and its label
	p.Legend.Padding = 3
	p.Add(limitLine(limit))
	return panel{plot: p, height: panelMargin + rowHeight*vg.Length(max(1, len(rows)))}
}

func newGrid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Horizontal.Width = 0
	g.Vertical.Color = faintColor
	return g
}

// limitLine is the dashed line of the budget.
type limitLine float64

func (l limitLine) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	at := x(float64(l))
	c.StrokeLine2(draw.LineStyle{Color: limitColor, Width: 1.2, Dashes: []vg.Length{4, 3}}, at, c.Min.Y, at, c.Max.Y)
}

// barRow draws the bars of one row below each other, each with its figure behind it.
type barRow struct {
	y    float64
	bars []bar
}

func (b *barRow) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := text.Style{Font: p.X.Tick.Label.Font, Color: inkColor, YAlign: draw.YCenter, Handler: p.TextHandler}
	top := y(b.y) + barWidth*vg.Length(len(b.bars))/2
	for _, one := range b.bars {
		middle := top - barWidth/2
		value := one.value
		if math.IsNaN(value) || value < 0 {
			value = 0
		}
		left, right := x(0), x(value)
		c.SetColor(one.color)
		rect := vg.Rectangle{Min: vg.Point{X: left, Y: middle - barWidth/2 + 0.5}, Max: vg.Point{X: max(right, left+0.5), Y: middle + barWidth/2 - 0.5}}
		c.Fill(rect.Path())
		c.FillText(style, vg.Point{X: right + 4, Y: middle}, one.note)
		top -= barWidth
	}
}

// swatch is the picture of a colour in a legend.
type swatch struct{ color color.Color }

func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, []vg.Point{{X: c.Min.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Max.Y}, {X: c.Min.X, Y: c.Max.Y}})
}

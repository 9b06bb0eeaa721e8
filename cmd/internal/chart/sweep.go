package chart

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tapyr/tapyr/plan"
)

// Sweep draws the largest stretch and the smallest headroom along the figure that was varied.
func Sweep(s *plan.Sweep) *Figure {
	stretch := sweepPanel(s, "Largest stretch of any job", "stretch", func(p plan.SweepPoint) float64 { return p.Stretch })
	headroom := sweepPanel(s, "Smallest headroom of any budget", "percent of the budget left", func(p plan.SweepPoint) float64 { return 100 * max(p.Headroom, -1) })
	headroom.plot.X.Label.Text = s.Variable.Path
	return &Figure{width: planWidth, panels: []panel{stretch, headroom}}
}

func sweepPanel(s *plan.Sweep, title, label string, value func(plan.SweepPoint) float64) panel {
	p := newPlot(title)
	p.Y.Label.Text = label
	var points, over plotter.XYs
	for _, one := range s.Points {
		xy := plotter.XY{X: one.Value, Y: value(one)}
		points = append(points, xy)
		if !one.Holds {
			over = append(over, xy)
		}
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = faintColor, faintColor
	p.Add(grid)
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		panic(err) // the values are finite
	}
	line.Color, line.Width = projectedColor, 1.5
	marks.GlyphStyle = draw.GlyphStyle{Color: projectedColor, Radius: 2, Shape: draw.CircleGlyph{}}
	p.Add(line, marks)
	if len(over) > 0 {
		bad, err := plotter.NewScatter(over)
		if err != nil {
			panic(err) // the values are finite
		}
		bad.GlyphStyle = draw.GlyphStyle{Color: overColor, Radius: 3.5, Shape: draw.CrossGlyph{}}
		p.Add(bad)
		p.Legend.Add("does not fit", bad)
		p.Legend.Left = true
	}
	if !math.IsNaN(s.Fits) {
		p.Add(limitLine(s.Fits))
	}
	p.X.Min, p.X.Max = points[0].X, points[len(points)-1].X
	if p.X.Max <= p.X.Min {
		p.X.Min, p.X.Max = p.X.Min-1, p.X.Max+1
	}
	p.Y.Min, p.Y.Max = p.Y.Min-0.05*(p.Y.Max-p.Y.Min), p.Y.Max+0.1*(p.Y.Max-p.Y.Min)
	return panel{plot: p, height: vg.Length(230)}
}

var _ plot.Plotter = limitLine(0)

package chart

import (
	"fmt"
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/simulate"
)

const (
	// mostSimulated is how many quotas a picture shows, those first that were fullest.
	mostSimulated = 4
	// mostIntervals is how many jobs' intervals it shows, the most stretched first.
	mostIntervals   = 6
	simulatedHeight = vg.Length(210)
	legendLine      = vg.Length(12)
	timeAxisRoom    = vg.Length(24) // an axis without a label
)

// Simulation draws the use of the fullest quotas over time, and how much longer than asked for the jobs' intervals were.
func Simulation(r *simulate.Report, zone *time.Location) *Figure {
	f := &Figure{width: planWidth}
	quotas := slices.Clone(r.Quotas)
	slices.SortStableFunc(quotas, func(a, b simulate.QuotaReport) int {
		switch x, y := fullest(a), fullest(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	for i, q := range quotas {
		if i == mostSimulated || fullest(q) == 0 {
			break // windows so short that no look at them met any use have nothing to show
		}
		f.panels = append(f.panels, usePanel(r, q, zone))
	}
	f.panels = append(f.panels, intervalPanel(r, zone))
	return f
}

// fullest is the largest part of a quota that was ever used.
func fullest(q simulate.QuotaReport) float64 {
	most := 0.0
	for _, p := range q.Points {
		most = max(most, float64(p.UsedUnits+p.ExternalUnits)/float64(max(1, p.MaxUnits)))
	}
	return most
}

// usePanel draws one quota: our own use, that of others on top of it, what we may use, and the maximum.
func usePanel(r *simulate.Report, q simulate.QuotaReport, zone *time.Location) panel {
	p := timePlot(fmt.Sprintf("%s of %s", q.Limit, clipped(plaintext.Key(q.Key), 2*labelRunes)), r, zone)
	p.Y.Label.Text = "units in the window"
	var own, all, usable, maximum plotter.XYs
	for _, point := range q.Points {
		x := seconds(point.At)
		own = append(own, plotter.XY{X: x, Y: float64(point.UsedUnits)})
		all = append(all, plotter.XY{X: x, Y: float64(point.UsedUnits + point.ExternalUnits)})
		usable = append(usable, plotter.XY{X: x, Y: float64(point.UsableUnits)})
		maximum = append(maximum, plotter.XY{X: x, Y: float64(point.MaxUnits)})
	}
	entries := 2
	if !slices.Equal(all, own) {
		entries++
		p.Add(&area{falling(all), externalColor})
		p.Legend.Add("others, as responses showed", swatch{externalColor})
	}
	p.Add(&area{falling(own), ownColor})
	p.Legend.Add("tapyr's own", swatch{ownColor})
	if !slices.Equal(usable, maximum) {
		entries++
		p.Add(&dashed{usable, goodColor})
		p.Legend.Add("usable", &dashed{nil, goodColor})
	}
	p.Add(&dashed{maximum, limitColor})
	p.Legend.Add("maximum", &dashed{nil, limitColor})
	for _, point := range slices.Concat(all, maximum) {
		p.Y.Max = max(p.Y.Max, point.Y)
	}
	p.Y.Min, p.Y.Max = 0, max(1, p.Y.Max*1.08)
	return below(p, entries)
}

// falling makes the use fall at once where a window has turned, not along a slope.
func falling(points plotter.XYs) plotter.XYs {
	var out plotter.XYs
	for i, point := range points {
		if i > 0 && point.Y < points[i-1].Y {
			out = append(out, plotter.XY{X: point.X, Y: points[i-1].Y})
		}
		out = append(out, point)
	}
	return out
}

// intervalPanel draws how the intervals of the jobs that were stretched most changed.
func intervalPanel(r *simulate.Report, zone *time.Location) panel {
	p := timePlot("Interval of each job, as a multiple of the desired one", r, zone)
	p.Y.Label.Text = "stretch"
	type course struct {
		job    string
		most   float64
		points plotter.XYs
	}
	var courses []course
	end := seconds(r.End)
	for _, j := range r.Jobs {
		c := course{job: j.Job}
		for _, change := range r.Changes {
			if change.Job != j.Job || j.DesiredSeconds <= 0 {
				continue
			}
			x, stretch := seconds(change.At), change.To.Seconds()/j.DesiredSeconds
			if n := len(c.points); n > 0 {
				c.points = append(c.points, plotter.XY{X: x, Y: c.points[n-1].Y})
			}
			c.points = append(c.points, plotter.XY{X: x, Y: stretch})
			c.most = max(c.most, stretch)
		}
		if n := len(c.points); n > 0 {
			c.points = append(c.points, plotter.XY{X: end, Y: c.points[n-1].Y})
			courses = append(courses, c)
		}
	}
	slices.SortStableFunc(courses, func(a, b course) int {
		switch {
		case a.most > b.most:
			return -1
		case a.most < b.most:
			return 1
		}
		return 0
	})
	colors := []color.Color{projectedColor, demandColor, goodColor, overColor, inkColor, color.RGBA{0x80, 0x5a, 0xd5, 0xff}}
	for i, c := range courses {
		if i == mostIntervals {
			break
		}
		line, err := plotter.NewLine(c.points)
		if err != nil {
			panic(err) // the values are finite
		}
		line.Color, line.Width = colors[i], 1.4
		p.Add(line)
		p.Legend.Add(clipped(c.job, labelRunes), line)
	}
	p.Y.Min = 0
	p.Y.Max = max(2, p.Y.Max*1.08)
	return below(p, min(len(courses), mostIntervals))
}

// timePlot is a plot along the time of a simulation.
func timePlot(title string, r *simulate.Report, zone *time.Location) *plot.Plot {
	p := newPlot(title)
	grid := newGrid()
	grid.Horizontal.Width, grid.Vertical.Width, grid.Horizontal.Color = 0.5, 0, faintColor
	p.Add(grid)
	p.X.Min, p.X.Max = seconds(r.Start), seconds(r.End)
	p.X.Tick.Marker = timeTicks{zone}
	return p
}

// below puts the legend, of so many entries, under the plot.
func below(p *plot.Plot, entries int) panel {
	room := vg.Length(entries) * legendLine
	p.Legend.Left = true
	p.Legend.YOffs = -timeAxisRoom - room
	p.Legend.Padding = 2
	return panel{plot: p, height: simulatedHeight + room + legendLine, below: room + legendLine}
}

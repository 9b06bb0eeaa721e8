package chart

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/replay"
)

var (
	ownColor      = color.RGBA{0x2b, 0x6c, 0xb0, 0xff}
	externalColor = color.RGBA{0xf2, 0xc0, 0x78, 0xff}
	bandColor     = color.RGBA{0x9a, 0xbf, 0xe0, 0xff}
	resetColor    = color.RGBA{0xb8, 0xc2, 0xcf, 0xff}
)

const (
	replayPanel = vg.Length(230)
	mostPanels  = 12
	mostResets  = 70
)

// Replay draws the course of the fullest quotas: own use, others' use on top of it, where the last window leads, the limit, and
// the resets. Times are shown in the zone.
func Replay(r *replay.Report, zone *time.Location) *Figure {
	scopes := slices.Clone(r.Scopes)
	slices.SortStableFunc(scopes, func(a, b replay.Scope) int { return cmp.Compare(most(&b), most(&a)) })
	if len(scopes) > mostPanels {
		scopes = scopes[:mostPanels]
	}
	f := &Figure{width: planWidth}
	for i := range scopes {
		if p, ok := coursePanel(r, &scopes[i], zone); ok {
			f.panels = append(f.panels, p)
		}
	}
	if n := len(f.panels); n > 0 {
		f.panels[n-1].explain(&scopes[len(scopes)-1])
	} else {
		p := newPlot("No quota has a grant or a response")
		p.HideAxes()
		f.panels = append(f.panels, panel{plot: p, height: panelMargin})
	}
	return f
}

// most is the fullest that a scope was.
func most(s *replay.Scope) float64 {
	part := 0.0
	for i := range s.Windows {
		w := &s.Windows[i]
		if w.Usable > 0 {
			part = max(part, float64(w.Usable-w.Remaining)/float64(w.Usable))
		}
	}
	return part
}

// coursePanel draws one scope.
func coursePanel(r *replay.Report, s *replay.Scope, zone *time.Location) (panel, bool) {
	if len(s.Curve) == 0 || len(s.Windows) == 0 {
		return panel{}, false
	}
	p := newPlot(clipped(s.Limit+" "+plaintext.Key(s.Key), 80))
	last := &s.Windows[len(s.Windows)-1]
	from, to := seconds(s.Curve[0].At), seconds(r.At)
	if last.Open {
		to = max(to, seconds(last.End))
	}
	grid := newGrid()
	grid.Horizontal.Width, grid.Vertical.Width, grid.Horizontal.Color = 0.5, 0, faintColor
	p.Add(grid)
	own, both, usable := courses(s)
	top := 0.0
	for _, line := range []plotter.XYs{both, usable} {
		for _, point := range line {
			top = max(top, point.Y)
		}
	}
	if band := projection(s, last); band != nil {
		for _, point := range band.area {
			top = max(top, min(point.Y, 3*float64(max(last.Usable, 1))))
		}
		p.Add(band)
	}
	p.Add(&area{both, externalColor}, &area{own, ownColor})
	p.Add(resets(s, from), &dashed{usable, limitColor})
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = from, to, 0, max(top*1.08, 1)
	p.X.Tick.Marker = timeTicks{zone}
	p.Y.Label.Text = "units"
	return panel{plot: p, height: replayPanel}, true
}

// explain puts the legend of all panels below one.
func (one *panel) explain(s *replay.Scope) {
	p := one.plot
	p.Legend.Top, p.Legend.Left = false, true
	p.Legend.YOffs = -axisRoom - legendRoom
	p.Legend.Padding = 2
	p.Legend.Add("tapyr's own", swatch{ownColor})
	p.Legend.Add("others, as responses showed", swatch{externalColor})
	p.Legend.Add(bandLabel(s), swatch{bandColor})
	p.Legend.Add("usable", &dashed{nil, limitColor})
	one.height, one.below = one.height+2*legendRoom, 2*legendRoom
}

func bandLabel(s *replay.Scope) string {
	if s.Forecast != nil {
		return fmt.Sprintf("forecast, P10 to P90 (%d days)", s.Forecast.HistoryDays)
	}
	return "projection: at the pace of the window to that of the last 15 minutes"
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// courses are own use, own and others' use, and the limit, as lines that fall to zero at each reset.
func courses(s *replay.Scope) (own, both, usable plotter.XYs) {
	for i, c := range s.Curve {
		x := seconds(c.At)
		if i > 0 && !c.Start.Equal(s.Curve[i-1].Start) {
			before := s.Curve[i-1]
			turn := min(max(seconds(c.Start), seconds(before.At)), x)
			own = append(own, plotter.XY{X: turn, Y: float64(before.Used)}, plotter.XY{X: turn})
			both = append(both, plotter.XY{X: turn, Y: float64(before.Used + before.External)}, plotter.XY{X: turn})
			usable = append(usable, plotter.XY{X: turn, Y: float64(before.Usable)}, plotter.XY{X: turn, Y: float64(c.Usable)})
		}
		own = append(own, plotter.XY{X: x, Y: float64(c.Used)})
		both = append(both, plotter.XY{X: x, Y: float64(c.Used + c.External)})
		usable = append(usable, plotter.XY{X: x, Y: float64(c.Usable)})
	}
	if last := &s.Windows[len(s.Windows)-1]; last.Open {
		usable = append(usable, plotter.XY{X: seconds(last.End), Y: float64(last.Usable)})
	}
	return own, both, usable
}

// lead is where the last window leads: a band and a middle.
type lead struct {
	area   plotter.XYs
	middle plotter.XYs
}

// projection goes from the present to the window's end: the forecast where there is one, else between the pace of the last 15
// minutes and that of the window. Others go on at their pace. nil where the window is over.
func projection(s *replay.Scope, w *replay.Window) *lead {
	left := w.End.Sub(w.At).Seconds()
	if !w.Open || left <= 0 {
		return nil
	}
	others := w.ProjectedTotal - w.ProjectedEnd
	low := float64(w.Used) + min(w.OwnPerSecond, w.RecentPerSecond)*left
	high := float64(w.Used) + max(w.OwnPerSecond, w.RecentPerSecond)*left
	middle := w.ProjectedEnd
	if f := s.Forecast; f != nil {
		low, middle, high = f.P10, f.P50, f.P90
	}
	now := plotter.XY{X: seconds(w.At), Y: float64(w.Used + w.External)}
	end := seconds(w.End)
	return &lead{
		area:   plotter.XYs{now, {X: end, Y: high + others}, {X: end, Y: low + others}},
		middle: plotter.XYs{now, {X: end, Y: middle + others}},
	}
}

// Plot implements plot.Plotter.
func (l *lead) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	points := make([]vg.Point, len(l.area))
	for i, at := range l.area {
		points[i] = vg.Point{X: x(at.X), Y: y(at.Y)}
	}
	c.FillPolygon(bandColor, c.ClipPolygonXY(points))
	(&dashed{l.middle, ownColor}).Plot(c, p)
}

// area is filled down to zero.
type area struct {
	line  plotter.XYs
	color color.Color
}

// Plot implements plot.Plotter.
func (a *area) Plot(c draw.Canvas, p *plot.Plot) {
	if len(a.line) == 0 {
		return
	}
	x, y := p.Transforms(&c)
	points := []vg.Point{{X: x(a.line[0].X), Y: y(0)}}
	for _, at := range a.line {
		points = append(points, vg.Point{X: x(at.X), Y: y(at.Y)})
	}
	points = append(points, vg.Point{X: x(a.line[len(a.line)-1].X), Y: y(0)})
	c.FillPolygon(a.color, c.ClipPolygonXY(points))
}

// dashed is a line with gaps.
type dashed struct {
	line  plotter.XYs
	color color.Color
}

func (d *dashed) style() draw.LineStyle {
	return draw.LineStyle{Color: d.color, Width: 1.2, Dashes: []vg.Length{4, 3}}
}

// Plot implements plot.Plotter.
func (d *dashed) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	points := make([]vg.Point, len(d.line))
	for i, at := range d.line {
		points[i] = vg.Point{X: x(at.X), Y: y(at.Y)}
	}
	c.StrokeLines(d.style(), c.ClipLinesXY(points)...)
}

// Thumbnail implements plot.Thumbnailer.
func (d *dashed) Thumbnail(c *draw.Canvas) {
	middle := (c.Min.Y + c.Max.Y) / 2
	c.StrokeLine2(d.style(), c.Min.X, middle, c.Max.X, middle)
}

// resetLines are where windows begin.
type resetLines []float64

// resets are the turns within the picture; none where there are so many that they would be a grey wall.
func resets(s *replay.Scope, from float64) resetLines {
	var list resetLines
	for i := range s.Windows {
		if w := &s.Windows[i]; seconds(w.Start) > from {
			list = append(list, seconds(w.Start))
		}
	}
	if last := &s.Windows[len(s.Windows)-1]; last.Open && last.End.After(last.At) {
		list = append(list, seconds(last.End))
	}
	if len(list) > mostResets {
		return nil
	}
	return list
}

// Plot implements plot.Plotter.
func (r resetLines) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for _, at := range r {
		c.StrokeLine2(draw.LineStyle{Color: resetColor, Width: 0.8, Dashes: []vg.Length{1, 2}}, x(at), c.Min.Y, x(at), c.Max.Y)
	}
}

// timeTicks are at full hours or days of a zone.
type timeTicks struct{ zone *time.Location }

// Ticks implements plot.Ticker.
func (t timeTicks) Ticks(low, high float64) []plot.Tick {
	span := time.Duration((high - low) * 1e9)
	step, format := time.Minute, "15:04"
	for _, s := range []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 91 * 24 * time.Hour} {
		if span/step > 8 {
			step = s
		}
	}
	if span > 36*time.Hour {
		format = "02 Jan 15:04"
	}
	if step >= 24*time.Hour {
		format = "02 Jan"
	}
	first := time.Unix(int64(low), 0).In(t.zone)
	at := time.Date(first.Year(), first.Month(), first.Day(), 0, 0, 0, 0, t.zone)
	var ticks []plot.Tick
	for range 10_000 {
		if x := seconds(at); x > high {
			break
		} else if x >= low {
			ticks = append(ticks, plot.Tick{Value: x, Label: at.Format(format)})
		}
		if step >= 24*time.Hour {
			at = at.AddDate(0, 0, int(step/(24*time.Hour)))
		} else {
			at = at.Add(step)
		}
	}
	return ticks
}

// Package chart draws the pictures of tapyr's reports, as SVG or PNG. A picture is the same for the same report, to the byte.
package chart

import (
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/tapyr/tapyr/plaintext"
)

// The colours keep their meaning in every picture, and differ in lightness, too, for readers who do not see hues.
var (
	inkColor       = color.RGBA{0x22, 0x2b, 0x36, 0xff}
	faintColor     = color.RGBA{0xd5, 0xdb, 0xe3, 0xff}
	limitColor     = color.RGBA{0x22, 0x2b, 0x36, 0xff}
	demandColor    = color.RGBA{0xf2, 0xc0, 0x78, 0xff}
	projectedColor = color.RGBA{0x2b, 0x6c, 0xb0, 0xff}
	overColor      = color.RGBA{0xc5, 0x30, 0x30, 0xff}
	goodColor      = color.RGBA{0x2f, 0x85, 0x5a, 0xff}
)

const (
	titleSize = vg.Length(12)
	labelSize = vg.Length(9)
	pngDPI    = 144
)

// Figure is a picture: panels below one another.
type Figure struct {
	width  vg.Length
	panels []panel
}

type panel struct {
	plot   *plot.Plot
	height vg.Length
	below  vg.Length // kept free at the bottom, for a legend
}

// FormatOf tells the format that a file's name asks for, svg or png.
func FormatOf(name string) (string, error) {
	switch format := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), ".")); format {
	case "svg", "png":
		return format, nil
	default:
		return "", fmt.Errorf("cannot draw into %q: want a name that ends in .svg or .png", name)
	}
}

// Write draws the figure.
func (f *Figure) Write(w io.Writer, format string) error {
	height := vg.Length(0)
	for _, p := range f.panels {
		height += p.height
	}
	switch format {
	case "svg":
		c := vgsvg.New(f.width, height)
		f.draw(draw.New(c), height)
		_, err := c.WriteTo(w)
		return err
	case "png":
		c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(f.width, height), vgimg.UseDPI(pngDPI), vgimg.UseBackgroundColor(color.White))}
		f.draw(draw.New(c), height)
		_, err := c.WriteTo(w)
		return err
	}
	return fmt.Errorf("cannot draw as %q: want svg or png", format)
}

func (f *Figure) draw(c draw.Canvas, height vg.Length) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	top := height
	for _, p := range f.panels {
		part := draw.Crop(c, 12, -16, top-p.height-c.Min.Y+10+p.below, top-height-8)
		p.plot.Draw(part)
		top -= p.height
	}
}

// newPlot is a plot in the house's dress.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = title
	p.Title.TextStyle.Font = font.From(plot.DefaultFont, titleSize)
	p.Title.TextStyle.Font.Variant = "Sans"
	p.Title.Padding = 8
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Variant = "Sans"
		axis.Label.TextStyle.Font.Size = labelSize
		axis.Tick.Label.Font.Variant = "Sans"
		axis.Tick.Label.Font.Size = labelSize
		axis.Tick.Label.Color = inkColor
		axis.Tick.LineStyle.Color = faintColor
		axis.LineStyle.Color = faintColor
		axis.Tick.Marker = plot.TickerFunc(plainTicks)
	}
	p.Legend.TextStyle.Font.Variant = "Sans"
	p.Legend.TextStyle.Font.Size = labelSize
	return p
}

// plainTicks are the library's ticks with figures as people write them: 250, not 250.00.
func plainTicks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'g', 6, 64)
		}
	}
	return ticks
}

// clipped shortens a label that would take too much room.
func clipped(label string, most int) string {
	label = plaintext.Printable(label)
	runes := []rune(label)
	if len(runes) <= most {
		return label
	}
	half := (most - 1) / 2
	return string(runes[:half]) + "…" + string(runes[len(runes)-half:])
}

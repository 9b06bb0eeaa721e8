package chart

import (
	"bytes"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/replay"
)

// aReport has two days of one quota, the second of them open.
func aReport() *replay.Report {
	day := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	at := day.Add(36 * time.Hour)
	s := replay.Scope{Provider: "vendor", Limit: "daily", Key: "acme & sons <1>"}
	for i := range 2 {
		from := day.AddDate(0, 0, i)
		s.Windows = append(s.Windows, replay.Window{Start: from, End: from.AddDate(0, 0, 1), At: at, Usable: 100, Used: 40, External: 20, Remaining: 60})
	}
	last := &s.Windows[1]
	last.Open, last.OwnPerSecond, last.RecentPerSecond, last.ProjectedEnd, last.ProjectedTotal = true, 0.001, 0.002, 126, 146
	for hour := range 37 {
		start := day
		if hour >= 24 {
			start = day.AddDate(0, 0, 1)
		}
		used := int64(hour % 24)
		s.Curve = append(s.Curve, replay.CurvePoint{At: day.Add(time.Duration(hour) * time.Hour), Start: start, Used: used, External: used / 2, Usable: 100})
	}
	return &replay.Report{From: day, To: at, At: at, Scopes: []replay.Scope{s}}
}

func drawn(t *testing.T, r *replay.Report, format string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Replay(r, time.UTC).Write(&out, format); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The same report is the same picture, in both formats, with its labels escaped.
func TestReplayPicture(t *testing.T) {
	svg := string(drawn(t, aReport(), "svg"))
	if again := string(drawn(t, aReport(), "svg")); again != svg {
		t.Error("two pictures of one report differ")
	}
	for _, want := range []string{"daily acme &amp; sons &lt;1&gt;", "tapyr&#39;s own", "others, as responses showed", "projection: at the pace", "usable", "01 Dec"} {
		if !strings.Contains(svg, want) && !strings.Contains(svg, strings.ReplaceAll(want, "&#39;", "'")) {
			t.Errorf("no %q in the picture", want)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error("a coordinate is no number")
	}
	picture, err := png.Decode(bytes.NewReader(drawn(t, aReport(), "png")))
	if err != nil {
		t.Fatal(err)
	}
	if b := picture.Bounds(); b.Dx() < 1000 || b.Dy() < 400 {
		t.Errorf("the picture is %v", b)
	}
}

// A forecast takes the place of the linear band, and says what it rests on.
func TestReplayPictureWithForecast(t *testing.T) {
	r := aReport()
	r.Scopes[0].Forecast = &replay.Forecast{P10: 50, P50: 60, P90: 80, HistoryDays: 21}
	if svg := string(drawn(t, r, "svg")); !strings.Contains(svg, "forecast, P10 to P90 (21 days)") {
		t.Error("the legend does not name the forecast")
	}
	band := projection(&r.Scopes[0], &r.Scopes[0].Windows[1])
	// Others go on at their pace: 146 - 126 more by the end.
	if band == nil || band.area[1].Y != 100 || band.area[2].Y != 70 || band.middle[1].Y != 80 {
		t.Errorf("%+v", band)
	}
}

// A report without anything to draw is a picture all the same; many keys are the fullest twelve.
func TestReplayPictureOfNothingAndOfMany(t *testing.T) {
	if svg := string(drawn(t, &replay.Report{}, "svg")); !strings.Contains(svg, "No quota has a grant") {
		t.Error("an empty picture does not say why")
	}
	many := aReport()
	for range 30 {
		many.Scopes = append(many.Scopes, many.Scopes[0])
	}
	if n := len(Replay(many, time.UTC).panels); n != mostPanels {
		t.Errorf("%d panels, want %d", n, mostPanels)
	}
}

// Ticks stand at full hours or days of the zone, at most a dozen of them.
func TestTimeTicks(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 10, 20, 3, 17, 0, 0, zone)
	for _, span := range []time.Duration{10 * time.Minute, time.Hour, 5 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 90 * 24 * time.Hour} {
		ticks := timeTicks{zone}.Ticks(seconds(from), seconds(from.Add(span)))
		if len(ticks) < 1 || len(ticks) > 12 {
			t.Errorf("%v: %d ticks", span, len(ticks))
		}
		for _, tick := range ticks {
			at := time.Unix(int64(tick.Value), 0).In(zone)
			if span > 9*24*time.Hour && (at.Hour() != 0 || at.Minute() != 0) {
				t.Errorf("%v: a tick at %v", span, at)
			}
		}
	}
}

package replay

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// goldenCase is a case of the golden files.
type goldenCase struct {
	Name      string
	Documents []json.RawMessage
	Journal   []string
	Decisions []goldenDecision
	Expect    goldenReport
}

func (c *goldenCase) config(t testing.TB) *validate.Config {
	t.Helper()
	var b strings.Builder
	for _, d := range c.Documents {
		fmt.Fprintf(&b, "---\n%s\n", d)
	}
	return validatetest.Config(t, b.String())
}

type goldenDecision struct {
	Granted        bool
	AtSeconds      float64
	Reason         string
	Limit, Key     *string
	RetryAtSeconds *float64
}

type goldenReport struct {
	Rows   int64
	At     time.Time
	Scopes []struct {
		Limit, Key string
		Windows    []goldenWindow
	}
	Jobs []struct {
		Job               string
		Requests, Retries int64
	}
}

type goldenWindow struct {
	Start, End                                      time.Time
	Max, Usable, Reserve, Used, External, Remaining int64
	Own15PerHour, OwnPerHour, ExternalPerHour       float64
	ProjectedEnd, ProjectedTotal                    float64
	ExhaustsAtEpoch                                 *float64
}

func goldenCases(t testing.TB, name string, atLeast int) []goldenCase {
	t.Helper()
	var file struct{ Cases []goldenCase }
	golden.Vectors(t, name, atLeast, &file)
	return file.Cases
}

// journalFile writes lines into a file.
func journalFile(t testing.TB, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// replayFile replays one file for some sides.
func replayFile(t testing.TB, name string, options journal.Options, sides ...Options) []*Report {
	t.Helper()
	rows, err := journal.Open([]string{name}, options)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	reports, err := Run(t.Context(), rows, sides...)
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

// difference tells how a report differs from the golden one; "" where it does not.
func (want *goldenReport) difference(got *Report) string {
	if got.Rows != want.Rows || !got.At.Equal(want.At) {
		return fmt.Sprintf("%d rows at %v, want %d at %v", got.Rows, got.At, want.Rows, want.At)
	}
	if len(got.Scopes) != len(want.Scopes) || len(got.Jobs) != len(want.Jobs) {
		return fmt.Sprintf("%d scopes and %d jobs, want %d and %d", len(got.Scopes), len(got.Jobs), len(want.Scopes), len(want.Jobs))
	}
	for i := range want.Scopes {
		g, w := &got.Scopes[i], &want.Scopes[i]
		if g.Limit != w.Limit || g.Key != w.Key || len(g.Windows) != len(w.Windows) {
			return fmt.Sprintf("scope %d is %s %s with %d windows, want %s %s with %d", i, g.Limit, g.Key, len(g.Windows), w.Limit, w.Key, len(w.Windows))
		}
		for j := range w.Windows {
			if d := w.Windows[j].difference(&g.Windows[j]); d != "" {
				return fmt.Sprintf("%s %s %v: %s", w.Limit, w.Key, w.Windows[j].Start, d)
			}
		}
	}
	for i, w := range want.Jobs {
		if g := got.Jobs[i]; g.Job != w.Job || g.Requests != w.Requests || g.Retries != w.Retries {
			return fmt.Sprintf("job %d is %+v, want %+v", i, g, w)
		}
	}
	return ""
}

func (want *goldenWindow) difference(got *Window) string {
	if !got.Start.Equal(want.Start) || !got.End.Equal(want.End) {
		return fmt.Sprintf("[%v, %v), want [%v, %v)", got.Start, got.End, want.Start, want.End)
	}
	for _, n := range []struct {
		name      string
		got, want int64
	}{
		{"max", got.Max, want.Max},
		{"usable", got.Usable, want.Usable},
		{"reserve", got.Reserve, want.Reserve},
		{"used", got.Used, want.Used},
		{"external", got.External, want.External},
		{"remaining", got.Remaining, want.Remaining},
	} {
		if n.got != n.want {
			return fmt.Sprintf("%s is %d, want %d", n.name, n.got, n.want)
		}
	}
	for _, n := range []struct {
		name      string
		got, want float64
	}{
		{"own15", got.RecentPerSecond * 3600, want.Own15PerHour},
		{"own", got.OwnPerSecond * 3600, want.OwnPerHour},
		{"external rate", got.ExternalPerSecond * 3600, want.ExternalPerHour},
		{"projected end", got.ProjectedEnd, want.ProjectedEnd},
		{"projected total", got.ProjectedTotal, want.ProjectedTotal},
	} {
		if math.Abs(n.got-n.want) > 1e-9+1e-6*math.Abs(n.want) {
			return fmt.Sprintf("%s is %v, want %v", n.name, n.got, n.want)
		}
	}
	switch w := want.ExhaustsAtEpoch; {
	case got.ExhaustsAt.IsZero() != (w == nil):
		return fmt.Sprintf("exhausts at %v, want %v", got.ExhaustsAt, w)
	case w != nil && math.Abs(float64(got.ExhaustsAt.UnixNano())/1e9-*w) > 1:
		return fmt.Sprintf("exhausts at %v, want %v", got.ExhaustsAt, time.Unix(int64(*w), 0).UTC())
	}
	return ""
}

// The golden reports: every figure of every window, and the same with curves and forecasts taken along.
func TestReplayVectors(t *testing.T) {
	for _, c := range goldenCases(t, "replay", 20) {
		t.Run(c.Name, func(t *testing.T) {
			config, name := c.config(t), journalFile(t, c.Journal...)
			reports := replayFile(t, name, journal.Options{}, Options{Config: config},
				Options{Config: config, CurvePoints: 50, Forecast: true, Backtest: true})
			for i, got := range reports {
				if d := c.Expect.difference(got); d != "" {
					t.Errorf("side %d: %s", i, d)
				}
			}
			// A changed expectation must fail.
			c.Expect.Scopes[0].Windows[0].Used++
			if c.Expect.difference(reports[0]) == "" {
				t.Error("a wrong figure goes unnoticed")
			}
		})
	}
}

var start = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

// difference tells how a decision differs from the golden one. Files that only look at waits and quotas name no key.
func (want *goldenDecision) difference(got *Decision, partial bool) string {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	seconds := func(t time.Time) float64 { return t.Sub(start).Seconds() }
	switch {
	case got.Granted != want.Granted:
		return fmt.Sprintf("%+v, want granted %v %s", *got, want.Granted, want.Reason)
	case got.Granted && math.Abs(seconds(got.At)-want.AtSeconds) > 1e-3:
		return fmt.Sprintf("granted at %.3f, want %.3f", seconds(got.At), want.AtSeconds)
	case got.Granted:
		return ""
	case got.Reason != want.Reason || got.Limit != text(want.Limit) && (!partial || want.Limit != nil) || got.Key != text(want.Key) && (!partial || want.Key != nil):
		return fmt.Sprintf("%s %s %s, want %s %s %s", got.Reason, got.Limit, got.Key, want.Reason, text(want.Limit), text(want.Key))
	case got.RetryAt.IsZero() != (want.RetryAtSeconds == nil) && !partial:
		return fmt.Sprintf("retry at %v, want %v", got.RetryAt, want.RetryAtSeconds)
	case want.RetryAtSeconds != nil && math.Abs(seconds(got.RetryAt)-*want.RetryAtSeconds) > 1e-3:
		return fmt.Sprintf("retry at %.3f, want %.3f", seconds(got.RetryAt), *want.RetryAtSeconds)
	}
	return ""
}

// The golden streams: every decision, one a row, in the order of the file.
func TestDecisionVectors(t *testing.T) {
	for _, file := range []string{"engine", "enforce"} {
		partial := file == "enforce"
		for _, c := range goldenCases(t, file, 30) {
			t.Run(c.Name, func(t *testing.T) {
				var got []Decision
				replayFile(t, journalFile(t, c.Journal...), journal.Options{}, Options{
					Config: c.config(t), Enforce: true, Decide: func(d *Decision) error { got = append(got, *d); return nil },
				})
				if len(got) != len(c.Decisions) {
					t.Fatalf("%d decisions, want %d", len(got), len(c.Decisions))
				}
				wrong := 0
				for i := range c.Decisions {
					if got[i].Number != int64(i+1) {
						t.Fatalf("decision %d is of row %d", i, got[i].Number)
					}
					if d := c.Decisions[i].difference(&got[i], partial); d != "" {
						if wrong++; wrong <= 3 {
							t.Errorf("row %d: %s\n%s", i+1, d, c.Journal[i])
						}
					}
				}
				c.Decisions[0].Granted = !c.Decisions[0].Granted
				if c.Decisions[0].difference(&got[0], partial) == "" {
					t.Error("a wrong decision goes unnoticed")
				}
			})
		}
	}
}

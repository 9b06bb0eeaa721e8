package engine

import (
	"encoding/json"
	"math"
	"sort"
	"testing"
	"time"

	"github.com/tapyr/tapyr/validate"
)

// recorded feeds a journal as grants and settles, in order of time, and returns the windows and the last instant.
func recorded(t testing.TB, config *validate.Config, rows []*row) (reports []WindowReport, at int64) {
	t.Helper()
	keep := func(r *WindowReport) { reports = append(reports, *r) }
	e := New(config, Options{OnWindow: keep, KeepKeys: true})
	type event struct {
		at    int64
		grant bool
		row   *row
	}
	var events []event
	for _, r := range rows {
		events = append(events, event{r.at, true, r}, event{r.at + r.latency, false, r})
		at = max(at, r.at+r.latency)
	}
	sort.SliceStable(events, func(i, j int) bool {
		return events[i].at < events[j].at || events[i].at == events[j].at && !events[i].grant && events[j].grant
	})
	tickets := map[*row]Ticket{}
	for _, ev := range events {
		if ev.grant {
			ticket, _, err := e.ForceRequest(ev.at, ev.row.request(config), ev.row.Retry)
			if err != nil {
				t.Fatal(err)
			}
			tickets[ev.row] = ticket
			continue
		}
		if !e.Settle(ev.at, tickets[ev.row], ev.row.response()) || !e.Release(ev.at, tickets[ev.row]) {
			t.Fatal("a row cannot be settled")
		}
	}
	e.Windows(at, keep)
	return reports, at
}

type goldenWindow struct {
	Start, End                                      time.Time
	Max, Usable, Reserve, Used, External, Remaining int64
	Own15PerHour, OwnPerHour, ExternalPerHour       float64
	ProjectedEnd, ProjectedTotal                    float64
	ExhaustsAtEpoch                                 *float64
}

// The golden reports: every figure of every window.
func TestReplayVectors(t *testing.T) {
	for _, c := range goldenCases(t, "replay.json") {
		t.Run(c.Name, func(t *testing.T) {
			var want struct {
				At     time.Time
				Scopes []struct {
					Limit, Key string
					Windows    []goldenWindow
				}
			}
			if err := json.Unmarshal(c.Expect, &want); err != nil {
				t.Fatal(err)
			}
			config := c.config(t)
			reports, at := recorded(t, config, rowsOf(t, c.Journal))
			if at != want.At.UnixNano() {
				t.Fatalf("the last response is at %v, want %v", time.Unix(0, at).UTC(), want.At)
			}
			type id struct {
				limit, key string
				start      int64
			}
			byID := map[id]WindowReport{}
			for _, r := range reports {
				k := id{r.Limit, r.Key, r.StartNanos}
				if _, twice := byID[k]; twice {
					t.Errorf("%v is reported twice", k)
				}
				byID[k] = r
			}
			count := 0
			for _, s := range want.Scopes {
				for _, w := range s.Windows {
					count++
					got, there := byID[id{s.Limit, s.Key, w.Start.UnixNano()}]
					if !there {
						t.Errorf("%s %s: no window at %v", s.Limit, s.Key, w.Start)
						continue
					}
					w.compare(t, &got.Projection)
				}
			}
			if count != len(reports) {
				t.Errorf("%d windows, want %d", len(reports), count)
			}
		})
	}
}

func (w *goldenWindow) compare(t *testing.T, got *Projection) {
	t.Helper()
	same := func(what string, a, b float64) {
		t.Helper()
		if math.Abs(a-b) > 1e-9+1e-6*math.Abs(b) {
			t.Errorf("%s %s %v: %s is %v, want %v", got.Limit, got.Key, w.Start, what, a, b)
		}
	}
	same("end", float64(got.EndNanos), float64(w.End.UnixNano()))
	same("max", float64(got.Max), float64(w.Max))
	same("usable", float64(got.Usable), float64(w.Usable))
	same("reserve", float64(got.Reserve), float64(w.Reserve))
	same("used", float64(got.Used), float64(w.Used))
	same("external", float64(got.External), float64(w.External))
	same("remaining", float64(got.Remaining), float64(w.Remaining))
	same("own15", got.Recent*3600, w.Own15PerHour)
	same("own", got.Own*3600, w.OwnPerHour)
	same("externalRate", got.ExternalRate*3600, w.ExternalPerHour)
	same("projectedEnd", got.ProjectedEnd, w.ProjectedEnd)
	same("projectedTotal", got.ProjectedTotal, w.ProjectedTotal)
	if got.Exhausts != (w.ExhaustsAtEpoch != nil) {
		t.Errorf("%s %s %v: exhausts %v at %v, want %v", got.Limit, got.Key, w.Start, got.Exhausts, float64(got.ExhaustsAtNanos)/1e9, w.ExhaustsAtEpoch)
	} else if got.Exhausts && math.Abs(float64(got.ExhaustsAtNanos)/1e9-*w.ExhaustsAtEpoch) > 1 {
		t.Errorf("%s %s %v: exhausts at %v, want %v", got.Limit, got.Key, w.Start, float64(got.ExhaustsAtNanos)/1e9, *w.ExhaustsAtEpoch)
	}
}

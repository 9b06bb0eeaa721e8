package cli

import (
	"strconv"
	"time"

	"github.com/tapyr/tapyr/replay"
)

// replayCSV has one row for each window of each key; with --set those of both sides, told apart by the first column.
func replayCSV(report, base *replay.Report) *table {
	t := &table{}
	for _, title := range []string{
		"side", "provider", "limit", "key", "start", "end", "at", "max", "usable", "reserve", "used", "external", "remaining",
		"own15_per_hour", "own_per_hour", "external_per_hour", "projected_end", "projected_total", "exhausts_at",
		"rate_limited", "unexpected_rate_limited", "refused_circuit_open", "refused_penalized", "refused_quota_exhausted", "refused_deadline",
		"forecast_p10", "forecast_p50", "forecast_p90",
	} {
		t.columns = append(t.columns, column{title: title})
	}
	if base != nil {
		addReplayRows(t, "base", base)
	}
	addReplayRows(t, "head", report)
	return t
}

func addReplayRows(t *table, side string, report *replay.Report) {
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	for i := range report.Scopes {
		s := &report.Scopes[i]
		for j := range s.Windows {
			w := &s.Windows[j]
			row := []string{
				side, s.Provider, s.Limit, s.Key, exactText(w.Start), exactText(w.End), exactText(w.At), count(w.Max), count(w.Usable), count(w.Reserve),
				count(w.Used), count(w.External), count(w.Remaining), figure(w.RecentPerSecond * 3600), figure(w.OwnPerSecond * 3600),
				figure(w.ExternalPerSecond * 3600), figure(w.ProjectedEnd), figure(w.ProjectedTotal), instantText(w.ExhaustsAt),
				count(w.RateLimited), count(w.UnexpectedRateLimited), count(w.Refused["circuit_open"]), count(w.Refused["penalized"]),
				count(w.Refused["quota_exhausted"]), count(w.Refused["deadline"]), "", "", "",
			}
			if f := s.Forecast; f != nil && j == len(s.Windows)-1 {
				row[25], row[26], row[27] = figure(f.P10), figure(f.P50), figure(f.P90)
			}
			t.rows = append(t.rows, plain(row...))
		}
	}
}

func exactText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

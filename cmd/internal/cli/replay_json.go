package cli

import (
	"time"

	"github.com/tapyr/tapyr/replay"
)

// The JSON form of a replay. Its keys are a contract: other programs read them.

type replayJSON struct {
	From            *time.Time               `json:"from"`
	To              *time.Time               `json:"to"`
	At              time.Time                `json:"at"`
	Enforced        bool                     `json:"enforced"`
	Rows            int64                    `json:"rows"`
	Duplicates      int64                    `json:"duplicates"`
	BadRows         int64                    `json:"badRows"`
	Bad             []replayBadJSON          `json:"bad"`
	OutsideInterval int64                    `json:"outsideInterval"`
	OtherHosts      int64                    `json:"otherHosts"`
	AfterAt         int64                    `json:"afterAt"`
	Unresolved      int64                    `json:"unresolved"`
	Scopes          []replayScopeJSON        `json:"scopes"`
	Jobs            []replayJobJSON          `json:"jobs"`
	Disagreements   []replayDisagreementJSON `json:"disagreements"`
	Unknown         []replayUnknownJSON      `json:"unknown"`
	MoreUnknown     int64                    `json:"moreUnknown"`
	Warnings        []string                 `json:"warnings"`
	Explanation     *explanationJSON         `json:"explanation,omitempty"`
	// Base is the report for the documents without --set.
	Base *replayJSON `json:"base,omitempty"`
}

type replayBadJSON struct {
	File    string `json:"file"`
	Line    int64  `json:"line"`
	Row     int64  `json:"row"`
	Message string `json:"message"`
}

type replayScopeJSON struct {
	Provider string              `json:"provider"`
	Limit    string              `json:"limit"`
	Key      string              `json:"key"`
	Windows  []replayWindowJSON  `json:"windows"`
	Forecast *replayForecastJSON `json:"forecast"`
	Backtest *replayBacktestJSON `json:"backtest,omitempty"`
}

type replayWindowJSON struct {
	Start                 time.Time        `json:"start"`
	End                   time.Time        `json:"end"`
	Max                   int64            `json:"max"`
	Usable                int64            `json:"usable"`
	Reserve               int64            `json:"reserve"`
	Used                  int64            `json:"used"`
	External              int64            `json:"external"`
	Remaining             int64            `json:"remaining"`
	Own15PerHour          float64          `json:"own15PerHour"`
	OwnPerHour            float64          `json:"ownPerHour"`
	ExternalPerHour       float64          `json:"externalPerHour"`
	ProjectedEnd          float64          `json:"projectedEnd"`
	ProjectedTotal        float64          `json:"projectedTotal"`
	ExhaustsAt            *time.Time       `json:"exhaustsAt"`
	RateLimited           int64            `json:"rateLimited"`
	UnexpectedRateLimited int64            `json:"unexpectedRateLimited"`
	Refused               map[string]int64 `json:"refused"`
}

type replayForecastJSON struct {
	P10         float64 `json:"p10"`
	P50         float64 `json:"p50"`
	P90         float64 `json:"p90"`
	OverUsable  float64 `json:"overUsable"`
	HistoryDays int     `json:"historyDays"`
}

type replayBacktestJSON struct {
	Forecasts          int     `json:"forecasts"`
	Inside             int     `json:"inside"`
	Below              int     `json:"below"`
	Above              int     `json:"above"`
	Coverage           float64 `json:"coverage"`
	MedianErrorPercent float64 `json:"medianErrorPercent"`
}

type replayJobJSON struct {
	Job               string  `json:"job"`
	Account           string  `json:"account"`
	Requests          int64   `json:"requests"`
	Retries           int64   `json:"retries"`
	RetryRatio        float64 `json:"retryRatio"`
	PagesPerRun       float64 `json:"pagesPerRun"`
	RateLimited       int64   `json:"rateLimited"`
	Refused           int64   `json:"refused"`
	LatencyP50Seconds float64 `json:"latencyP50Seconds"`
	LatencyP95Seconds float64 `json:"latencyP95Seconds"`
}

type replayDisagreementJSON struct {
	Kind     string               `json:"kind"`
	Provider string               `json:"provider"`
	Limit    string               `json:"limit"`
	Keys     int64                `json:"keys"`
	Count    int64                `json:"count"`
	Declared *int64               `json:"declared"`
	Named    *int64               `json:"named"`
	Header   string               `json:"header,omitempty"`
	Text     string               `json:"text,omitempty"`
	Message  string               `json:"message"`
	File     string               `json:"file"`
	Line     int                  `json:"line"`
	Evidence []replayEvidenceJSON `json:"evidence"`
}

type replayEvidenceJSON struct {
	File   string    `json:"file"`
	Line   int64     `json:"line"`
	Row    int64     `json:"row"`
	At     time.Time `json:"at"`
	Key    string    `json:"key"`
	Status int       `json:"status"`
}

type replayUnknownJSON struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	Rows int64  `json:"rows"`
}

func replayJSONOf(r *replay.Report, files []string) replayJSON {
	out := replayJSON{
		From: utcOrNil(r.From), To: utcOrNil(r.To), At: r.At.UTC(), Enforced: r.Enforced, Rows: r.Rows, Duplicates: r.Journal.Duplicates,
		BadRows: r.Journal.BadRows, OutsideInterval: r.Journal.OutsideInterval, OtherHosts: r.Journal.OtherHosts, AfterAt: r.AfterAt,
		Unresolved: r.Unresolved, MoreUnknown: r.MoreUnknown, Warnings: r.Journal.Warnings,
	}
	for _, bad := range r.Journal.Bad {
		out.Bad = append(out.Bad, replayBadJSON{bad.File, bad.Line, bad.Record, bad.Err.Error()})
	}
	for i := range r.Scopes {
		out.Scopes = append(out.Scopes, replayScopeJSONOf(&r.Scopes[i]))
	}
	for i := range r.Jobs {
		j := &r.Jobs[i]
		out.Jobs = append(out.Jobs, replayJobJSON{
			j.Job, j.Account, j.Requests, j.Retries, rounded(j.RetryRatio), j.PagesPerRun, j.RateLimited, j.Refused,
			rounded(j.LatencyP50Seconds), rounded(j.LatencyP95Seconds),
		})
	}
	for i := range r.Disagreements {
		out.Disagreements = append(out.Disagreements, disagreementJSONOf(&r.Disagreements[i], files))
	}
	for _, u := range r.Unknown {
		out.Unknown = append(out.Unknown, replayUnknownJSON(u))
	}
	if r.Explanation != nil {
		out.Explanation = explanationJSONOf(r.Explanation, files)
	}
	return out
}

func replayScopeJSONOf(s *replay.Scope) replayScopeJSON {
	out := replayScopeJSON{Provider: s.Provider, Limit: s.Limit, Key: s.Key}
	for i := range s.Windows {
		w := &s.Windows[i]
		refused := map[string]int64{"circuit_open": 0, "penalized": 0, "quota_exhausted": 0, "deadline": 0}
		for reason, n := range w.Refused {
			refused[reason] = n
		}
		out.Windows = append(out.Windows, replayWindowJSON{
			Start: w.Start.UTC(), End: w.End.UTC(), Max: w.Max, Usable: w.Usable, Reserve: w.Reserve, Used: w.Used, External: w.External,
			Remaining: w.Remaining, Own15PerHour: rounded(w.RecentPerSecond * 3600), OwnPerHour: rounded(w.OwnPerSecond * 3600),
			ExternalPerHour: rounded(w.ExternalPerSecond * 3600), ProjectedEnd: rounded(w.ProjectedEnd), ProjectedTotal: rounded(w.ProjectedTotal),
			ExhaustsAt: instantOrNil(w.ExhaustsAt), RateLimited: w.RateLimited, UnexpectedRateLimited: w.UnexpectedRateLimited, Refused: refused,
		})
	}
	if f := s.Forecast; f != nil {
		out.Forecast = &replayForecastJSON{rounded(f.P10), rounded(f.P50), rounded(f.P90), rounded(f.OverUsable), f.HistoryDays}
	}
	if b := s.Backtest; b != nil {
		out.Backtest = &replayBacktestJSON{b.Forecasts, b.Inside, b.Below, b.Above, rounded(b.Coverage()), rounded(b.MedianErrorPercent)}
	}
	return out
}

func disagreementJSONOf(d *replay.Disagreement, files []string) replayDisagreementJSON {
	out := replayDisagreementJSON{
		Kind: d.Kind, Provider: d.Provider, Limit: d.Limit, Keys: d.Keys, Count: d.Count, Header: d.Header, Text: d.Text,
		Message: d.Message, File: d.Place.File, Line: d.Place.Line,
	}
	if d.Kind == replay.KindMax {
		out.Declared, out.Named = &d.Declared, &d.Named
	}
	for _, e := range d.Evidence {
		out.Evidence = append(out.Evidence, replayEvidenceJSON{fileName(files, e.File), e.Line, e.Number, e.At.UTC(), e.Key, e.Status})
	}
	return out
}

func fileName(files []string, i int) string {
	if i < 0 || i >= len(files) {
		return ""
	}
	return files[i]
}

// utcOrNil is the instant in UTC, or nil for the zero time.
func utcOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

type explanationJSON struct {
	File            string               `json:"file"`
	Row             int64                `json:"row"`
	Line            int64                `json:"line"`
	TS              time.Time            `json:"ts"`
	Job             string               `json:"job"`
	Method          string               `json:"method"`
	Endpoint        string               `json:"endpoint"`
	Priority        string               `json:"priority"`
	Retry           bool                 `json:"retry"`
	PatienceSeconds float64              `json:"patienceSeconds"`
	Limits          []explainedLimitJSON `json:"limits"`
	Ahead           []aheadJSON          `json:"ahead"`
	Outcome         string               `json:"outcome"`
}

type explainedLimitJSON struct {
	Limit   string `json:"limit"`
	Kind    string `json:"kind"`
	Applies bool   `json:"applies"`
	Key     string `json:"key"`
	Cost    int64  `json:"cost"`
	Why     string `json:"why"`
	State   string `json:"state"`
	Lacks   bool   `json:"lacks"`
}

type aheadJSON struct {
	File     string    `json:"file"`
	Row      int64     `json:"row"`
	Since    time.Time `json:"since"`
	Job      string    `json:"job"`
	Priority string    `json:"priority"`
	Limit    string    `json:"limit"`
	Key      string    `json:"key"`
}

func explanationJSONOf(x *replay.Explanation, files []string) *explanationJSON {
	out := &explanationJSON{
		File: fileName(files, x.File), Row: x.Number, Line: x.Line, TS: x.TS.UTC(), Job: x.Job, Method: x.Method, Endpoint: x.Endpoint,
		Priority: x.Priority, Retry: x.Retry, PatienceSeconds: x.Patience.Seconds(), Outcome: x.Outcome,
	}
	for _, l := range x.Limits {
		out.Limits = append(out.Limits, explainedLimitJSON(l))
	}
	for _, a := range x.Ahead {
		out.Ahead = append(out.Ahead, aheadJSON{fileName(files, a.File), a.Number, a.Since.UTC(), a.Job, a.Priority, a.Limit, a.Key})
	}
	return out
}

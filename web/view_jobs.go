package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/daemon"
)

// maxQuietJobs is from how many jobs on those that are well are folded away.
const maxQuietJobs = 20

// jobProblem is how bad a job's state is, and why; good and "on time" where it is as it should be.
func jobProblem(j *daemon.JobState) (level, string) {
	switch {
	case !j.Kept:
		return none, "nobody keeps what it finds, so it makes no call"
	case j.Paused:
		return warn, "paused by an operator"
	case j.Error != "" && !j.Fresh:
		return bad, "stale and failing: " + j.Error
	case j.LastSuccessAt == nil && j.LastRun == nil:
		return none, "has not run yet"
	case !j.Fresh:
		return bad, "stale: " + lastSuccess(j)
	case j.Error != "":
		return warn, "failing: " + j.Error
	case j.SeriesCut > 0:
		return warn, units(j.SeriesCut) + " series did not fit into maxSeries"
	}
	return good, "on time"
}

func lastSuccess(j *daemon.JobState) string {
	if j.AgeSeconds == nil {
		return "no good run yet"
	}
	return "the last good run ended " + duration(*j.AgeSeconds) + " ago"
}

// jobWord is a job's state as a badge.
func jobWord(j *daemon.JobState) (level, string) {
	l, _ := jobProblem(j)
	switch {
	case !j.Kept:
		return l, "not kept"
	case j.Paused:
		return l, "paused"
	case l == none:
		return l, "not run yet"
	case !j.Fresh:
		return l, "stale"
	case j.Error != "":
		return l, "failing"
	case j.SeriesCut > 0:
		return l, "series cut"
	case j.Stretch > 1.005:
		return none, "stretched"
	}
	return l, "on time"
}

// addJobs lists jobs, the worst first; where there are many, those that are well apart.
func (v *pageView) addJobs(s *daemon.Snapshot, query string) {
	titles := columns("Job", "State", "Interval", "Instances#", "Last run", "Last success", "Next", "Requests#", "Series#")
	v.Jobs = table{ID: "jobs-table", Caption: "Jobs, the worst first", Columns: titles, Empty: "No job is declared."}
	v.QuietJobs = table{ID: "quiet-jobs-table", Caption: "Jobs on time", Columns: titles}
	if query != "" {
		v.Jobs.Empty = "No job matches the filter."
	}
	var jobs []*daemon.JobState
	for i := range s.Jobs {
		if j := &s.Jobs[i]; contains(query, j.Job, j.Account, j.Provider) {
			jobs = append(jobs, j)
		}
	}
	slices.SortStableFunc(jobs, func(a, b *daemon.JobState) int {
		la, _ := jobProblem(a)
		lb, _ := jobProblem(b)
		return cmp.Compare(la.rank(), lb.rank())
	})
	for _, j := range jobs {
		rows := &v.Jobs.Rows
		if l, _ := jobProblem(j); l == good && len(jobs) > maxQuietJobs {
			rows = &v.QuietJobs.Rows
		}
		*rows = append(*rows, jobRow(j, s))
	}
	if len(v.Jobs.Rows) == 0 && len(v.QuietJobs.Rows) > 0 {
		v.Jobs.Empty = "Every job is on time."
	}
}

func jobRow(j *daemon.JobState, s *daemon.Snapshot) []cell {
	l, word := jobWord(j)
	_, why := jobProblem(j)
	state := cell{Text: word, Badge: l}
	if l != good && why != word {
		state.Note, state.NoteBad = why, l == bad
	}
	name := cell{Text: j.Job, Note: strings.TrimPrefix(fmt.Sprintf("%s, %s", j.Account, j.Priority), ", ")}
	if j.ForEach != "" {
		name.Note += ", for each of " + j.ForEach
	}
	interval := cell{Text: "–", Note: "wants " + duration(j.DesiredSeconds)}
	if j.IntervalSeconds > 0 {
		interval = text(duration(j.IntervalSeconds))
		if j.Stretch > 1.005 {
			interval.Note = fmt.Sprintf("wants %s, ×%s", duration(j.DesiredSeconds), figure(hundredth(j.Stretch)))
			if j.LimitedBy != "" {
				interval.Note += " by " + j.LimitedBy
			}
		}
	}
	instances := text(units(int64(j.Instances)))
	if j.Running > 0 {
		instances.Note = units(int64(j.Running)) + " running"
	}
	requests := text(units(j.Requests))
	if j.Retries > 0 {
		requests.Note = units(j.Retries) + " retries"
	}
	series := text(units(int64(j.Series)))
	if j.Lines > 0 {
		series.Note = units(j.Lines) + " lines"
	}
	next := instant(in(j.NextRunAt, s.At))
	if j.Paused {
		next = text("paused")
	}
	return []cell{name, state, interval, instances, lastRun(j, s), instant(ago(j.LastSuccessAt, s.At)), next, requests, series}
}

// hundredth keeps two decimals.
func hundredth(f float64) float64 { return math.Round(f*100) / 100 }

func lastRun(j *daemon.JobState, s *daemon.Snapshot) cell {
	if j.LastRun == nil {
		return text("none")
	}
	r := j.LastRun
	ended := r.StartedAt.Add(secondsToDuration(r.DurationSeconds))
	c := instant(ago(&ended, s.At))
	c.Text = r.Status + ", " + c.Text
	c.Note = fmt.Sprintf("took %s, %s, %s", duration(r.DurationSeconds), counted(int(r.Requests), "request", "requests"), counted(int(r.Items), "item", "items"))
	if r.Error != "" {
		c.Note, c.NoteBad = r.Error, true
	}
	return c
}

func (v *pageView) addAccounts(s *daemon.Snapshot) {
	v.Accounts = table{
		ID: "accounts-table", Caption: "Accounts, the worst first", Empty: "No account is declared.",
		Columns: columns("Account", "Health", "Requests#", "Good#", "Refused#", "Failed#", "Last success"),
	}
	accounts := slices.Clone(s.Accounts)
	slices.SortStableFunc(accounts, func(a, b daemon.AccountHealth) int {
		return cmp.Compare(healthLevel(a.Health).rank(), healthLevel(b.Health).rank())
	})
	for _, a := range accounts {
		health := cell{Text: string(a.Health), Badge: healthLevel(a.Health), Note: strings.Join(a.Reasons, "; "), NoteBad: a.Health == daemon.HealthFailing}
		v.Accounts.Rows = append(v.Accounts.Rows, []cell{
			{Text: a.Account, Note: a.Provider},
			health, text(units(a.Requests)), text(units(a.Succeeded)), text(units(a.RateLimited)),
			text(units(a.Failed)), instant(ago(a.LastSuccessAt, s.At)),
		})
	}
}

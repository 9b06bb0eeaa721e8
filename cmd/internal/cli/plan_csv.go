package cli

import (
	"strconv"

	"github.com/tapyr/tapyr/plan"
)

// planCSV has one row for each job on each scope, with the figures of both: a spreadsheet pivots it as it likes. A job without
// scopes has one row.
func planCSV(p *plan.Plan) *table {
	t := &table{}
	for _, title := range []string{
		"job", "account", "provider", "priority", "desired_seconds", "effective_seconds", "stretch", "instances", "calls_per_run",
		"limited_by_limit", "limited_by_key", "limited_by_reason",
		"limit", "key", "keys", "kind", "calls_per_window", "budget", "demand", "projected", "exhausts_at", "scope_feasible",
	} {
		t.columns = append(t.columns, column{title: title})
	}
	scopes := make(map[[3]string]*plan.Scope)
	for i := range p.Scopes {
		s := &p.Scopes[i]
		scopes[[3]string{s.Provider, s.Limit, s.Key}] = s
	}
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if len(j.Scopes) == 0 {
			t.rows = append(t.rows, plain(append(planJobFields(j), make([]string, 10)...)...))
		}
		for _, use := range j.Scopes {
			fields := append(planJobFields(j), use.Limit, use.Key)
			if s := scopes[[3]string{j.Provider, use.Limit, use.Key}]; s != nil {
				fields = append(fields, strconv.FormatInt(s.Keys, 10), s.Kind, figure(use.CallsPerWindow), figure(s.Budget), figure(s.Demand), figure(s.Projected), instantText(s.ExhaustsAt), strconv.FormatBool(s.Feasible))
			} else {
				fields = append(fields, "", "concurrency", figure(use.CallsPerWindow), "", "", "", "", "")
			}
			t.rows = append(t.rows, plain(fields...))
		}
	}
	return t
}

func planJobFields(j *plan.Job) []string {
	limit, key, reason := "", "", ""
	if l := j.LimitedBy; l != nil {
		limit, key, reason = l.Limit, l.Key, l.Reason
	}
	return []string{
		j.Job, j.Account, j.Provider, j.Priority, figure(j.DesiredSeconds), figure(j.EffectiveSeconds), figure(j.Stretch),
		strconv.FormatInt(j.Instances, 10), figure(j.CallsPerRun), limit, key, reason,
	}
}

// figure writes a number for machines.
func figure(f float64) string { return strconv.FormatFloat(rounded(f), 'f', -1, 64) }

package plan

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// constants are the variables of a job that are the same in all of its instances: its account's, and those that its endpoint names
// itself (learn), as /organizations/549236/devices does.
func (r *rows) constants(j *validate.Job) map[string]string {
	own := j.Account.Spec.Vars
	if r.book == nil || j.Endpoint == nil {
		return own
	}
	var all map[string]string
	for i := range j.Account.Provider.Spec.Learn {
		name := j.Account.Provider.Spec.Learn[i].Var
		if _, given := j.Vars()[name]; given {
			continue
		}
		if value := r.book.FromPath(name, j.Endpoint.Path); value != "" {
			if all == nil {
				all = make(map[string]string, len(own)+1)
				maps.Copy(all, own)
			}
			all[name] = value
		}
	}
	if all == nil {
		return own
	}
	return all
}

// warnLearned says that a job would be under a limit if a variable were known that is only learned at run time. Nobody knows yet how
// many values it has, or how the job's instances are spread over them.
func (r *rows) warnLearned(load *jobLoad, limit *validate.Limit, request *match.Request) {
	if r.book == nil {
		return
	}
	with := *request
	with.Vars = maps.Clone(request.Vars)
	for i := range limit.Provider.Spec.Learn {
		name := limit.Provider.Spec.Learn[i].Var
		if _, known := with.Vars[name]; !known && namesKey(&limit.Provider.Spec.Learn[i], load.job.Endpoint) {
			with.Vars[name] = "*"
		}
	}
	if len(with.Vars) == len(request.Vars) || !limit.Match(&with).Applies {
		return
	}
	var names []string
	for i := range limit.Provider.Spec.Learn {
		if name := limit.Provider.Spec.Learn[i].Var; request.Vars[name] != with.Vars[name] {
			names = append(names, name)
		}
	}
	r.p.warnings = append(r.p.warnings, Warning{
		Code: "learned-scope", Job: load.job.Name, Provider: limit.Provider.Name, Limit: limit.Spec.Name,
		Message: fmt.Sprintf("%s of job %q is only learned at run time, so this plan does not count the job under limit %q; let it run over an inventory that has %s to plan with it",
			strings.Join(names, ", "), load.job.Name, limit.Spec.Name, strings.Join(names, ", ")),
	})
}

// namesKey tells whether paths of an endpoint can name an identifier that stands for the variable. What the identifiers look like is
// not known here, so the text before them decides.
func namesKey(l *schema.Learn, endpoint *match.Template) bool {
	vars := make(map[string]string, len(endpoint.Vars))
	for _, name := range endpoint.Vars {
		vars[name] = "x"
	}
	path, _ := endpoint.Expand(vars)
	for _, key := range l.Keys {
		re, err := regexp.Compile(key.URL)
		if err != nil {
			continue // a valid configuration's patterns compile
		}
		before, _, _ := strings.Cut(strings.TrimPrefix(key.URL, "^"), "(")
		plain := before != "" && before == regexp.QuoteMeta(before)
		if plain && strings.Contains(path, before) || re.MatchString(path) {
			return true
		}
	}
	return false
}

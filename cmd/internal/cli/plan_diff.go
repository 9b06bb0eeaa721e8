package cli

import (
	"bytes"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// gitPrefix begins a base that is a revision of the same paths.
const gitPrefix = "git:"

// runPlanDiff compares the plan of the documents with that of a base.
func runPlanDiff(call *Call, in plan.Input) error {
	base, err := call.loadBase(call.String("base"))
	if err != nil {
		return err
	}
	before := in
	before.Config = base
	d := plan.Compare(plan.Make(before), plan.Make(in))
	if err := writePlanDiff(call, d); err != nil {
		return err
	}
	if d.Bad() {
		return &BadNewsError{Summary: "the plan is worse than the base, and infeasible or short of a promise"}
	}
	return nil
}

func writePlanDiff(call *Call, d *plan.Diff) error {
	switch call.Format() {
	case "json":
		return call.Out.JSON(diffJSONOf(d))
	case "markdown":
		return diffReportOf(d, call.Zone()).writeMarkdown(call.Out)
	case "table":
		return diffReportOf(d, call.Zone()).writeText(call.Out)
	}
	return call.Usagef("--base writes table, json or markdown, not %s", call.Format())
}

// loadBase reads the documents of a base.
func (c *Call) loadBase(base string) (*validate.Config, error) {
	rev, isGit := strings.CutPrefix(base, gitPrefix)
	var read *documents
	var err error
	if isGit {
		read, err = c.readRevision(rev)
	} else {
		read, err = readPaths(c.Ctx(), c.Env.Stdin, []string{base})
	}
	if err != nil {
		return nil, err
	}
	return c.checkDocuments(read)
}

// readRevision reads the documents of the same paths as they were at a revision of git.
func (c *Call) readRevision(rev string) (*documents, error) {
	paths, err := c.ConfigPaths()
	if err != nil {
		return nil, err
	}
	list, err := c.git(append([]string{"ls-tree", "-r", "-z", "--name-only", "--end-of-options", rev, "--"}, paths...)...)
	if err != nil {
		return nil, err
	}
	read := &documents{sources: map[string][]byte{}}
	for name := range strings.SplitSeq(string(list), "\x00") {
		if !isDocumentName(name) {
			continue
		}
		source, err := c.git("show", "--end-of-options", rev+":./"+name)
		if err != nil {
			return nil, err
		}
		docs, problems := schema.Decode(name, source)
		read.files, read.docs, read.problems = append(read.files, name), append(read.docs, docs...), append(read.problems, problems...)
		read.sources[name] = source
	}
	if len(read.files) == 0 {
		return nil, fmt.Errorf("no documents: %s holds no *.yaml or *.yml file at git revision %s", strings.Join(paths, ", "), rev)
	}
	named := make(map[string]bool)
	for _, path := range paths {
		named[filepath.ToSlash(filepath.Clean(path))] = true
	}
	return read, read.leaveOutForeign(named, strings.Join(paths, ", ")+" at git revision "+rev)
}

func (c *Call) git(args ...string) ([]byte, error) {
	command := exec.CommandContext(c.Ctx(), "git", args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		reason := strings.TrimSpace(stderr.String())
		if reason == "" {
			reason = err.Error()
		}
		return nil, fmt.Errorf("git %s: %s", args[0], reason)
	}
	return out, nil
}

// The JSON form of a diff; a side that does not have a job or scope is null.

type diffJSON struct {
	Worse           bool            `json:"worse"`
	Holds           bool            `json:"holds"`
	FirstExhaustion diffTimesJSON   `json:"firstExhaustion"`
	Jobs            []diffJobJSON   `json:"jobs"`
	Scopes          []diffScopeJSON `json:"scopes"`
}

type diffTimesJSON struct {
	Base *time.Time `json:"base"`
	Head *time.Time `json:"head"`
}

type diffPairJSON struct {
	Base *float64 `json:"base"`
	Head *float64 `json:"head"`
}

type diffJobJSON struct {
	Job              string       `json:"job"`
	EffectiveSeconds diffPairJSON `json:"effectiveSeconds"`
	Stretch          diffPairJSON `json:"stretch"`
}

type diffScopeJSON struct {
	Provider    string        `json:"provider"`
	Limit       string        `json:"limit"`
	Key         string        `json:"key"`
	UnitsPerDay diffPairJSON  `json:"unitsPerDay"`
	Headroom    diffPairJSON  `json:"headroom"`
	ExhaustsAt  diffTimesJSON `json:"exhaustsAt"`
}

func pairOf(base, head float64) diffPairJSON {
	return diffPairJSON{numberOrNil(base), numberOrNil(head)}
}

func numberOrNil(f float64) *float64 {
	if math.IsNaN(f) {
		return nil
	}
	f = rounded(f)
	return &f
}

func diffJSONOf(d *plan.Diff) diffJSON {
	out := diffJSON{Worse: d.Worse, Holds: d.Holds, FirstExhaustion: diffTimesJSON{instantOrNil(d.FirstExhaustionBase), instantOrNil(d.FirstExhaustionHead)}}
	for _, j := range d.Jobs {
		out.Jobs = append(out.Jobs, diffJobJSON{j.Job, pairOf(j.BaseEffectiveSeconds, j.HeadEffectiveSeconds), pairOf(j.BaseStretch, j.HeadStretch)})
	}
	for _, s := range d.Scopes {
		out.Scopes = append(out.Scopes, diffScopeJSON{
			s.Provider, s.Limit, s.Key, pairOf(s.BaseUnitsPerDay, s.HeadUnitsPerDay), pairOf(s.BaseHeadroom, s.HeadHeadroom),
			diffTimesJSON{instantOrNil(s.BaseExhaustsAt), instantOrNil(s.HeadExhaustsAt)},
		})
	}
	return out
}

// diffReportOf writes down a diff for people. Rows that do not change are left out.
func diffReportOf(d *plan.Diff, zone *time.Location) *reportView {
	r := &reportView{headline: diffHeadline(d)}
	jobs := &table{columns: []column{
		{title: "Job", fit: fitCut}, {title: "Interval before", right: true}, {title: "after", right: true}, {title: "Stretch before", right: true}, {title: "after", right: true},
	}}
	for _, j := range d.Jobs {
		if j.BaseEffectiveSeconds != j.HeadEffectiveSeconds || j.BaseStretch != j.HeadStretch {
			jobs.rows = append(jobs.rows, plain(j.Job, orNone(j.BaseEffectiveSeconds, spanText), orNone(j.HeadEffectiveSeconds, spanText), orNone(j.BaseStretch, twoDigits), orNone(j.HeadStretch, twoDigits)))
		}
	}
	scopes := &table{columns: []column{
		{title: "Limit", fit: fitCut}, {title: "Key", fit: fitCut}, {title: "Units a day before", right: true}, {title: "after", right: true}, {title: "Free before", right: true}, {title: "after", right: true},
	}}
	for _, s := range d.Scopes {
		if s.BaseUnitsPerDay != s.HeadUnitsPerDay || s.BaseHeadroom != s.HeadHeadroom {
			scopes.rows = append(scopes.rows, plain(s.Limit, plaintext.Key(s.Key), orNone(s.BaseUnitsPerDay, grouped), orNone(s.HeadUnitsPerDay, grouped), orNone(s.BaseHeadroom, percentOf), orNone(s.HeadHeadroom, percentOf)))
		}
	}
	if len(jobs.rows) > 0 {
		r.sections = append(r.sections, section{title: "Jobs that change", table: jobs})
	}
	if len(scopes.rows) > 0 {
		r.sections = append(r.sections, section{title: "Budgets that change", table: scopes})
	}
	if !d.FirstExhaustionBase.Equal(d.FirstExhaustionHead) {
		r.sections = append(r.sections, section{title: "At the desired intervals, the first quota is gone", lines: []cell{
			{"before: " + momentText(d.FirstExhaustionBase, zone), stylePlain}, {"after: " + momentText(d.FirstExhaustionHead, zone), stylePlain},
		}})
	}
	return r
}

func diffHeadline(d *plan.Diff) cell {
	switch {
	case !d.Changed():
		return cell{"The plan is the same.", styleGood}
	case d.Bad():
		return cell{"The plan is worse than the base, and infeasible or short of a promise.", styleBad}
	case d.Holds && !d.BaseHolds && d.Worse:
		return cell{"The plan fits again, where the base was infeasible or short of a promise; some of it runs less often for that.", styleGood}
	case d.Holds && !d.BaseHolds:
		return cell{"The plan fits again, where the base was infeasible or short of a promise, and nothing is worse.", styleGood}
	case d.Worse:
		return cell{"The plan is feasible, but some of it is worse than the base.", styleWarn}
	case !d.Holds:
		return cell{"The plan is infeasible or short of a promise, as the base was; nothing is worse.", styleWarn}
	}
	return cell{"The plan is feasible, and nothing is worse than the base.", styleGood}
}

// orNone writes a figure, or a dash for a side that does not have it.
func orNone(f float64, write func(float64) string) string {
	if math.IsNaN(f) {
		return "–"
	}
	return write(f)
}

func twoDigits(f float64) string { return fmt.Sprintf("%.2f", f) }

func percentOf(f float64) string { return fmt.Sprintf("%.1f%%", 100*f) }

func momentText(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "never"
	}
	return t.In(zone).Format("Mon 2006-01-02 15:04 MST")
}

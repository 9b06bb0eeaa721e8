package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// newValidateCommand is "tapyr validate".
func newValidateCommand() *Command {
	return &Command{
		Name:      "validate",
		Usage:     "say what is wrong with documents, where, and what would be right",
		ArgsUsage: "[PATH...]",
		ArgsMax:   -1,
		Description: "Checks every document by itself and against the others, then plans: an infeasible plan or a broken promise is an " +
			"error where it is declared, a stretched job and whatever else tapyr plan remarks is a notice. Folders are read with all *.yaml and *.yml below them, but not what begins with a dot; - is " +
			"standard input.\n\n" +
			"The status is 1 if there is an error, or with --strict a warning. Formats: text for people, json for scripts, sarif for " +
			"code scanning, github for annotations in a workflow.\n\n" +
			"--rules lists the rules, --rules NAME... shows their pages, --rules all the whole book.",
		Examples: []Example{
			{Comment: "a folder of documents", Line: "tapyr validate examples/meraki"},
			{Comment: "in a pull request, warnings being errors", Line: "tapyr validate examples/meraki --format github --strict"},
			{Comment: "for a fleet of a known size", Line: "tapyr validate examples/meraki --fanout meraki-organizations=3"},
			{Comment: "what a rule is about", Line: "tapyr validate --rules default-burst"},
		},
		Flags: []cli.Flag{
			formatFlag("text", "json", "sarif", "github"),
			&cli.BoolFlag{Name: "strict", Usage: "let warnings fail, too"},
			&cli.BoolFlag{Name: "rules", Usage: "list the rules, or show the pages of those named"},
			fanoutFlag(), onlyFlag(), atFlag(), outputFlag(),
		},
		Run: runValidate,
	}
}

// findings are the answer of "tapyr validate".
type findings struct {
	problems []schema.Problem
	sources  map[string][]byte
	// files and documents are how many were read.
	files, documents int
}

// count is the number of problems of a severity.
func (r *findings) count(severity schema.Severity) int {
	n := 0
	for i := range r.problems {
		if r.problems[i].Severity == severity {
			n++
		}
	}
	return n
}

func runValidate(call *Call) error {
	if call.Bool("rules") {
		return writeRules(call.Out, call.Args().Slice())
	}
	read, err := call.readDocuments()
	if err != nil {
		return err
	}
	config, problems := read.check()
	if config != nil {
		planned, err := call.planProblems(config)
		if err != nil {
			return err
		}
		problems = validate.Sort(append(problems, planned...))
	} else if err := call.fanoutForm(); err != nil {
		return err
	}
	if problems, err = call.onlyProblems(read, config, problems); err != nil {
		return err
	}
	r := &findings{problems: problems, sources: read.sources, files: len(read.files), documents: len(read.docs)}
	if err := r.write(call.Out, call.Format()); err != nil {
		return err
	}
	if r.count(schema.SeverityError) > 0 || call.Bool("strict") && r.count(schema.SeverityWarning) > 0 {
		return &BadNewsError{}
	}
	return nil
}

func (r *findings) write(out *Output, format string) error {
	switch format {
	case "json":
		return r.writeJSON(out)
	case "sarif":
		return r.writeSARIF(out)
	case "github":
		return r.writeGitHub(out)
	}
	return r.writeText(out)
}

// writeText shows the findings and a line that sums them up.
func (r *findings) writeText(out *Output) error {
	view := findingsView{sources: r.sources, columns: out.Columns(), paint: func(s style, text string) string { return string(out.paint(s, text)) }}
	if err := view.write(out, r.problems); err != nil {
		return err
	}
	out.Printf("%s, %s: %s, %s, %s\n", counted(r.files, "file"), counted(r.documents, "document"), counted(r.count(schema.SeverityError), "error"),
		counted(r.count(schema.SeverityWarning), "warning"), counted(r.count(schema.SeverityNotice), "notice"))
	return nil
}

// mostPlanPairs is how many pairs of a job and a limit are planned for in
// passing: a few seconds' worth, and a hundred times the largest real fleet.
const mostPlanPairs = 5_000_000

// planProblems plans valid documents and says where the plan does not hold.
func (c *Call) planProblems(config *validate.Config) ([]schema.Problem, error) {
	sizes, err := c.fanout(config)
	if err != nil {
		return nil, err
	}
	pairs := 0
	for _, provider := range config.Providers {
		pairs += len(provider.Jobs) * len(provider.Limits)
	}
	if pairs > mostPlanPairs {
		c.Note("tapyr: no plan was made, since there are %d pairs of a job and a limit; tapyr plan makes one all the same", pairs)
		return nil, nil
	}
	p := plan.Make(plan.Input{Config: config, At: c.Now(), Fanout: sizes})
	f := planFindings{config: config}
	for i := range p.Scopes {
		if s := &p.Scopes[i]; !s.Feasible {
			f.infeasible(s)
		}
	}
	for i := range p.Assertions {
		if a := &p.Assertions[i]; !a.OK {
			f.promise(a)
		}
	}
	for i := range p.Jobs {
		if j := &p.Jobs[i]; j.Stretch > 1 {
			f.stretch(j)
		}
	}
	for i := range p.Warnings {
		f.warning(&p.Warnings[i])
	}
	return f.problems, nil
}

// planFindings puts what a plan says to where it is declared.
type planFindings struct {
	config   *validate.Config
	problems []schema.Problem
}

func (f *planFindings) add(doc *schema.Document, severity schema.Severity, rule, path, format string, args ...any) {
	f.problems = append(f.problems, doc.Problem(severity, rule, path, fmt.Sprintf(format, args...)))
}

// warning repeats what a plan remarks, under the rule of the same name, once for each place however many keys it is true of.
func (f *planFindings) warning(w *plan.Warning) {
	var doc *schema.Document
	var path string
	switch {
	case w.Job != "" && w.Limit != "":
		doc, path = f.config.Job(w.Job).Place("spec.request.endpoint")
	case w.Job != "":
		job := f.config.Job(w.Job)
		if doc, path = job.Place("spec.estimate.items"); !doc.Has(path) {
			doc, path = job.Place("spec.inventory")
		}
	default:
		provider := f.config.Provider(w.Provider)
		doc, path = provider.Doc, "spec.limits"
		if l := provider.Limit(w.Limit); l != nil {
			path = fmt.Sprintf("spec.limits[%d]", l.Index)
		}
	}
	for i := range f.problems {
		if p := &f.problems[i]; p.Rule == w.Code && p.File == doc.File && p.Path == path {
			return
		}
	}
	for _, rule := range validate.Rules() {
		if rule.Name == w.Code {
			f.add(doc, rule.Severity, rule.Name, path, "%s", w.Message)
		}
	}
}

func (f *planFindings) infeasible(s *plan.Scope) {
	provider := f.config.Provider(s.Provider)
	for i, l := range provider.Limits {
		if l.Spec.Name == s.Limit {
			f.add(provider.Doc, schema.SeverityError, "plan-infeasible", fmt.Sprintf("spec.limits[%d]", i),
				"limit %q is not enough on key %s: %s units are needed and %s can be planned with; see tapyr plan for what would help",
				s.Limit, plaintext.Key(s.Key), plan.Figure(s.Projected), plan.Figure(s.Budget))
		}
	}
}

func (f *planFindings) promise(a *plan.Assertion) {
	if a.Kind == "maxInterval" {
		doc, path := f.config.Job(a.Job).Place("spec.maxInterval")
		f.add(doc, schema.SeverityError, "plan-promise", path, "job %q can run every %s only, beyond its maxInterval of %s", a.Job, seconds(a.Got), seconds(a.Want))
		return
	}
	settings := f.config.Settings
	for i, declared := range settings.Spec.Assert {
		if declared.Limit == a.Provider+"/"+a.Limit {
			f.add(settings.Doc, schema.SeverityError, "plan-promise", fmt.Sprintf("spec.assert[%d].headroom", i),
				"the plan leaves %s of limit %s free on key %s, less than the %s promised", percent(a.Got), declared.Limit, plaintext.Key(a.Key), percent(a.Want))
		}
	}
}

func (f *planFindings) stretch(j *plan.Job) {
	by := ""
	if j.LimitedBy != nil {
		by = fmt.Sprintf(" by the %s limit %q on key %s", j.LimitedBy.Reason, j.LimitedBy.Limit, plaintext.Key(j.LimitedBy.Key))
	}
	doc, path := f.config.Job(j.Job).Place("spec.interval")
	f.add(doc, schema.SeverityNotice, "plan-stretch", path, "job %q is stretched from %s to %s%s", j.Job, seconds(j.DesiredSeconds), seconds(j.EffectiveSeconds), by)
}

// seconds writes a number of seconds as documents do.
func seconds(s float64) string {
	const nanosPerSecond = 1e9
	return schema.Duration(s * nanosPerSecond).String()
}

func percent(part float64) string { return plan.Figure(part*100) + "%" }

// fanoutForm checks --fanout where the documents cannot tell which names there
// are.
func (c *Call) fanoutForm() error {
	given := make(map[string]bool)
	for _, text := range c.StringSlice("fanout") {
		name, _, found := strings.Cut(text, "=")
		if !found || name == "" {
			return c.Usagef("--fanout: %q is not NAME=N, as meraki-networks=120", text)
		}
		if given[name] {
			return c.Usagef("--fanout: %q is given twice", name)
		}
		given[name] = true
	}
	return nil
}

// onlyProblems restricts problems to the documents that --only names or that
// those need. Problems of whole files stay.
func (c *Call) onlyProblems(read *documents, config *validate.Config, problems []schema.Problem) ([]schema.Problem, error) {
	only := c.Only()
	if len(only) == 0 {
		return problems, nil
	}
	keep, err := read.concerned(config, only)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(problems, func(p schema.Problem) bool {
		doc := read.documentAt(p.Position)
		return doc != nil && !keep[doc]
	}), nil
}

// concerned are the documents that selectors concern. Where the documents are
// not valid, references cannot be followed: only those named remain.
func (d *documents) concerned(config *validate.Config, only []Selector) (map[*schema.Document]bool, error) {
	keep := map[*schema.Document]bool{}
	if config != nil {
		part, err := onlyConfig(config, only)
		if err != nil {
			return nil, err
		}
		for _, doc := range part.Documents {
			keep[doc] = true
		}
		return keep, nil
	}
	for _, selector := range only {
		var known []string
		found := false
		for _, doc := range d.docs {
			if !strings.EqualFold(doc.Kind, selector.Kind) {
				continue
			}
			known = append(known, doc.Name)
			if doc.Name == selector.Name {
				keep[doc], found = true, true
			}
		}
		if !found {
			return nil, &validate.NoSuchNameError{Kind: selector.Kind, Name: selector.Name, Known: known}
		}
	}
	return keep, nil
}

// documentAt is the document that a place belongs to: the last that begins
// before it; nil where none does.
func (d *documents) documentAt(at schema.Position) *schema.Document {
	var found *schema.Document
	for _, doc := range d.docs {
		if doc.File == at.File && doc.Position("").Line <= at.Line {
			found = doc
		}
	}
	return found
}

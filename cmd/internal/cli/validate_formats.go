package cli

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// findingJSON is one finding as --format json writes it.
type findingJSON struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Severity string `json:"severity"`
	Rule     string `json:"rule"`
	Message  string `json:"message"`
	Path     string `json:"path"`
}

// reportJSON is the answer as --format json writes it.
type reportJSON struct {
	Findings  []findingJSON `json:"findings"`
	Files     int           `json:"files"`
	Documents int           `json:"documents"`
	Errors    int           `json:"errors"`
	Warnings  int           `json:"warnings"`
}

func (r *findings) writeJSON(out *Output) error {
	answer := reportJSON{
		Findings: make([]findingJSON, 0, len(r.problems)), Files: r.files, Documents: r.documents,
		Errors: r.count(schema.SeverityError), Warnings: r.count(schema.SeverityWarning),
	}
	for _, p := range r.problems {
		answer.Findings = append(answer.Findings, findingJSON{
			File: filepath.ToSlash(p.File), Line: p.Line, Column: p.Column, Severity: string(p.Severity), Rule: p.Rule, Message: p.Message, Path: p.Path,
		})
	}
	return out.JSON(answer)
}

// writeGitHub writes annotations, one workflow command a finding. See "Workflow
// commands for GitHub Actions" in GitHub's documentation; the escaping is that
// of the runner's own toolkit (actions/toolkit, packages/core, command.ts).
func (r *findings) writeGitHub(out *Output) error {
	for _, p := range r.problems {
		out.Printf("::%s file=%s,line=%d,col=%d,title=%s::%s\n", p.Severity, escapeProperty(filepath.ToSlash(p.File)), p.Line, p.Column,
			escapeProperty(p.Rule), escapeData(p.Message))
	}
	return nil
}

var (
	dataEscaper     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscaper = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func escapeData(text string) string     { return dataEscaper.Replace(plaintext.Printable(text)) }
func escapeProperty(text string) string { return propertyEscaper.Replace(plaintext.Printable(text)) }

// sarifLevels are SARIF's words for the severities.
var sarifLevels = map[schema.Severity]string{schema.SeverityError: "error", schema.SeverityWarning: "warning", schema.SeverityNotice: "note"}

// writeSARIF writes a log of SARIF 2.1.0 (OASIS Standard, 27 March 2020), as
// code scanning takes it.
func (r *findings) writeSARIF(out *Output) error {
	log := r.sarif()
	return out.JSON(log)
}

func (r *findings) sarif() *sarif.Report {
	driver := sarif.NewToolComponent().WithName("tapyr").WithInformationURI("https://github.com/tapyr/tapyr")
	if info := readVersion(); info.Version != "" {
		driver.WithVersion(info.Version)
	}
	index := map[string]int{}
	for i, rule := range validate.Rules() {
		index[rule.Name] = i
		driver.AddRule(sarifRule(rule))
	}
	run := sarif.NewRun().WithTool(sarif.NewTool().WithDriver(driver)).WithColumnKind("unicodeCodePoints")
	for i := range r.problems {
		p := &r.problems[i]
		run.AddResult(sarif.NewResult().WithRuleID(p.Rule).WithRuleIndex(index[p.Rule]).WithLevel(sarifLevels[p.Severity]).
			WithMessage(sarif.NewTextMessage(plaintext.Printable(p.Message))).AddLocation(sarifLocation(p)))
	}
	log := sarif.NewReport()
	log.AddRun(run)
	return log
}

func sarifRule(rule *validate.Rule) *sarif.ReportingDescriptor {
	text := func(s string) *sarif.MultiformatMessageString { return sarif.NewMultiformatMessageString().WithText(s) }
	return sarif.NewReportingDescriptor().WithID(rule.Name).WithName(rule.Name).
		WithShortDescription(text(rule.Summary)).WithFullDescription(text(rule.Why)).
		WithHelp(text(rule.Why).WithMarkdown(rulePage(rule))).
		WithDefaultConfiguration(sarif.NewReportingConfiguration().WithLevel(sarifLevels[rule.Severity]))
}

func sarifLocation(p *schema.Problem) *sarif.Location {
	region := sarif.NewRegion().WithStartLine(p.Line).WithStartColumn(p.Column)
	artifact := sarif.NewArtifactLocation().WithURI(fileURI(p.File))
	return sarif.NewLocation().WithPhysicalLocation(sarif.NewPhysicalLocation().WithArtifactLocation(artifact).WithRegion(region))
}

// fileURI is a relative path as a relative reference, an absolute one as a file
// URI, percent-encoded (RFC 3986).
func fileURI(file string) string {
	u := url.URL{Path: filepath.ToSlash(file)}
	if filepath.IsAbs(file) {
		u.Scheme = "file"
	}
	return u.String()
}

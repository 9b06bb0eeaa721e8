package validate

import (
	"sort"

	"github.com/tapyr/tapyr/schema"
)

// Check holds documents against each other. It returns every problem, the documents' own included, sorted by file, line, column
// and rule. The Config is nil exactly where one of them is an error. The problems depend on the documents alone.
func Check(docs []*schema.Document) (*Config, []schema.Problem) {
	var problems []schema.Problem
	broken := make(map[*schema.Document][]string)
	for _, doc := range docs {
		problems = append(problems, doc.Problems...)
		for _, p := range doc.Problems {
			if p.Severity == schema.SeverityError && p.Path != "" {
				broken[doc] = append(broken[doc], p.Path)
			}
		}
	}
	config := resolve(docs)
	for _, rule := range rules {
		if rule.check == nil {
			continue
		}
		f := &finder{config: config, rule: rule, broken: broken}
		rule.check(f)
		problems = append(problems, f.problems...)
	}
	problems = Sort(problems)
	for _, p := range problems {
		if p.Severity == schema.SeverityError {
			return nil, problems
		}
	}
	return config, problems
}

// Sort orders problems by file, line, column, rule and message, in place, and leaves out repetitions: one mistake in a template
// is found once for each job that uses it.
func Sort(problems []schema.Problem) []schema.Problem {
	sort.SliceStable(problems, func(i, j int) bool {
		a, b := &problems[i], &problems[j]
		switch {
		case a.File != b.File:
			return a.File < b.File
		case a.Line != b.Line:
			return a.Line < b.Line
		case a.Column != b.Column:
			return a.Column < b.Column
		case a.Rule != b.Rule:
			return a.Rule < b.Rule
		}
		return a.Message < b.Message
	})
	out := problems[:0]
	for i, p := range problems {
		if i == 0 || p != out[len(out)-1] {
			out = append(out, p)
		}
	}
	return out
}

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// writeRules lists all rules, or writes the pages of those named; "all" is the
// whole book, which docs/rules.md holds.
func writeRules(out *Output, names []string) error {
	rules := validate.Rules()
	switch {
	case len(names) == 0:
		list := &table{columns: []column{{title: "RULE"}, {title: "SEVERITY"}, {title: "WHAT IT DEMANDS", fit: fitWrap}}}
		for _, rule := range rules {
			list.rows = append(list.rows, plain(rule.Name, string(rule.Severity), rule.Summary))
		}
		return list.writeText(out)
	case slices.Equal(names, []string{"all"}):
		return writeString(out, rulesBook(rules))
	}
	var known []string
	byName := map[string]*validate.Rule{}
	for _, rule := range rules {
		known = append(known, rule.Name)
		byName[rule.Name] = rule
	}
	for i, name := range names {
		rule := byName[name]
		if rule == nil {
			return fmt.Errorf("there is no rule %q%s; see \"tapyr validate --rules\"", name, strings.TrimSuffix(schema.DidYouMean(name, known), "?"))
		}
		if i > 0 {
			out.Printf("\n")
		}
		if err := writeString(out, rulePage(rule)); err != nil {
			return err
		}
	}
	return nil
}

// rulePage is the documentation of one rule, in Markdown.
func rulePage(rule *validate.Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s: %s.\n\n", rule.Name, strings.ToUpper(string(rule.Severity[:1]))+string(rule.Severity[1:]), rule.Summary)
	for _, line := range wrapText(rule.Why, defaultColumns) {
		b.WriteString(line + "\n")
	}
	fmt.Fprintf(&b, "\nWrong:\n\n```yaml\n%s```\n\nRight:\n\n```yaml\n%s```\n", rule.Wrong, rule.Right)
	return b.String()
}

// rulesBook is docs/rules.md.
func rulesBook(rules []*validate.Rule) string {
	var b strings.Builder
	b.WriteString("# The rules of tapyr validate\n\n" +
		"<!-- Made by \"tapyr validate --rules all\"; change the rules' files instead. -->\n\n" +
		"A finding ends in the name of its rule. An error makes the documents invalid, a\n" +
		"warning is probably a mistake (an error with `--strict`), a notice is worth knowing.\n\n" +
		"The examples stand beside these documents, as far as they do not declare one of the\n" +
		"same kind and name themselves:\n\n```yaml\n" + validate.ExampleBase + "```\n\n| rule | severity | what it demands |\n| --- | --- | --- |\n")
	for _, rule := range rules {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", rule.Name, rule.Name, rule.Severity, plaintext.Markdown(rule.Summary))
	}
	for _, rule := range rules {
		b.WriteString("\n" + rulePage(rule))
	}
	return b.String()
}

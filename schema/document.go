// Package schema holds tapyr's documents as people write them: their types, units and positions, their decoding, and the JSON
// Schemas that are generated from them. It knows one document at a time; what documents say to each other is checked by
// package validate.
package schema

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// APIVersion is the version of the document format.
const APIVersion = "tapyr/v1alpha1"

// The kinds of documents.
const (
	// KindProvider documents declare a vendor's API and its limits.
	KindProvider = "Provider"
	// KindAccount documents declare credentials at a provider.
	KindAccount = "Account"
	// KindJob documents declare repeated requests.
	KindJob = "Job"
	// KindSettings documents hold what is true for all accounts.
	KindSettings = "Settings"
	// KindSpendPolicy documents budget paid calls.
	KindSpendPolicy = "SpendPolicy"
)

const namePattern = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`

// Kinds lists the kinds of documents in the order in which they refer to each other.
func Kinds() []string {
	return []string{KindProvider, KindAccount, KindJob, KindSettings, KindSpendPolicy}
}

// newSpec is a pointer to a new spec of the kind, or nil where there is no such kind.
func newSpec(kind string) any {
	switch kind {
	case KindProvider:
		return new(ProviderSpec)
	case KindAccount:
		return new(AccountSpec)
	case KindJob:
		return new(JobSpec)
	case KindSettings:
		return new(SettingsSpec)
	case KindSpendPolicy:
		return new(SpendPolicySpec)
	}
	return nil
}

func schemaFile(kind string) string { return strings.ToLower(kind) + ".schema.json" }

// Document is one YAML document of a file.
type Document struct {
	// File is the name it was read under; "-" is standard input.
	File string
	// Kind and Name are empty where the document does not say them.
	Kind, Name string
	// Spec is a *ProviderSpec, *AccountSpec, *JobSpec, *SettingsSpec or *SpendPolicySpec. Values that are wrong are left out of
	// it. It is nil where the kind is unknown.
	Spec any
	// Tree is the document as plain values: map[string]any, []any, string, json.Number, bool and nil, aliases and merge keys
	// resolved. Values that are wrong are left out of it.
	Tree map[string]any
	// Problems are what is wrong with the document by itself.
	Problems []Problem

	node *yaml.Node // the mapping at the document's top; nil where there is none

	// wide holds the places of the keys of mappings that have many of them, in Content.
	wide map[*yaml.Node]map[string]int
}

// Position is a place in a file. Lines and columns count from 1, columns in characters.
type Position struct {
	File         string
	Line, Column int
}

// The severities of a problem.
const (
	// SeverityError makes the documents invalid.
	SeverityError Severity = "error"
	// SeverityWarning is probably a mistake.
	SeverityWarning Severity = "warning"
	// SeverityNotice is worth knowing.
	SeverityNotice Severity = "notice"
)

// Severity says how bad a problem is.
type Severity string

// Problem is something wrong, or worth knowing, at one place of a document.
type Problem struct {
	Position
	// Severity is error, warning or notice.
	Severity Severity
	// Rule is the stable kebab-case name of the rule that found it.
	Rule string
	// Message is lower case, quotes the value, and says what is allowed.
	Message string
	// Path leads to the value, such as spec.limits[2].window.period.
	Path string
	// Concealed problems stand where a secret may have been written by mistake: their source line must not be shown.
	Concealed bool
}

// The rules that this package checks; package validate describes them among its own.
const (
	// RuleSyntax is broken YAML, or a file that is not YAML at all.
	RuleSyntax = "syntax"
	// RuleShape is a value that the JSON Schema of its kind does not allow.
	RuleShape = "shape"
	// RuleUnknownField is a field that there is no such.
	RuleUnknownField = "unknown-field"
	// RuleMissingField is a field that must be there and is not.
	RuleMissingField = "missing-field"
	// RuleDuplicateKey is a key that stands twice in one mapping.
	RuleDuplicateKey = "duplicate-key"
	// RuleUnit is a duration, rate or amount that cannot be read.
	RuleUnit = "unit"
	// RuleAmbiguous is a scalar that other YAML readers take for something else.
	RuleAmbiguous = "ambiguous-scalar"
	// RuleTooLarge is a file, a nesting or an expansion of aliases beyond what is read.
	RuleTooLarge = "too-large"
	// RuleEmptyFile is a file without a document.
	RuleEmptyFile = "empty-file"
)

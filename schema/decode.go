package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// What is read at the most. A hand-written folder is a thousand times smaller; beyond it, a file is a mistake or an attack. With
// these bounds no input takes more than about three seconds.
const (
	// MaxFileBytes is the size of the largest file that Decode reads.
	MaxFileBytes = 4 << 20

	maxDepth      = 100
	maxValues     = 1_000_000 // of a document
	maxRepeated   = 50_000    // values of a document that aliases repeat
	maxProblems   = 1_000     // of a document: whoever reads them all has better things to do
	maxDocuments  = 20_000    // of a file, empty ones included
	maxDirectives = 100       // of a file: the YAML library compares each with all before it
)

// Decode reads the documents of one file. The file's own problems, broken YAML above all, come second; what is wrong within a
// document stands with the document, which then lacks the values concerned. It never panics, and takes time linear in the size
// of data.
func Decode(file string, data []byte) ([]*Document, []Problem) {
	if p := unreadable(file, data); p != nil {
		return nil, []Problem{*p}
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithUniqueKeys(false))
	if err != nil {
		return nil, []Problem{syntaxProblem(file, err)}
	}
	var docs []*Document
	for n := 0; ; n++ {
		var node yaml.Node
		err := load(loader, &node)
		switch {
		case errors.Is(err, io.EOF):
			return docs, emptyFile(file, docs)
		case err != nil:
			return docs, []Problem{syntaxProblem(file, err)}
		case n >= maxDocuments:
			return docs, []Problem{tooLarge(nodePosition(file, &node), fmt.Sprintf("the file holds more than %d documents; split it into several files", maxDocuments))}
		}
		if doc := decodeDocument(file, &node); doc != nil {
			docs = append(docs, doc)
		}
	}
}

// emptyFile remarks on a file without any document.
func emptyFile(file string, docs []*Document) []Problem {
	if len(docs) > 0 {
		return nil
	}
	at := Position{File: file, Line: 1, Column: 1}
	return []Problem{{Position: at, Severity: SeverityNotice, Rule: RuleEmptyFile, Message: "the file holds no document"}}
}

// load turns a panic of the YAML library into an error: a parser's fault must not end the program that reads a user's file.
func load(loader *yaml.Loader, node *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	return loader.Load(node)
}

// unreadable finds what no YAML reader should be given.
func unreadable(file string, data []byte) *Problem {
	at := Position{File: file, Line: 1, Column: 1}
	if len(data) > MaxFileBytes {
		p := tooLarge(at, fmt.Sprintf("the file is longer than %d bytes; split it into several files", MaxFileBytes))
		return &p
	}
	valid := utf8.Valid(data)
	nul := bytes.IndexByte(data, 0)
	if valid && nul < 0 {
		if directives := bytes.Count(data, []byte("\n%")) + bytes.Count(data, []byte("\r%")); directives > maxDirectives {
			p := tooLarge(at, fmt.Sprintf("more than %d lines of the file begin with %%; those are directives, which documents have no use for", maxDirectives))
			return &p
		}
		return nil
	}
	end, what := nul, "the file holds a NUL byte; it is not a text file"
	if !valid {
		end, what = firstInvalid(data), "the file is not UTF-8 text"
	}
	before := data[:end]
	at.Line = bytes.Count(before, []byte("\n")) + 1
	at.Column = utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return &Problem{Position: at, Severity: SeverityError, Rule: RuleSyntax, Message: what + "; save it as UTF-8, or leave it out"}
}

func tooLarge(at Position, message string) Problem {
	return Problem{Position: at, Severity: SeverityError, Rule: RuleTooLarge, Message: message}
}

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(data)
}

func syntaxProblem(file string, err error) Problem {
	p := Problem{Position: Position{File: file, Line: 1, Column: 1}, Severity: SeverityError, Rule: RuleSyntax, Message: err.Error()}
	var le *yaml.LoadError
	if errors.As(err, &le) {
		p.Message = le.Message
		if le.ContextMsg != "" {
			p.Message = le.ContextMsg + ": " + le.Message
		}
		if le.Mark.Line > 0 {
			p.Line, p.Column = le.Mark.Line, max(le.Mark.Column, 1)
		}
	}
	p.Message = strings.TrimPrefix(p.Message, "yaml: ")
	if strings.Contains(p.Message, "cannot start any token") {
		p.Message += "; YAML indents with spaces, never with tabs, and a text that begins with @, ` or % needs quotes"
	}
	return p
}

// decodeDocument reads one document; nil where there is nothing in it.
func decodeDocument(file string, root *yaml.Node) *Document {
	if root.Kind != yaml.DocumentNode || len(root.Content) == 0 {
		return nil
	}
	top := root.Content[0]
	if top.Kind == yaml.ScalarNode && top.ShortTag() == "!!null" {
		return nil
	}
	doc := &Document{File: file}
	if top.Kind != yaml.MappingNode {
		doc.report(top, RuleShape, "", "a document must be a mapping with apiVersion, kind, metadata and spec")
		return doc
	}
	doc.node = top
	w := walker{doc: doc}
	tree, _ := w.value(top, nil).(map[string]any)
	if w.overflowed || tree == nil {
		return doc
	}
	doc.Tree = tree
	doc.identify()
	if doc.Kind != "" && doc.check() {
		doc.fill()
	}
	return doc
}

// identify reads kind and name, and reports a kind that there is no such.
func (d *Document) identify() {
	kind, ok := d.Tree["kind"].(string)
	switch {
	case d.Tree["kind"] == nil:
		d.report(d.node, RuleMissingField, "kind", fmt.Sprintf("missing field \"kind\", want one of %s", strings.Join(Kinds(), ", ")))
		return
	case !ok || newSpec(kind) == nil:
		d.reportAt("kind", RuleShape, fmt.Sprintf("kind is %s, want one of %s%s", quoted(d.Tree["kind"]), strings.Join(Kinds(), ", "), DidYouMean(kind, Kinds())))
		return
	}
	d.Kind = kind
	if meta, ok := d.Tree["metadata"].(map[string]any); ok {
		d.Name, _ = meta["name"].(string)
	}
}

// fill decodes the tree, which holds only what the JSON Schema allows, into the kind's type.
func (d *Document) fill() {
	d.Spec = newSpec(d.Kind)
	if err := DecodeTree(d.Tree["spec"], d.Spec); err != nil {
		d.reportAt("spec", RuleShape, err.Error())
	}
}

// DecodeTree decodes a value of a Tree, such as a job's spec after its template was merged in, into a spec.
func DecodeTree(tree, into any) error {
	if tree == nil {
		return nil
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// full tells whether a document has so many problems that no more are looked for, and says so the first time.
func (d *Document) full() bool {
	if len(d.Problems) == maxProblems {
		d.Problems = append(d.Problems, tooLarge(d.Position(""), fmt.Sprintf("the document has more than %d problems; the others are not listed", maxProblems)))
	}
	return len(d.Problems) > maxProblems
}

// report adds an error at a node.
func (d *Document) report(n *yaml.Node, rule, path, message string) {
	d.Problems = append(d.Problems, Problem{
		Position: nodePosition(d.File, n), Severity: SeverityError, Rule: rule, Message: message, Path: path, Concealed: concealed(path),
	})
}

// reportAt adds an error at the value that a path leads to.
func (d *Document) reportAt(path, rule, message string) {
	d.Problems = append(d.Problems, d.Problem(SeverityError, rule, path, message))
}

// Problem makes a problem at the value that path leads to, or at its nearest ancestor that the document has.
func (d *Document) Problem(severity Severity, rule, path, message string) Problem {
	return Problem{Position: d.Position(path), Severity: severity, Rule: rule, Message: message, Path: path, Concealed: concealed(path)}
}

// concealed tells whether a secret may stand at the path by mistake.
func concealed(path string) bool {
	return strings.HasPrefix(path, "spec.credentials") || strings.HasSuffix(path, ".dsn") || strings.HasSuffix(path, ".token") ||
		strings.Contains(path, ".dsn.") || strings.Contains(path, ".token.")
}

func nodePosition(file string, n *yaml.Node) Position {
	return Position{File: file, Line: max(n.Line, 1), Column: max(n.Column, 1)}
}

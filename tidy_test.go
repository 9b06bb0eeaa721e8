// Package tapyr_test checks the repository itself: its layout and sizes
// (tidy_test.go) and the commands that its documents show (doc_test.go).
package tapyr_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layout lists the packages in the order of ARCHITECTURE.md: data flows down
// the list, and a package imports only packages above it. A folder below one of
// them, as ledger/sqlite, counts as the same package.
var layout = []string{
	"golden",    // the data that tests of several packages share
	"plaintext", // texts from elsewhere, fit to be shown
	"window",    // when a quota window starts and ends
	"schema",    // the documents as people write them
	"expr",      // the expressions in documents
	"match",     // which limits a request meets: templates, filters, costs, scope keys
	"smartflow", // the Meraki limiter
	"validate",  // documents to a resolved Config
	"learn",     // scope variables that traffic has told
	"engine",    // which request may go
	"plan",      // who gets how much of a budget
	"schedule",  // which run starts when, and what it sends next
	"spend",     // admission of paid calls
	"ledger",    // what was used
	"replay",    // recorded rows through the engine
	"simulate",  // the plan in virtual time, and a provider that enforces limits
	"daemon",    // tapyr run
	"web",       // one snapshot as HTML, JSON and metrics
	"examples",  // folders that a user copies, and the documents that are built in
	"cmd",       // words to calls
	"bench",     // measurements
}

// standalone packages import no other package of tapyr, so that others can use
// them without the rest.
var standalone = []string{"smartflow"}

// mayReadClock are the packages that may read a clock, start a timer, draw a
// random number or look at the environment; for all others time and chance are
// arguments.
var mayReadClock = []string{"daemon", "cmd", "bench", "examples"}

// shellFiles are the files of other packages that may do so: each is the
// blocking shell around a pure core.
var shellFiles = []string{"engine/shell.go", "smartflow/shell.go", "simulate/shell.go"}

// exceptions allows a finding, by "path: rule", for the reason given. An entry
// that no finding needs any more is itself a finding.
var exceptions = map[string]string{
	"schema: exports": "one type per mapping that a document may hold; the functions over them are few",
}

const (
	maxFileLines     = 500
	maxFunctionLines = 70
	maxExportedNames = 30
	modulePath       = "github.com/tapyr/tapyr"
)

// shellNames are the functions that read a clock, wait, draw from a random
// source or look at the environment, by import path. "*" stands for all names of
// a package but those in seededNames.
var shellNames = map[string][]string{
	"time": {
		"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep", "Local",
	},
	"context":      {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
	"os":           {"Getenv", "LookupEnv", "Environ", "ExpandEnv"},
	"math/rand":    {"*"},
	"math/rand/v2": {"*"},
	"crypto/rand":  {"*"},
}

// seededNames make random numbers from a seed, which is an argument: the same
// seed gives the same numbers.
var seededNames = []string{"Rand", "New", "Source", "NewSource", "PCG", "NewPCG", "ChaCha8", "NewChaCha8"}

// vagueNames say nothing about what a package is for.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "shared", "base", "core", "lib", "pkg"}

// source is one Go file.
type source struct {
	path  string // from the root, with slashes
	lines int
	file  *ast.File
	set   *token.FileSet
}

// finding is one thing that is not tidy.
type finding struct{ path, rule, message string }

// parse makes a source of a file's text.
func parse(t *testing.T, name, text string) source {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return source{path: name, lines: strings.Count(text, "\n"), file: file, set: set}
}

// isTest tells whether a file is part of a test. Suites that several packages
// run, as ledger/ledgertest, are packages whose names end in "test".
func (s *source) isTest() bool {
	return strings.HasSuffix(s.path, "_test.go") || strings.HasSuffix(path.Dir(s.path), "test")
}

// at is the position of a node, for a message.
func (s *source) at(node ast.Node) string {
	return s.path + ":" + strconv.Itoa(s.set.Position(node.Pos()).Line)
}

// top is the first folder of a path from the root, "" for files of the root.
func top(name string) string {
	first, _, found := strings.Cut(name, "/")
	if !found {
		return ""
	}
	return first
}

// TestTidy applies all rules to all Go files.
func TestTidy(t *testing.T) {
	var sources []source
	for _, name := range trackedFiles(t) {
		if strings.HasSuffix(name, ".go") && !strings.Contains("/"+name, "/testdata/") {
			text, err := os.ReadFile(filepath.FromSlash(name))
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, parse(t, name, string(text)))
		}
	}
	if len(sources) < 10 {
		t.Fatalf("only %d Go files found: the test sees nothing", len(sources))
	}
	used := map[string]bool{}
	for _, f := range check(sources) {
		key := f.path + ": " + f.rule
		used[key] = true
		if exceptions[key] == "" {
			t.Errorf("%s [%s]", f.message, f.rule)
		}
	}
	for key := range exceptions {
		if !used[key] {
			t.Errorf("the exception %q is not needed any more", key)
		}
	}
}

// check applies all rules.
func check(sources []source) []finding {
	var found []finding
	for i := range sources {
		s := &sources[i]
		found = append(found, checkPlace(s)...)
		found = append(found, checkImports(s)...)
		found = append(found, checkClock(s)...)
		found = append(found, checkSizes(s)...)
	}
	return append(found, checkExports(sources)...)
}

// checkPlace: every package is in the layout, and none has a vague name.
func checkPlace(s *source) []finding {
	var found []finding
	if first := top(s.path); first != "" && !slices.Contains(layout, first) {
		found = append(found, finding{s.path, "layout", fmt.Sprintf(
			"%s: the package %q has no place in the layout; give it one here and in ARCHITECTURE.md", s.path, first)})
	}
	for _, part := range append(strings.Split(path.Dir(s.path), "/"), s.file.Name.Name) {
		if slices.Contains(vagueNames, part) {
			found = append(found, finding{s.path, "name", fmt.Sprintf("%s: the name %q does not say what is in it", s.path, part)})
		}
	}
	return found
}

// checkImports: a package imports only packages above it in the layout.
func checkImports(s *source) []finding {
	var found []finding
	from := top(s.path)
	for _, spec := range s.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the compiler will say so
		}
		rest, ours := strings.CutPrefix(imported, modulePath+"/")
		to := top(rest + "/")
		if !ours || from == "" || to == from {
			continue
		}
		switch {
		case slices.Contains(standalone, from) && !s.isTest():
			found = append(found, finding{s.path, "imports", fmt.Sprintf("%s: %s stands alone, but imports %s", s.at(spec), from, to)})
		case slices.Index(layout, to) >= slices.Index(layout, from):
			found = append(found, finding{s.path, "imports", fmt.Sprintf("%s: %s imports %s, which is below it in the layout", s.at(spec), from, to)})
		}
	}
	return found
}

// checkClock: only shells read clocks and random sources. Tests are free.
func checkClock(s *source) []finding {
	if first := top(s.path); first == "" || s.isTest() || slices.Contains(mayReadClock, first) ||
		slices.Contains(shellFiles, s.path) || s.file.Name.Name == "main" {
		return nil
	}
	names := map[string]string{} // the name in this file to the import path
	for _, spec := range s.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || shellNames[imported] == nil {
			continue
		}
		name := path.Base(strings.TrimSuffix(imported, "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	var found []finding
	ast.Inspect(s.file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if name, ok := selector.X.(*ast.Ident); ok && isShellName(names[name.Name], selector.Sel.Name) {
			found = append(found, finding{s.path, "clock", fmt.Sprintf(
				"%s: %s.%s: time, chance and environment are arguments here", s.at(selector), name.Name, selector.Sel.Name)})
		}
		return true
	})
	return found
}

// isShellName tells whether only a shell may use a name of a package.
func isShellName(imported, name string) bool {
	forbidden := shellNames[imported]
	if slices.Equal(forbidden, []string{"*"}) {
		return imported == "crypto/rand" || !slices.Contains(seededNames, name)
	}
	return slices.Contains(forbidden, name)
}

// checkSizes: files and functions that fit in a head. Generated files are free.
func checkSizes(s *source) []finding {
	if ast.IsGenerated(s.file) {
		return nil
	}
	var found []finding
	if s.lines > maxFileLines {
		found = append(found, finding{s.path, "size", fmt.Sprintf("%s: %d lines, more than %d", s.path, s.lines, maxFileLines)})
	}
	ast.Inspect(s.file, func(node ast.Node) bool {
		function, ok := node.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			return true
		}
		lines := s.set.Position(function.End()).Line - s.set.Position(function.Pos()).Line + 1
		if lines > maxFunctionLines {
			found = append(found, finding{s.path, "size", fmt.Sprintf(
				"%s: %s has %d lines, more than %d", s.at(function), function.Name.Name, lines, maxFunctionLines)})
		}
		return true
	})
	return found
}

// checkExports: a package exports few names and documents each, and itself.
func checkExports(sources []source) []finding {
	var found []finding
	exported := map[string]map[string]bool{}
	documented := map[string]bool{}
	for i := range sources {
		s := &sources[i]
		if strings.HasSuffix(s.path, "_test.go") || top(s.path) == "" {
			continue
		}
		folder := path.Dir(s.path)
		if exported[folder] == nil {
			exported[folder] = map[string]bool{}
		}
		documented[folder] = documented[folder] || s.file.Doc.Text() != ""
		for _, name := range exportedNames(s.file) {
			if name.counts {
				exported[folder][name.name] = true
			}
			if !name.documented {
				found = append(found, finding{s.path, "doc", fmt.Sprintf("%s: %s is exported without a comment", s.at(name.node), name.name)})
			}
		}
	}
	for folder, names := range exported {
		if n := len(names); n > maxExportedNames && top(folder+"/") != "cmd" {
			found = append(found, finding{folder, "exports", fmt.Sprintf("%s: %d exported names, more than %d", folder, n, maxExportedNames)})
		}
		if !documented[folder] {
			found = append(found, finding{folder, "doc", fmt.Sprintf("%s: no file has a package comment", folder)})
		}
	}
	slices.SortFunc(found, func(a, b finding) int { return strings.Compare(a.message, b.message) })
	return found
}

// plainMethods do what everybody knows, so they need no comment.
var plainMethods = []string{"Error", "Unwrap", "String"}

// exportedName is a name that a package exports.
type exportedName struct {
	name       string
	node       ast.Node
	documented bool
	// counts is false for what belongs to a type that counts: methods, and the
	// constants of an enum.
	counts bool
}

// exportedNames lists the exported names of a file: functions, methods of
// exported types, types, constants and variables. Fields belong to their type.
func exportedNames(file *ast.File) []exportedName {
	var names []exportedName
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				receiver := receiverName(d.Recv.List[0].Type)
				if !ast.IsExported(receiver) {
					continue
				}
				name = receiver + "." + name
			}
			if d.Name.IsExported() {
				documented := d.Doc.Text() != "" || d.Recv != nil && slices.Contains(plainMethods, d.Name.Name)
				names = append(names, exportedName{name, d, documented, d.Recv == nil})
			}
		case *ast.GenDecl:
			names = append(names, declaredNames(d)...)
		}
	}
	return names
}

// declaredNames lists the exported names of a type, const or var declaration.
func declaredNames(d *ast.GenDecl) []exportedName {
	var names []exportedName
	enum := false // whether the constants so far are of a type of this package
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				documented := spec.Doc.Text() != "" || d.Doc.Text() != ""
				names = append(names, exportedName{spec.Name.Name, spec, documented, true})
			}
		case *ast.ValueSpec:
			if d.Tok == token.CONST && (spec.Type != nil || len(spec.Values) > 0) {
				// Without type and value a constant repeats the ones above.
				kind, ok := spec.Type.(*ast.Ident)
				enum = ok && ast.IsExported(kind.Name)
			}
			// One comment above a group of constants speaks for all of them.
			documented := spec.Doc.Text() != "" || spec.Comment.Text() != "" || d.Doc.Text() != ""
			for _, name := range spec.Names {
				if name.IsExported() {
					names = append(names, exportedName{name.Name, spec, documented, d.Tok != token.CONST || !enum})
				}
			}
		}
	}
	return names
}

// receiverName is the name of a receiver's type, without pointer and type
// parameters.
func receiverName(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// localPath matches paths that exist on one machine only. They get into a
// repository with pasted output and mean nothing to anybody else.
var localPath = regexp.MustCompile(`(?:^|[\s"'` + "`" + `(=:,])(/(?:wo` + `rk|ro` + `ot|tmp/brief)(?:/[\w.-]+|\b))`)

// TestNoLocalPaths looks through all tracked text files.
func TestNoLocalPaths(t *testing.T) {
	for _, name := range trackedFiles(t) {
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range localPaths(name, string(text)) {
			t.Error(message)
		}
	}
}

// localPaths returns a message for each local path in a text. Binary files have
// none.
func localPaths(name, text string) []string {
	if strings.ContainsRune(text, 0) {
		return nil
	}
	var messages []string
	number := 0
	for line := range strings.Lines(text) {
		number++
		for _, match := range localPath.FindAllStringSubmatch(line, -1) {
			messages = append(messages, fmt.Sprintf("%s:%d: %q is a path of one machine", name, number, match[1]))
		}
	}
	return messages
}

// trackedFiles lists the files that git tracks or would add, or all files where
// this is no clone, by their paths from the root.
func trackedFiles(t *testing.T) []string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err == nil {
		var names []string
		for name := range strings.SplitSeq(string(output), "\x00") {
			// A file that was removed and not yet committed is still in the index.
			if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
				names = append(names, name)
			}
		}
		return names
	}
	t.Logf("git cannot list the files (%v): looking at all", err)
	var names []string
	err = filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "out", "node_modules"}, entry.Name()) {
			return filepath.SkipDir
		}
		if entry.Type().IsRegular() {
			names = append(names, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

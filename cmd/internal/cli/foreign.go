package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

// documentGroup is the part of apiVersion that says whose document it is.
const documentGroup = "tapyr"

// readPaths reads the documents of files and folders. A folder may hold other programs' YAML beside ours, which is left out with a
// notice; a file that was named is meant.
func readPaths(ctx context.Context, stdin io.Reader, paths []string) (*documents, error) {
	files, err := findFiles(paths)
	if err != nil {
		return nil, err
	}
	read, err := decodeFiles(ctx, stdin, files)
	if err != nil {
		return nil, err
	}
	return read, read.leaveOutForeign(namedFiles(paths), strings.Join(paths, ", "))
}

// namedFiles are those of paths that are no folders, as findFiles writes them.
func namedFiles(paths []string) map[string]bool {
	named := make(map[string]bool)
	for _, path := range paths {
		if info, err := os.Stat(path); path == "-" || err == nil && !info.IsDir() {
			named[filepath.Clean(path)] = true
		}
	}
	return named
}

// leaveOutForeign turns what is plainly another program's into notices, but for files that were named. Where that was all, there are
// no documents, and where says which paths hold none.
func (d *documents) leaveOutForeign(named map[string]bool, where string) error {
	left := 0
	ours := d.docs[:0:0]
	for _, doc := range d.docs {
		if named[doc.File] || !isForeign(doc) {
			ours = append(ours, doc)
			continue
		}
		left++
		d.problems = append(d.problems, foreignProblem(doc.Position(""), "this is no document of tapyr"+saidToBe(doc)))
	}
	d.docs = ours
	for i := range d.problems {
		p := &d.problems[i]
		// Templates of YAML, as Helm's, are none before they are filled in. What never says tapyr cannot be meant for it.
		if p.Rule == schema.RuleSyntax && !named[p.File] && !bytes.Contains(d.sources[p.File], []byte(documentGroup+"/")) {
			left++
			*p = foreignProblem(p.Position, "the file is not YAML that can be read, and says nothing of tapyr/")
		}
	}
	if left > 0 && len(d.docs) == 0 && !slices.ContainsFunc(d.problems, func(p schema.Problem) bool { return p.Severity == schema.SeverityError }) {
		return fmt.Errorf("no documents: %s holds only YAML of other programs, as %s; documents begin with apiVersion: %s", where, d.files[0], schema.APIVersion)
	}
	return nil
}

func foreignProblem(at schema.Position, what string) schema.Problem {
	return schema.Problem{
		Position: at, Severity: schema.SeverityNotice, Rule: schema.RuleEmptyFile,
		Message: what + ", so it is left out; name the file itself if it is meant",
	}
}

// saidToBe is what a foreign document says of itself.
func saidToBe(doc *schema.Document) string {
	if version, ok := doc.Tree["apiVersion"].(string); ok {
		return fmt.Sprintf(" (apiVersion is %q)", version)
	}
	return " (there is no apiVersion)"
}

// isForeign tells whether a document is another program's. What may be one of ours with a slip is not: an apiVersion that is nearly
// right, or none where kind or spec are as ours.
func isForeign(doc *schema.Document) bool {
	if doc.Tree == nil {
		return slices.ContainsFunc(doc.Problems, func(p schema.Problem) bool { return p.Rule == schema.RuleShape && p.Path == "" })
	}
	value, there := doc.Tree["apiVersion"]
	version, isText := value.(string)
	if !there || !isText {
		kind, _ := doc.Tree["kind"].(string)
		_, hasSpec := doc.Tree["spec"]
		near := slices.Contains(schema.Kinds(), kind) || schema.Nearest(kind, schema.Kinds()) != "" && kind != ""
		return !near && !hasSpec
	}
	group, _, _ := strings.Cut(version, "/")
	return !strings.EqualFold(group, documentGroup) && schema.Nearest(group, []string{documentGroup}) == ""
}

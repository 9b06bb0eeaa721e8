// Package validatetest makes configurations for the tests of other packages. Only tests import it.
package validatetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// TB is what a test needs to have: *testing.T, *testing.B and *rapid.T do.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Config is the configuration that documents make, each text YAML or JSON with any number of them. What is wrong with them fails
// the test; warnings and notices do not.
func Config[T ~string | ~[]byte](t TB, documents ...T) *validate.Config {
	t.Helper()
	var docs []*schema.Document
	for _, text := range documents {
		docs = append(docs, decode(t, "test.yaml", []byte(text))...)
	}
	return check(t, docs)
}

// Folder is the configuration of the documents in the .yaml files of a folder, after those in texts.
func Folder(t TB, folder string, texts ...string) *validate.Config {
	t.Helper()
	var docs []*schema.Document
	for _, text := range texts {
		docs = append(docs, decode(t, "test.yaml", []byte(text))...)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents in %s: %v", folder, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v", err)
		}
		docs = append(docs, decode(t, file, data)...)
	}
	return check(t, docs)
}

func decode(t TB, file string, data []byte) []*schema.Document {
	t.Helper()
	docs, problems := schema.Decode(file, data)
	if len(problems) > 0 {
		t.Fatalf("documents: %v\n%s", problems, data)
	}
	return docs
}

func check(t TB, docs []*schema.Document) *validate.Config {
	t.Helper()
	config, problems := validate.Check(docs)
	if config != nil {
		return config
	}
	var errors []string
	for _, p := range problems {
		if p.Severity == schema.SeverityError {
			errors = append(errors, fmt.Sprint(p))
		}
	}
	t.Fatalf("documents: %s", strings.Join(errors, "\n"))
	return nil
}

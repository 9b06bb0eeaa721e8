package validate

import (
	"fmt"
	"strings"

	"github.com/tapyr/tapyr/schema"
)

// Place finds where a field of the job was written, such as spec.interval: in its own document, or else in its template.
func (j *Job) Place(path string) (*schema.Document, string) { return j.place(path) }

// place finds where a field of the job was written: in its own document, or else in its template. path begins with "spec.".
func (j *Job) place(path string) (*schema.Document, string) {
	if j.Doc.Has(path) {
		return j.Doc, path
	}
	i := j.templateIndex()
	if i < 0 {
		return j.Doc, path
	}
	provider := j.Account.Provider.Doc
	if there := fmt.Sprintf("spec.templates[%d].%s", i, strings.TrimPrefix(path, "spec.")); provider.Has(there) {
		return provider, there
	}
	return j.Doc, path
}

package examples_test

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tapyr/tapyr/examples"
	"github.com/tapyr/tapyr/schema"
)

// Every folder with a provider is a built-in, whole, and says of each limit where its figure was found and when.
func TestBuiltins(t *testing.T) {
	onDisk, err := filepath.Glob("*/provider.yaml")
	if err != nil || len(onDisk) < 8 {
		t.Fatalf("%d providers (%v)", len(onDisk), err)
	}
	for i := range onDisk {
		onDisk[i] = filepath.Dir(onDisk[i])
	}
	if names := examples.Names(); !slices.Equal(names, onDisk) {
		t.Errorf("built in are %v, on disk %v", names, onDisk)
	}
	for _, name := range examples.Names() {
		for _, file := range examples.DocumentFiles() {
			text, err := fs.ReadFile(examples.Files, path.Join(name, file))
			if err != nil {
				t.Fatal(err)
			}
			if there, err := os.ReadFile(filepath.Join(name, file)); err != nil || !bytes.Equal(text, there) {
				t.Errorf("%s/%s is not what is on disk (%v)", name, file, err)
			}
			docs, problems := schema.Decode(file, text)
			if len(problems) > 0 {
				t.Errorf("%s/%s: %v", name, file, problems)
			}
			for _, doc := range docs {
				if p, ok := doc.Spec.(*schema.ProviderSpec); ok {
					checkProvider(t, name, doc.Name, p)
				}
			}
		}
	}
}

func checkProvider(t *testing.T, folder, name string, p *schema.ProviderSpec) {
	t.Helper()
	if name != folder || p.Title == "" || len(p.Limits) == 0 {
		t.Errorf("provider %s in folder %s has the title %q and %d limits", name, folder, p.Title, len(p.Limits))
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		if l.Source == nil || l.Source.Checked == "" || l.Source.Kind == "vendor-docs" && l.Source.URL == "" {
			t.Errorf("limit %s/%s does not say where its figure was found: %+v", name, l.Name, l.Source)
		}
	}
}

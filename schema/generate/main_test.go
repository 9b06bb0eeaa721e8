package main

import (
	"os"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/schema"
)

// TestReferenceIsFresh: docs/reference.md is what the document types say.
func TestReferenceIsFresh(t *testing.T) {
	want, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/reference.md is not what the document types say; run go generate ./schema")
	}
	for _, kind := range schema.Kinds() {
		if !strings.Contains(want, "\n## "+kind+"\n") {
			t.Errorf("the reference has no section for %s", kind)
		}
	}
}

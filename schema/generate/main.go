// Command generate writes the JSON Schemas of the document kinds into schemas/, from the Go types and their comments.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/tapyr/tapyr/schema"
)

func main() {
	if err := os.Chdir(".."); err != nil { // go generate runs in the package's folder
		log.Fatal(err)
	}
	files, err := schema.Generate()
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join("schema", "schemas", name), text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
	text, err := reference()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("docs", "reference.md"), []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
}

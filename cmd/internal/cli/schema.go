package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/schema"
)

// newSchemaCommand is "tapyr schema".
func newSchemaCommand() *Command {
	return &Command{
		Name:        "schema",
		Usage:       "print the JSON Schema of documents, for editors and other validators",
		ArgsUsage:   "[KIND]",
		ArgsMax:     1,
		ArgsChoices: schema.Kinds(),
		Description: "Without a kind, it is one schema for documents of any kind. An editor with a YAML language server uses it where " +
			"a file begins with a line such as\n\n" +
			"    # yaml-language-server: $schema=schemas/tapyr.schema.json\n\n" +
			"The schemas say what each field takes. What documents say to each other is checked by tapyr validate.",
		Examples: []Example{
			{Comment: "the schema of one kind", Line: "tapyr schema provider"},
			{Comment: "all schemas, as files", Line: "tapyr schema -o schemas"},
		},
		Flags: []cli.Flag{&cli.StringFlag{
			Name: outputFlagName, Aliases: []string{"o"}, Usage: "write the schemas as files into the folder `DIR`, making it if need be",
		}},
		OutputFolder: true,
		Run:          runSchema,
	}
}

func runSchema(call *Call) error {
	files := map[string][]byte{schema.CombinedFileName: schema.CombinedJSONSchema()}
	single := schema.CombinedFileName
	if name := call.Args().First(); name != "" {
		kind := kindNamed(name)
		if kind == "" {
			return call.Usagef("there is no kind %q, only %s%s", name, join(schema.Kinds(), "and"), didYouMean(nearest(name, schema.Kinds())))
		}
		single = schema.FileName(kind)
		files = map[string][]byte{single: schema.JSONSchema(kind)}
	} else {
		for _, kind := range schema.Kinds() {
			files[schema.FileName(kind)] = schema.JSONSchema(kind)
		}
	}
	folder := call.String(outputFlagName)
	if folder == "" {
		_, err := call.Out.Write(files[single])
		return err
	}
	return writeFolder(folder, files)
}

// kindNamed is the kind of that name, in any case; "" where there is none.
func kindNamed(name string) string {
	for _, kind := range schema.Kinds() {
		if strings.EqualFold(kind, name) {
			return kind
		}
	}
	return ""
}

// writeFolder writes files into a folder, each whole or not at all.
func writeFolder(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o777); err != nil { // less the umask
		return fmt.Errorf("cannot create %s: %w", folder, cause(err))
	}
	for name, content := range files {
		file, err := createAtomic(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		if _, err := file.Write(content); err != nil {
			file.discard()
			return fmt.Errorf("cannot write %s: %w", filepath.Join(folder, name), cause(err))
		}
		if err := file.commit(); err != nil {
			return fmt.Errorf("cannot write %s: %w", filepath.Join(folder, name), cause(err))
		}
	}
	return nil
}

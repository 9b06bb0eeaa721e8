// Package examples holds the folders of documents that "tapyr init" begins with. A folder is the built-in of its name where it has
// a provider.yaml: what a reader of the repository sees is what is in the binary.
package examples

import (
	"embed"
	"io/fs"
	"path"
)

// Files are the built-in documents: FOLDER/provider.yaml, account.yaml and jobs.yaml for each, and settings.yaml for all.
//
//go:embed settings.yaml */provider.yaml */account.yaml */jobs.yaml
var Files embed.FS

// SettingsFile is the name of the settings that go with any provider.
const SettingsFile = "settings.yaml"

// DocumentFiles are the names of a built-in's files, in the order in which a reader wants them.
func DocumentFiles() []string { return []string{"provider.yaml", "account.yaml", "jobs.yaml"} }

// Names lists the built-ins, sorted. The name of one is also that of its Provider.
func Names() []string {
	found, err := fs.Glob(Files, "*/provider.yaml")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	names := make([]string, 0, len(found))
	for _, file := range found {
		names = append(names, path.Dir(file))
	}
	return names
}

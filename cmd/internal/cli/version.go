package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version is set by the linker (see the Makefile). Without it, the version
// that the go command recorded is used, as after "go install ...@v1.2.3".
var version string

// versionInfo is what "tapyr version" tells.
type versionInfo struct {
	Version string `json:"version"`
	// Commit is the full hash, empty where the binary was built outside a
	// repository.
	Commit string `json:"commit,omitempty"`
	// CommitTime is the commit's time, RFC 3339 in UTC.
	CommitTime string `json:"commitTime,omitempty"`
	// Modified tells that the tree differed from the commit.
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// newVersionCommand is "tapyr version".
func newVersionCommand() *Command {
	return &Command{
		Name:  "version",
		Usage: "show which tapyr this is, and what it was built with",
		Examples: []Example{
			{Comment: "for a person", Line: "tapyr version"},
			{Comment: "for a script", Line: "tapyr version --format json"},
		},
		Flags: []cli.Flag{formatFlag("table", "json"), outputFlag()},
		Run: func(call *Call) error {
			return writeVersion(call.Out, readVersion(), call.Format())
		},
	}
}

// readVersion collects what the linker and the go command recorded.
func readVersion() versionInfo {
	info := versionInfo{
		Version:  version,
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if info.Version == "" {
		info.Version = build.Main.Version
	}
	if info.Version == "" {
		info.Version = "(devel)"
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Commit = setting.Value
		case "vcs.time":
			info.CommitTime = setting.Value
		case "vcs.modified":
			info.Modified = setting.Value == "true"
		}
	}
	return info
}

// writeVersion writes info in one of the two formats.
func writeVersion(out *Output, info versionInfo, format string) error {
	if format == "json" {
		return out.JSON(info)
	}
	out.Printf("tapyr %s\n", info.Version)
	if info.Commit != "" {
		note := ""
		if info.Modified {
			note = ", with changes"
		}
		out.Printf("commit %s of %s%s\n", info.Commit, info.CommitTime, note)
	}
	out.Printf("built with %s for %s\n", info.Go, info.Platform)
	return nil
}

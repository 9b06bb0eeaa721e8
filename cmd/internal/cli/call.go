package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/plaintext"
)

// Call is one invocation of a command: its arguments and flags (through the
// embedded context of the parser), its streams, and where its result goes.
type Call struct {
	*cli.Context
	// Env is the world.
	Env *Env
	// Out takes the result: standard output, or the file of -o.
	Out *Output
	// Log takes what an operator wants to know and the result does not say.
	Log *slog.Logger

	command *Command
	root    *Command
}

// Ctx is the context that an interrupt cancels. A command that works longer
// than a moment looks at it and returns its error.
func (c *Call) Ctx() context.Context { return c.Context.Context }

// Now is the present: --at where it is given, else the clock.
func (c *Call) Now() time.Time {
	if at, ok := c.Generic("at").(*instant); ok && !at.time.IsZero() {
		return at.time
	}
	return c.Env.Now()
}

// Zone is the zone in which tables show times: --tz, else the local one.
func (c *Call) Zone() *time.Location {
	if tz, ok := c.Generic("tz").(*zone); ok && tz.location != nil {
		return tz.location
	}
	return c.Env.Local
}

// Only returns the selectors of --only, in the order given.
func (c *Call) Only() []Selector {
	if only, ok := c.Generic("only").(*selectors); ok {
		return only.list
	}
	return nil
}

// Format is the value of --format.
func (c *Call) Format() string { return c.String("format") }

// Quiet tells whether --quiet was given.
func (c *Call) Quiet() bool { return c.Bool("quiet") }

// Note writes one line for a person to standard error, unless --quiet. It is
// for what stands beside the result; what happens over time goes to Log.
func (c *Call) Note(format string, args ...any) {
	if !c.Quiet() {
		fmt.Fprintln(c.Env.Stderr, plaintext.Printable(fmt.Sprintf(format, args...)))
	}
}

// Stdin returns standard input for a PATH or FILE of "-". A read ends with the
// context's error when the command is interrupted: a person who forgot to pipe
// something in gets out with one Ctrl-C.
func (c *Call) Stdin() io.Reader {
	reader, writer := io.Pipe()
	// A read from a terminal cannot be called back. Its goroutine ends with the
	// input or with the process, which an interrupt is about to end.
	go func() {
		_, err := io.Copy(writer, c.Env.Stdin)
		writer.CloseWithError(err)
	}()
	context.AfterFunc(c.Ctx(), func() { writer.CloseWithError(c.Err()) })
	return reader
}

// Usagef returns a usage error of this command: wrong arguments that only the
// command itself can tell. It exits with 2.
func (c *Call) Usagef(format string, args ...any) error {
	return usageErrorf(c.command, "", format, args...)
}

// ConfigPaths says which files and folders hold the documents: the arguments,
// else --config, else TAPYR_CONFIG (a list separated like PATH), else
// ./tapyr.yaml, else ./tapyr/. It looks only whether the last two exist.
func (c *Call) ConfigPaths() ([]string, error) {
	if c.Args().Present() {
		return c.Args().Slice(), nil
	}
	return c.configuredPaths()
}

// configuredPaths is ConfigPaths for commands whose arguments are something else.
func (c *Call) configuredPaths() ([]string, error) {
	if paths := c.StringSlice(configFlagName); len(paths) > 0 {
		return paths, nil
	}
	if list := filepath.SplitList(c.Env.Getenv("TAPYR_CONFIG")); len(list) > 0 {
		return list, nil
	}
	for _, path := range []string{"tapyr.yaml", "tapyr"} {
		info, err := os.Stat(path)
		if err == nil && info.IsDir() == (path == "tapyr") {
			return []string{path}, nil
		}
	}
	return nil, c.Usagef("no documents: there is neither ./tapyr.yaml nor ./tapyr/, and no path, --config or TAPYR_CONFIG names others")
}

// newLogger returns the logger that the global flags ask for.
func newLogger(w io.Writer, level, format string, quiet bool) (*slog.Logger, error) {
	options := &slog.HandlerOptions{}
	var threshold slog.Level
	if err := threshold.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	if quiet {
		threshold = max(threshold, slog.LevelError)
	}
	options.Level = threshold
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return slog.New(slog.NewTextHandler(w, options)), nil
}

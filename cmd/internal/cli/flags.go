package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/window"
)

// Names of flags that the frame itself acts on.
const (
	helpFlagName    = "help"
	versionFlagName = "version"
	configFlagName  = "config"
	outputFlagName  = "output"
)

// globalFlags are read by every command and may stand anywhere. None uses the
// library's EnvVars: the environment is a part of Env, so that tests set it.
func globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{
			Name: configFlagName, Aliases: []string{"c"}, KeepSpace: true,
			Usage:       "read documents from the file or folder `PATH`; repeatable",
			DefaultText: "./tapyr.yaml, then ./tapyr/",
		},
		choiceFlag("log-level", "log messages of this `LEVEL` and above", "info", "debug", "info", "warn", "error"),
		choiceFlag("log-format", "write log messages as `FORMAT`", "text", "text", "json"),
		&cli.BoolFlag{Name: "no-color", Usage: "write no colours"},
		&cli.BoolFlag{Name: "quiet", Usage: "write nothing but results and errors"},
		&cli.BoolFlag{Name: helpFlagName, Aliases: []string{"h"}, Usage: "show help"},
		&cli.BoolFlag{Name: versionFlagName, Usage: "show which tapyr this is"},
	}
}

// outputFlag is -o FILE. The frame acts on it: Call.Out then goes to the file.
func outputFlag() cli.Flag {
	return &cli.StringFlag{
		Name: outputFlagName, Aliases: []string{"o"},
		Usage: "write the result to `FILE`, whole or not at all",
	}
}

// formatFlag is --format with the formats that a command can write, the
// default first.
func formatFlag(formats ...string) cli.Flag {
	return choiceFlag("format", "write the result as `FORMAT`", formats[0], formats...)
}

// onlyFlag is --only, read with Call.Only.
func onlyFlag() cli.Flag {
	return &cli.GenericFlag{
		Name: "only", Value: &selectors{},
		Usage: "look only at `KIND/NAME`, KIND being provider, account or job; repeatable",
	}
}

// atFlag is --at, read with Call.Now.
func atFlag() cli.Flag {
	return &cli.GenericFlag{
		Name: "at", Value: &instant{},
		Usage: "take `TIME` (RFC 3339) as the present", DefaultText: "now",
	}
}

// zoneFlag is --tz, read with Call.Zone.
func zoneFlag() cli.Flag {
	return &cli.GenericFlag{
		Name: "tz", Value: &zone{},
		Usage: "show times in tables in `ZONE`, as Europe/Berlin or UTC", DefaultText: "the local zone",
	}
}

// choiceFlag is a flag with a closed list of values. Help shows them and
// completion offers them.
func choiceFlag(name, usage, preset string, allowed ...string) cli.Flag {
	return &cli.GenericFlag{Name: name, Usage: usage, Value: &choice{value: preset, allowed: allowed}}
}

// choice is the value of a choiceFlag.
type choice struct {
	value   string
	allowed []string
}

// Set accepts one of the allowed values.
func (c *choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return fmt.Errorf("%q is not one of %s%s", value, strings.Join(c.allowed, ", "), didYouMean(nearest(value, c.allowed)))
	}
	c.value = value
	return nil
}

// String returns the value chosen.
func (c *choice) String() string { return c.value }

// instant is the value of --at; the zero time means that it was not given.
type instant struct{ time time.Time }

// Set accepts an instant of RFC 3339.
func (i *instant) Set(value string) error {
	parsed, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return fmt.Errorf("%q is not a time of RFC 3339 with its zone; write it as 2026-11-30T12:00:00Z", value)
	}
	if first, last := time.Unix(0, window.MinNanos), time.Unix(0, window.MaxNanos); parsed.Before(first) || !parsed.Before(last) {
		return fmt.Errorf("%q is outside the years %d to %d", value, first.UTC().Year(), last.UTC().Year()-1)
	}
	i.time = parsed
	return nil
}

// String returns the instant, or "" where there is none.
func (i *instant) String() string {
	if i.time.IsZero() {
		return ""
	}
	return i.time.Format(time.RFC3339Nano)
}

// zone is the value of --tz; nil means that it was not given.
type zone struct{ location *time.Location }

// Set accepts a name of the IANA time zone database.
func (z *zone) Set(value string) error {
	location, err := time.LoadLocation(value)
	if err != nil || value == "" {
		return fmt.Errorf("%q is not a time zone; name one of the IANA database, as Europe/Berlin, or UTC", value)
	}
	z.location = location
	return nil
}

// String returns the zone's name, or "" where there is none.
func (z *zone) String() string {
	if z.location == nil {
		return ""
	}
	return z.location.String()
}

// Selector is one --only: the documents of one kind that have one name.
type Selector struct {
	// Kind is provider, account or job.
	Kind string
	// Name is the metadata name of the document.
	Name string
}

// String writes the selector as it is typed.
func (s Selector) String() string { return s.Kind + "/" + s.Name }

// selectorKinds are the kinds that --only knows.
var selectorKinds = []string{"provider", "account", "job"}

// selectors is the value of --only.
type selectors struct{ list []Selector }

// Set adds one KIND/NAME.
func (s *selectors) Set(value string) error {
	kind, name, found := strings.Cut(value, "/")
	if !found || name == "" {
		return fmt.Errorf("%q is not KIND/NAME, as job/devices", value)
	}
	if !slices.Contains(selectorKinds, kind) {
		return fmt.Errorf("%q has the kind %q, which is not one of %s%s", value, kind,
			strings.Join(selectorKinds, ", "), didYouMean(nearest(kind, selectorKinds)))
	}
	s.list = append(s.list, Selector{Kind: kind, Name: name})
	return nil
}

// String lists the selectors.
func (s *selectors) String() string {
	var words []string
	for _, selector := range s.list {
		words = append(words, selector.String())
	}
	return strings.Join(words, " ")
}

// didYouMean is the end of a message that knows a near value, or "".
func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q", near)
}

package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// fanoutFlag is --fanout, read with Call.fanout.
func fanoutFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "fanout", Usage: "take the inventory of a job to hold this many items: `NAME=N`; repeatable"}
}

// setFlag is --set, applied by Call.loadChanged.
func setFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "set", KeepSpace: true, Usage: "change a value of the documents first: `PATH=VALUE`, such as job.devices.interval=10m; repeatable"}
}

// fanout reads --fanout. Names must be jobs of the configuration that have an inventory.
func (c *Call) fanout(config *validate.Config) (map[string]int64, error) {
	sizes := make(map[string]int64)
	for _, text := range c.StringSlice("fanout") {
		name, count, _ := strings.Cut(text, "=")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || n < 0 || n > schema.MostItems {
			return nil, c.Usagef("--fanout: %q is not NAME=N with a whole number up to %d, as meraki-networks=120", text, schema.MostItems)
		}
		if _, twice := sizes[name]; twice {
			return nil, c.Usagef("--fanout: %q is given twice", name)
		}
		if problem := noInventory(config, name); problem != "" {
			return nil, c.Usagef("--fanout: %s", problem)
		}
		sizes[name] = n
	}
	return sizes, nil
}

// noInventory says why a name is not that of a job with an inventory, "" where it is.
func noInventory(config *validate.Config, name string) string {
	var known []string
	for _, j := range config.Jobs {
		if j.Spec.Inventory != nil {
			known = append(known, j.Name)
		}
	}
	j := config.Job(name)
	switch {
	case j == nil:
		return fmt.Sprintf("there is no job %q%s", name, schema.DidYouMeanOneOf(name, known))
	case j.Spec.Inventory != nil:
		return ""
	case j.Parent != nil:
		return fmt.Sprintf("job %q has no inventory, it runs over that of %s; did you mean %q?", name, j.Parent.Name, j.Parent.Name)
	}
	return fmt.Sprintf("job %q has no inventory whose size could be said%s", name, schema.DidYouMeanOneOf("", known))
}

func jobNames(config *validate.Config) []string {
	var names []string
	for _, j := range config.Jobs {
		names = append(names, j.Name)
	}
	return names
}

// loadChanged reads the documents, with the changes of --set.
func (c *Call) loadChanged() (*validate.Config, error) {
	read, err := c.readDocuments()
	if err != nil {
		return nil, err
	}
	if read, err = c.applySets(read); err != nil {
		return nil, err
	}
	return c.checkDocuments(read)
}

func (c *Call) applySets(read *documents) (*documents, error) {
	var settings []schema.Setting
	given := make(map[string]bool)
	for _, text := range c.StringSlice("set") {
		s, err := schema.ParseSetting(text)
		if err != nil {
			return nil, c.Usagef("--set %s", err)
		}
		path, _, _ := strings.Cut(text, "=")
		if given[path] {
			return nil, c.Usagef("--set: %q is given twice", path)
		}
		given[path] = true
		settings = append(settings, s)
	}
	changed := *read
	var err error
	if changed.docs, err = schema.Apply(read.docs, settings); err != nil {
		return nil, c.Usagef("--set %s", err)
	}
	return &changed, nil
}

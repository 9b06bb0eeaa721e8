package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate"
)

// completeLearned adds the variables that a request's path names by itself, or that the caches of learned identifiers know, as run
// would. unknown are those that are not known yet.
func (c *Call) completeLearned(config *validate.Config, provider *validate.Provider, path string, r *match.Request) (learned, unknown []string, err error) {
	state, err := daemon.StatePath(config)
	if err != nil {
		return nil, nil, err
	}
	library := learn.New(config, learn.Options{Folder: filepath.Dir(state)})
	book := library.Book(provider.Name)
	if book == nil {
		return nil, nil, nil
	}
	now := c.Now().UnixNano()
	if err := library.Load(now); err != nil {
		c.Note("warning: %s", err)
	}
	if strings.Contains(path, "{") { // a template: its variables may be given
		if t, err := match.ParseTemplate(path); err == nil {
			path, _ = t.Expand(r.Vars)
		}
	}
	all, unresolved := book.Complete(now, learn.Place{Account: r.Account, Target: r.Target}, path, r.Vars)
	for name, value := range all {
		if _, given := r.Vars[name]; !given {
			learned = append(learned, fmt.Sprintf("%s=%s", name, value))
		}
	}
	if unresolved {
		for i := range provider.Spec.Learn {
			if name := provider.Spec.Learn[i].Var; all[name] == "" && len(book.Keys(name, path)) > 0 {
				unknown = append(unknown, name)
			}
		}
	}
	slices.Sort(learned)
	r.Vars = all
	return learned, unknown, nil
}

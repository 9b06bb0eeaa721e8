package daemon

import (
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/daemon/client"
	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate"
)

// FailedRunsError says that runs of Once failed.
type FailedRunsError struct {
	// Failed and All count runs; First is the first failure, in the order in which they ended.
	Failed, All int64
	First       RunState
	// NotRun are jobs that had nothing to run over, since the inventory above them failed and there was none from before.
	NotRun []string
}

func (e *FailedRunsError) Error() string {
	text := fmt.Sprintf("%d of %d runs failed, the first of them %s: %s", e.Failed, e.All, e.First.Instance, e.First.Error)
	if len(e.NotRun) > 0 {
		text += "; not run for want of an inventory: " + strings.Join(e.NotRun, ", ")
	}
	return text
}

// Once runs every job once and returns: those with an inventory before those that run over it, the others at the same time. The
// error is a *FailedRunsError where runs failed or were partial; anything else means that it could not begin.
func (d *Daemon) Once(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer runtime.KeepAlive(ballast())
	if err := d.open(ctx); err != nil {
		d.closeStore()
		return err
	}
	defer d.closeStore()
	stopWriting := d.keepWriting(work)
	d.replan()
	interrupted := context.AfterFunc(ctx, func() {
		d.stopOnce.Do(func() { close(d.stopping) })
		d.door.shut(true)
	})
	for _, level := range levels(d.world.kept) {
		d.level(work, level)
	}
	interrupted()
	stopWriting()
	d.end(cancel)
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.verdict()
}

// levels are the jobs by the number of inventories above them.
func levels(config *validate.Config) [][]*validate.Job {
	var out [][]*validate.Job
	for _, j := range config.Jobs {
		depth := 0
		for up := j.Parent; up != nil; up = up.Parent {
			depth++
		}
		for len(out) <= depth {
			out = append(out, nil)
		}
		out[depth] = append(out[depth], j)
	}
	return out
}

// level runs all instances of some jobs, and waits for them.
func (d *Daemon) level(work context.Context, jobs []*validate.Job) {
	d.mu.Lock()
	now := d.world.gate.Now()
	for _, j := range jobs {
		for _, i := range slices.Clone(d.world.schedule.Instances(j.Name)) {
			d.start(work, i, now)
		}
	}
	d.mu.Unlock()
	d.group.Wait()
}

// verdict is how the runs of Once went.
func (d *Daemon) verdict() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := &FailedRunsError{}
	for _, j := range d.world.kept.Jobs {
		record := d.job(j.Name)
		for status, n := range record.runs {
			out.All += n
			if status != statusOK {
				out.Failed += n
			}
		}
		if record.firstBad != nil && out.First.Instance == "" {
			out.First = *record.firstBad
		}
	}
	if out.Failed == 0 {
		return nil
	}
	out.NotRun = d.notRun()
	return out
}

// notRun are the jobs that have no instance because a job above them failed, sorted. An inventory that is empty by right is no reason
// to name a job. It requires mu.
func (d *Daemon) notRun() (names []string) {
	for _, j := range d.world.kept.Jobs {
		if len(d.world.schedule.Instances(j.Name)) > 0 {
			continue
		}
		for up := j.Parent; up != nil; up = up.Parent {
			if d.job(up.Name).firstBad != nil {
				names = append(names, j.Name)
				break
			}
		}
	}
	slices.Sort(names)
	return names
}

// DryRun writes down the requests that one run of every job would begin with, one a line, and sends none. Credentials stand as
// the place where they are found, what looks like a secret in the documents themselves as client.Redacted. Instances come of the inventories of earlier runs; where there are none, variables stand as {name}.
func (d *Daemon) DryRun(ctx context.Context, out io.Writer) error {
	config, err := d.options.Load(ctx)
	if err != nil {
		return err
	}
	w, err := d.newWorld(config, 1)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.world = w
	// A state is read where there is one; a dry run makes none.
	if store, err := sqlite.Open(ctx, w.settings.statePath, sqlite.Options{Mode: sqlite.ReadOnly}); err == nil {
		inventories, err := store.Inventories(ctx)
		if err := closing(store, err); err != nil {
			return err
		}
		for _, one := range inventories {
			d.listed[one.Instance] = one
		}
		d.takeInventories(w)
	}
	for _, level := range levels(w.kept) {
		for _, j := range level {
			if err := d.dryJob(w, j, out); err != nil {
				return err
			}
		}
	}
	return nil
}

func closing(store *sqlite.Store, err error) error {
	if closeErr := store.Close(); err == nil {
		err = closeErr
	}
	return err
}

// dryJob requires mu.
func (d *Daemon) dryJob(w *world, j *validate.Job, out io.Writer) error {
	instances := w.schedule.Instances(j.Name)
	if len(instances) == 0 {
		instances = []*schedule.Instance{{Name: j.Name, Job: j}}
	}
	for _, i := range instances {
		line, err := dryLine(j, i)
		if err != nil {
			return fmt.Errorf("job %q: %w", j.Name, err)
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

func dryLine(j *validate.Job, i *schedule.Instance) (string, error) {
	bare := withoutSecrets(j)
	a := bare.Account
	vars := make(map[string]string)
	for name := range j.Vars() {
		vars[name] = "{" + name + "}"
	}
	maps.Copy(vars, i.Vars)
	options := client.Options{Account: a, Secrets: places(a)}
	for k := range a.Spec.Targets {
		if t := &a.Spec.Targets[k]; t.Name == i.Target {
			options.Target = t
			maps.Copy(vars, masked(t.Vars))
		}
	}
	maps.Copy(vars, masked(a.Spec.Vars))
	c, err := client.New(options)
	if err != nil {
		return "", err
	}
	pager, err := schedule.NewPager(j)
	if err != nil {
		return "", err
	}
	request, err := first(bare, c, pager, vars)
	if err != nil {
		return "", err
	}
	line := []string{request.Method, strings.NewReplacer("%7B", "{", "%7D", "}", "%5Bsecret%5D", client.Redacted).Replace(request.URL.String())}
	if auth := c.Describe(); auth != "" {
		line = append(line, auth)
	}
	for _, name := range slices.Sorted(maps.Keys(request.Header)) {
		line = append(line, fmt.Sprintf("%s: %s", name, request.Header[name]))
	}
	if len(request.Body) > 0 {
		line = append(line, string(request.Body))
	}
	return strings.Join(line, "  ") + "  # " + i.Name, nil
}

// withoutSecrets is a job with a mark in place of every value in its request that looks like a secret, and with an account without
// certificates, since nothing is connected.
func withoutSecrets(j *validate.Job) *validate.Job {
	account, accountSpec := *j.Account, *j.Account.Spec
	provider, providerSpec := *account.Provider, *account.Provider.Spec
	if providerSpec.Auth != nil {
		auth := *providerSpec.Auth
		auth.Prefix = validate.MaskedPrefix(auth.Prefix, client.Redacted)
		auth.TokenURL, _, _ = strings.Cut(auth.TokenURL, "?")
		providerSpec.Auth = &auth
	}
	accountSpec.TLS = nil
	provider.Spec, account.Spec, account.Provider = &providerSpec, &accountSpec, &provider
	out, spec := *j, *j.Spec
	out.Account, out.Spec, out.Query = &account, &spec, masked(j.Query)
	if spec.Request != nil {
		request := *spec.Request
		request.Headers, request.Body = masked(request.Headers), validate.MaskedBody(request.Body, client.Redacted)
		spec.Request = &request
	}
	return &out
}

// masked are values by name, without those that look like secrets.
func masked(values map[string]string) map[string]string {
	out := make(map[string]string, len(values))
	for name, value := range values {
		out[name] = validate.Masked(name, value, client.Redacted)
	}
	return out
}

// places are an account's credentials with where they are found in place of what they are.
func places(a *validate.Account) map[string]string {
	out := make(map[string]string, len(a.Spec.Credentials))
	for name, ref := range a.Spec.Credentials {
		out[name] = "[env " + ref.Env + "]"
		if ref.File != "" {
			out[name] = "[file " + ref.File + "]"
		}
	}
	return out
}

// DryLine is the first request of a job without forEach, as DryRun writes it.
func DryLine(j *validate.Job) (string, error) {
	i := &schedule.Instance{Name: j.Name, Job: j}
	if len(j.Account.Spec.Targets) > 0 {
		i.Target = j.Account.Spec.Targets[0].Name
	}
	return dryLine(j, i)
}

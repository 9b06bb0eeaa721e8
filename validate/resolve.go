package validate

import (
	"maps"
	"time"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schema"
)

// The defaults of the settings.
const (
	defaultReplanInterval = 5 * time.Minute
)

var (
	one                  = schema.DecimalOf(1)
	defaultRetryReserve  = schema.DecimalOf(0.10)
	defaultMaxStretch    = schema.DecimalOf(12)
	defaultRetryOverhead = schema.DecimalOf(0.05)
)

// resolve links documents as far as they can be linked. What a document leaves open, or refers to in vain, stays nil; the rules
// report it. The result is a valid Config only if no rule found an error.
func resolve(docs []*schema.Document) *Config {
	c := &Config{Documents: docs, windows: make(windows)}
	c.Settings = resolveSettings(nil, &schema.SettingsSpec{})
	for _, doc := range docs {
		switch spec := doc.Spec.(type) {
		case *schema.ProviderSpec:
			c.Providers = append(c.Providers, c.resolveProvider(doc, spec))
		case *schema.AccountSpec:
			c.Accounts = append(c.Accounts, &Account{Name: doc.Name, Doc: doc, Spec: spec, Share: spec.Budget.Share.Or(one)})
		case *schema.JobSpec:
			c.Jobs = append(c.Jobs, &Job{Name: doc.Name, Doc: doc, Spec: spec})
		case *schema.SettingsSpec:
			if c.Settings.Doc == nil {
				c.Settings = resolveSettings(doc, spec)
			}
		case *schema.SpendPolicySpec:
			c.Policies = append(c.Policies, c.resolvePolicy(doc, spec))
		}
	}
	c.linkAccounts()
	c.linkJobs()
	return c
}

func resolveSettings(doc *schema.Document, spec *schema.SettingsSpec) Settings {
	return Settings{
		Doc: doc, Spec: spec,
		RetryReserve:   spec.Budget.RetryReserve.Or(defaultRetryReserve),
		MaxStretch:     spec.Budget.MaxStretch.Or(defaultMaxStretch),
		RetryOverhead:  spec.Budget.RetryOverhead.Or(defaultRetryOverhead),
		ReplanInterval: spec.Budget.ReplanInterval.Or(defaultReplanInterval),
	}
}

func (c *Config) resolveProvider(doc *schema.Document, spec *schema.ProviderSpec) *Provider {
	p := &Provider{Name: doc.Name, Doc: doc, Spec: spec, templates: make(map[string]int, len(spec.Templates))}
	for i := range spec.Templates {
		if _, there := p.templates[spec.Templates[i].Name]; !there {
			p.templates[spec.Templates[i].Name] = i
		}
	}
	for i := range spec.Limits {
		limit := &spec.Limits[i]
		l := &Limit{Limit: match.Compile(limit, i), Provider: p}
		if limit.Kind == schema.KindQuota && limit.Window != nil {
			compiled, _ := c.windows.compile(limit.Window)
			l.Window = compiled.schedule
		}
		if limit.Kind == schema.KindRate && limit.Rate != nil {
			l.DefaultBurst = limit.Burst == nil
			l.Burst = max(1, limit.Rate.WholePerSecond())
			if limit.Burst != nil {
				l.Burst = *limit.Burst
			}
		}
		p.Limits = append(p.Limits, l)
	}
	return p
}

func (c *Config) resolvePolicy(doc *schema.Document, spec *schema.SpendPolicySpec) *Policy {
	p := &Policy{Name: doc.Name, Doc: doc, Spec: spec}
	if spec.Account.Window != nil {
		compiled, _ := c.windows.compile(spec.Account.Window)
		p.Window = compiled.schedule
	}
	return p
}

func (c *Config) linkAccounts() {
	providers := make(map[string]*Provider, len(c.Providers))
	for _, p := range c.Providers {
		if providers[p.Name] == nil {
			providers[p.Name] = p
		}
	}
	for _, a := range c.Accounts {
		if p := providers[a.Spec.Provider]; p != nil {
			a.Provider = p
			p.Accounts = append(p.Accounts, a)
		}
	}
}

func (c *Config) linkJobs() {
	accounts := make(map[string]*Account, len(c.Accounts))
	for _, a := range c.Accounts {
		if accounts[a.Name] == nil {
			accounts[a.Name] = a
		}
	}
	jobs := make(map[string]*Job, len(c.Jobs))
	for _, j := range c.Jobs {
		if jobs[j.Name] == nil {
			jobs[j.Name] = j
		}
	}
	for _, j := range c.Jobs {
		if a := accounts[j.Spec.Account]; a != nil {
			j.Account = a
			a.Jobs = append(a.Jobs, j)
			if a.Provider != nil {
				a.Provider.Jobs = append(a.Provider.Jobs, j)
			}
		}
		j.applyTemplate()
		j.fill()
	}
	for _, j := range c.Jobs {
		if parent := j.findParent(jobs); parent != nil {
			j.Parent = parent
		}
	}
	cutChains(c.Jobs)
	for _, j := range c.Jobs {
		if j.Parent != nil {
			j.Parent.Children = append(j.Parent.Children, j)
		}
	}
}

// templateIndex is the place of the job's template among those of its provider; -1 where there is none.
func (j *Job) templateIndex() int {
	if j.Spec.Template == "" || j.Account == nil || j.Account.Provider == nil {
		return -1
	}
	if i, there := j.Account.Provider.templates[j.Spec.Template]; there {
		return i
	}
	return -1
}

// applyTemplate merges the template under the job: mappings field by field, other values as a whole; the job's own win.
func (j *Job) applyTemplate() {
	i := j.templateIndex()
	own, _ := j.Doc.Tree["spec"].(map[string]any)
	if i < 0 || own == nil {
		return
	}
	provider, _ := j.Account.Provider.Doc.Tree["spec"].(map[string]any)
	list, _ := provider["templates"].([]any)
	base, _ := list[i].(map[string]any)
	merged := mergeTrees(base, own)
	delete(merged, "name")
	delete(merged, "description")
	spec := new(schema.JobSpec)
	if err := schema.DecodeTree(merged, spec); err != nil {
		return // both trees hold only what their schemas allow; a merged one can fail only by the template's own problems
	}
	j.Spec = spec
	j.FromTemplate = make(map[string]bool)
	for field := range base {
		if _, there := own[field]; !there {
			j.FromTemplate[field] = true
		}
	}
}

// mergeTrees lays over on base; mappings are merged, everything else is replaced.
func mergeTrees(base, over map[string]any) map[string]any {
	out := maps.Clone(base)
	for k, v := range over {
		a, aIsMap := out[k].(map[string]any)
		b, bIsMap := v.(map[string]any)
		if aIsMap && bIsMap {
			out[k] = mergeTrees(a, b)
			continue
		}
		out[k] = v
	}
	return out
}

// fill computes what follows from the job's own fields.
func (j *Job) fill() {
	j.Priority = j.Spec.Priority
	if j.Priority == "" {
		j.Priority = schema.PriorityNormal
	}
	j.Interval = j.Spec.Interval.Or(0)
	j.Deadline = j.Spec.Deadline.Or(j.Interval)
	j.Method = "GET"
	endpoint := ""
	j.Query = make(map[string]string)
	if r := j.Spec.Request; r != nil {
		if r.Method != "" {
			j.Method = r.Method
		}
		endpoint = r.Endpoint
	}
	t, err := match.ParseTemplate(endpoint)
	if err != nil { // the rule "endpoint" reports it
		t = &match.Template{Path: "/"}
	}
	j.Endpoint = t
	maps.Copy(j.Query, t.Query)
	if j.Spec.Request != nil {
		maps.Copy(j.Query, j.Spec.Request.Query)
	}
}

// findParent is the job of the forEach name. A name that comes from a template may be that of another template: then it is the
// job of the same account that uses that one.
func (j *Job) findParent(jobs map[string]*Job) *Job {
	name := j.Spec.ForEach
	if name == "" {
		return nil
	}
	if parent := jobs[name]; parent != nil {
		return parent
	}
	if !j.FromTemplate["forEach"] {
		return nil
	}
	for _, sibling := range j.Account.Jobs {
		if sibling.Spec.Template == name {
			return sibling
		}
	}
	return nil
}

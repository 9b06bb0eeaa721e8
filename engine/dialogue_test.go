package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// The dialogues in testdata/dialogues, one file for each rule, are meant to be read. Every line says at which second something
// happens; what waits is told as soon as it is decided. `go test -run Dialogues -rewrite` writes the answers anew: review the diff.
//
//	limits                     begins anew with these limits (and further lines of the provider's spec)
//	ask NAME [k=v ...]         a request arrives: account, endpoint, method, org, target, priority, retry, wait (seconds)
//	answer NAME STATUS [k=v]   its response comes, with header fields
//	release NAME               its slot is free
//	cancel NAME                it does not wait any longer
//	wait                       time passes, second by second
//	project                    what the report would say of each quota
func TestDialogues(t *testing.T) {
	datadriven.Walk(t, "testdata/dialogues", func(t *testing.T, path string) {
		var talk *dialogue
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "limits" {
				talk = newDialogue(t, d.Input)
				return "ok\n"
			}
			var out strings.Builder
			talk.out = &out
			for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
				talk.line(line)
			}
			return out.String()
		})
	})
}

type dialogue struct {
	t       *testing.T
	e       *Engine
	now     int64 // since goldenStart
	tickets map[string]Ticket
	names   map[Ticket]string
	out     *strings.Builder
}

func newDialogue(t *testing.T, spec string) *dialogue {
	limits, more, _ := strings.Cut(spec, "\nand\n")
	var b strings.Builder
	b.WriteString("apiVersion: tapyr/v1alpha1\nkind: Provider\nmetadata: { name: vendor }\nspec:\n  baseURL: https://api.example.com\n  limits:\n")
	for _, l := range strings.Split(strings.TrimSpace(limits), "\n") {
		fmt.Fprintf(&b, "    - { %s }\n", l)
	}
	settings := ""
	for _, l := range strings.Split(more, "\n") {
		if rest, ok := strings.CutPrefix(l, "retryReserve:"); ok {
			settings = "---\napiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\nspec: { budget: { retryReserve: " + rest + " } }\n"
			continue
		}
		fmt.Fprintf(&b, "  %s\n", l)
	}
	b.WriteString(settings)
	for _, a := range []string{"acme", "bolt"} {
		fmt.Fprintf(&b, "---\napiVersion: tapyr/v1alpha1\nkind: Account\nmetadata: { name: %s }\nspec: { provider: vendor }\n", a)
	}
	return &dialogue{t: t, e: New(validatetest.Config(t, b.String()), Options{}), tickets: map[string]Ticket{}, names: map[Ticket]string{}}
}

// line is one line: SECONDS COMMAND [WORDS] [k=v ...].
func (d *dialogue) line(text string) {
	words := strings.Fields(text)
	at, err := time.ParseDuration(words[0])
	if err != nil || len(words) < 2 {
		d.t.Fatalf("%q: want an instant and a command", text)
	}
	d.pass(int64(at))
	var plain []string
	options := map[string]string{}
	for _, w := range words[2:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			options[k] = strings.ReplaceAll(v, "_", " ")
		} else {
			plain = append(plain, w)
		}
	}
	switch now := goldenStart + d.now; words[1] {
	case "ask":
		d.ask(now, plain[0], options)
	case "answer":
		var fields []Field
		for k, v := range options {
			fields = append(fields, Field{k, v})
		}
		status := 0
		_, _ = fmt.Sscan(plain[1], &status)
		d.e.Settle(now, d.tickets[plain[0]], &Response{Status: status, Fields: fields})
		d.e.Release(now, d.tickets[plain[0]])
	case "release":
		d.e.Release(now, d.tickets[plain[0]])
	case "cancel":
		d.e.Cancel(d.tickets[plain[0]])
	case "project":
		d.e.Projections(now, func(p *Projection) { d.project(p) })
	case "wait":
	default:
		d.t.Fatalf("%q: no such command", text)
	}
	d.e.Advance(goldenStart+d.now, d.decided)
}

// pass lets time go on, and tells what becomes of those that wait.
func (d *dialogue) pass(to int64) {
	for {
		next, ok := d.e.Next()
		if !ok || next-goldenStart > to {
			break
		}
		d.now = max(d.now, next-goldenStart)
		d.e.Advance(goldenStart+d.now, d.decided)
	}
	d.now = to
}

func (d *dialogue) say(name, what string) {
	fmt.Fprintf(d.out, "%-8v %s: %s\n", time.Duration(d.now), name, what)
}

func (d *dialogue) decided(t Ticket, refused *RefusedError) {
	if refused == nil {
		d.say(d.names[t], "granted after its wait")
		return
	}
	d.say(d.names[t], refusedWords(refused))
}

func refusedWords(r *RefusedError) string {
	text := fmt.Sprintf("refused, %s", r.Reason)
	if r.Limit != "" {
		text += " of " + r.Limit
	}
	text += " for " + r.Key
	if r.RetryKnown {
		return text + fmt.Sprintf(", again at %v", time.Duration(r.RetryAtNanos-goldenStart))
	}
	return text + ", nobody knows until when"
}

func (d *dialogue) ask(now int64, name string, o map[string]string) {
	or := func(key, fallback string) string {
		if v, ok := o[key]; ok {
			return v
		}
		return fallback
	}
	q := &Request{Priority: or("priority", "normal"), Request: match.Request{
		Account: or("account", "acme"), Method: or("method", "GET"), Endpoint: or("endpoint", "/x"), Target: or("target", ""), Vars: map[string]string{},
	}}
	if org, ok := o["org"]; ok {
		q.Vars["org"] = org
	}
	wait, err := time.ParseDuration(or("wait", "0s"))
	if err != nil {
		d.t.Fatal(err)
	}
	ticket, granted, err := d.e.ReserveRequest(now, q, o["retry"] == "yes", now+int64(wait))
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		d.say(name, refusedWords(refused))
	case err != nil:
		d.t.Fatal(err)
	case granted:
		d.say(name, "granted")
	default:
		d.say(name, "waits")
	}
	d.tickets[name], d.names[ticket] = ticket, name
}

func (d *dialogue) project(p *Projection) {
	text := fmt.Sprintf("%s for %s: used %d of %d, remaining %d, external %d, window %v to %v, at its end %.2f", p.Limit, p.Key, p.Used, p.Usable, p.Remaining,
		p.External, time.Duration(p.StartNanos-goldenStart), time.Duration(p.EndNanos-goldenStart), p.ProjectedEnd)
	if p.Exhausts {
		text += fmt.Sprintf(", gone at %v", time.Duration(p.ExhaustsAtNanos-goldenStart).Round(time.Millisecond))
	}
	fmt.Fprintf(d.out, "%-8v %s\n", time.Duration(d.now), text)
}

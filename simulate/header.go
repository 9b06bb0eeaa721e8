package simulate

import (
	"net/http"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// headerWriter writes the limits of a provider into an answer's header, in the forms that its documents declare.
type headerWriter struct {
	// syncs are the declared headers of each limit, nil for limits without.
	syncs map[*validate.Limit]*schema.Sync
	// costs is where the actual cost of a request stands, by limit.
	costs map[*validate.Limit]*schema.Header
	// patterns are texts that the declared patterns match, with the number's place in them.
	patterns map[string]sample
	fields   []engine.Field // of the answer at hand
	whens    []schema.When
}

// sample is a text that a pattern matches: before, the captured value, after.
type sample struct {
	before, after string
	ok            bool
}

func newHeaderWriter(p *validate.Provider) *headerWriter {
	w := &headerWriter{syncs: make(map[*validate.Limit]*schema.Sync), patterns: make(map[string]sample), costs: make(map[*validate.Limit]*schema.Header)}
	for _, l := range p.Limits {
		if c := l.Spec.CostFrom; c != nil {
			w.costs[l] = &schema.Header{Name: c.Header, Index: c.Index, Pattern: c.Pattern}
			if c.Pattern != "" {
				w.patterns[c.Pattern] = sampleOf(c.Pattern)
			}
		}
		s := l.Spec.Sync
		if s == nil {
			continue
		}
		w.syncs[l] = s
		for _, h := range []*schema.Header{s.LimitHeader, s.RemainingHeader, s.UsedHeader, s.RemainingPercentHeader, s.ResetHeader} {
			if h != nil && h.Pattern != "" {
				w.patterns[h.Pattern] = sampleOf(h.Pattern)
			}
		}
	}
	return w
}

// headers are the fields of an answer, in the room given.
func (v *vendor) headers(now int64, r *visitor, a *answer, room []engine.Field) []engine.Field {
	w := v.writers[r.provider]
	w.fields, w.whens = room[:0], w.whens[:0]
	if a.retryAfterSeconds > 0 {
		w.fields = append(w.fields, engine.Field{Name: "Retry-After", Value: strconv.FormatInt(a.retryAfterSeconds, 10)})
	}
	if len(w.syncs)+len(w.costs) > 0 && !v.happens(v.faults.Missing) {
		lie := v.happens(v.faults.Lying)
		clock := v.clock(now)
		v.enforcer.Tally(clock, r.all, func(t *engine.Tally) {
			if s := w.syncs[t.Limit]; s != nil && w.when(s.When) {
				used := t.UsedUnits
				if lie {
					used = v.rng.Int64N(2*t.MaxUnits + 1)
				}
				w.write(s, clock, t, used)
			}
			w.put(w.costs[t.Limit], t.CostUnits)
		})
	}
	return w.fields
}

// when tells whether headers that speak of a limit only beside another header may stand in this answer, and puts that header there:
// of two limits that would need different values the first one speaks.
func (w *headerWriter) when(c *schema.When) bool {
	if c == nil {
		return true
	}
	for _, other := range w.whens {
		if strings.EqualFold(other.Header, c.Header) {
			return other.Equals == c.Equals
		}
	}
	w.whens = append(w.whens, *c)
	w.fields = append(w.fields, engine.Field{Name: c.Header, Value: c.Equals})
	return true
}

// write adds what is declared of one limit. used may be a lie.
func (w *headerWriter) write(s *schema.Sync, now int64, t *engine.Tally, used int64) {
	remaining := max(0, t.MaxUnits-used)
	w.put(s.LimitHeader, t.MaxUnits)
	w.put(s.RemainingHeader, remaining)
	w.put(s.UsedHeader, used)
	if s.RemainingPercentHeader != nil && t.MaxUnits > 0 {
		w.put(s.RemainingPercentHeader, 100*remaining/t.MaxUnits)
	}
	if h := s.ResetHeader; h != nil {
		w.putText(h, resetText(h.Format, t.ResetNanos, now))
	}
	if s.Policy != "" {
		item := strconv.Quote(s.Policy)
		seconds := ceilDiv(max(0, t.ResetNanos-now), int64(time.Second))
		w.list("RateLimit", item+";r="+strconv.FormatInt(remaining, 10)+";t="+strconv.FormatInt(seconds, 10))
		policy := item + ";q=" + strconv.FormatInt(t.MaxUnits, 10)
		if length := windowSeconds(t.Limit, now); length > 0 {
			policy += ";w=" + strconv.FormatInt(length, 10)
		}
		w.list("RateLimit-Policy", policy)
	}
}

// windowSeconds is the length of a quota's window, 0 where it has none.
func windowSeconds(l *validate.Limit, now int64) int64 {
	if l.Window == nil {
		return 0
	}
	span := l.Window.AtNanos(now)
	return (span.EndNanos - span.StartNanos) / int64(time.Second)
}

func (w *headerWriter) put(h *schema.Header, n int64) {
	if h != nil && h.Name != "" {
		w.putText(h, strconv.FormatInt(n, 10))
	}
}

// putText puts a value where a header is declared to have it: alone, within a text, or as one of several values.
func (w *headerWriter) putText(h *schema.Header, value string) {
	if h.Name == "" {
		return
	}
	if h.Pattern != "" {
		s := w.patterns[h.Pattern]
		if !s.ok {
			return // nobody could tell what such a vendor sends
		}
		value = s.before + value + s.after
	}
	at := w.find(h.Name)
	switch {
	case h.Index != nil:
		var values []string
		if at >= 0 {
			values = strings.Split(w.fields[at].Value, ",")
		} else {
			at = len(w.fields)
			w.fields = append(w.fields, engine.Field{Name: h.Name})
		}
		for len(values) <= *h.Index {
			values = append(values, "0")
		}
		values[*h.Index] = value
		w.fields[at].Value = strings.Join(values, ",")
	case at < 0:
		w.fields = append(w.fields, engine.Field{Name: h.Name, Value: value})
	case h.Pattern != "":
		w.fields[at].Value += ", " + value // several parts of one header
	}
}

// list adds a member to a field that is a list.
func (w *headerWriter) list(name, member string) {
	if at := w.find(name); at >= 0 {
		w.fields[at].Value += ", " + member
		return
	}
	w.fields = append(w.fields, engine.Field{Name: name, Value: member})
}

func (w *headerWriter) find(name string) int {
	for i := range w.fields {
		if strings.EqualFold(w.fields[i].Name, name) {
			return i
		}
	}
	return -1
}

// resetText writes the instant of a reset in a declared format; auto is epoch seconds. Nothing is said to be over earlier than it
// is.
func resetText(format string, reset, now int64) string {
	left := max(0, reset-now)
	switch format {
	case "epochMs":
		return strconv.FormatInt(ceilDiv(reset, int64(time.Millisecond)), 10)
	case "delta":
		return strconv.FormatInt(ceilDiv(left, int64(time.Second)), 10)
	case "minutes":
		return strconv.FormatInt(ceilDiv(left, int64(time.Minute)), 10)
	case "goDuration":
		return (time.Duration(ceilDiv(left, int64(time.Millisecond))) * time.Millisecond).String()
	case "rfc3339":
		return time.Unix(ceilDiv(reset, int64(time.Second)), 0).UTC().Format(time.RFC3339)
	case "httpDate":
		return time.Unix(ceilDiv(reset, int64(time.Second)), 0).UTC().Format(http.TimeFormat)
	}
	return strconv.FormatInt(ceilDiv(reset, int64(time.Second)), 10)
}

// ceilDiv is a/b rounded up, for a that is not negative.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// sampleOf finds a text that a pattern with one group matches, so that the group captures whatever number is put there. ok is false
// where no simple text does.
func sampleOf(pattern string) sample {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return sample{}
	}
	const mark = "\x00"
	text := sampleText(tree, mark)
	before, after, found := strings.Cut(text, mark)
	s := sample{before: before, after: after, ok: found && !strings.Contains(after, mark)}
	// A number must come out again as it went in.
	re, err := regexp.Compile(pattern)
	if err != nil || !s.ok {
		return sample{}
	}
	if m := re.FindStringSubmatch(before + "1234" + after); len(m) < 2 || m[1] != "1234" {
		return sample{}
	}
	return s
}

// sampleText is the shortest text of an expression, with mark for its group.
func sampleText(x *syntax.Regexp, mark string) string {
	switch x.Op {
	case syntax.OpLiteral:
		return string(x.Rune)
	case syntax.OpCharClass:
		if len(x.Rune) > 0 {
			return string(x.Rune[0])
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpCapture:
		return mark
	case syntax.OpPlus:
		return sampleText(x.Sub[0], mark)
	case syntax.OpRepeat:
		return strings.Repeat(sampleText(x.Sub[0], mark), x.Min)
	case syntax.OpStar, syntax.OpQuest:
		if strings.Contains(x.Sub[0].String(), "(") { // perhaps the group is in there
			return sampleText(x.Sub[0], mark)
		}
	case syntax.OpAlternate:
		return sampleText(x.Sub[0], mark)
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range x.Sub {
			b.WriteString(sampleText(sub, mark))
		}
		return b.String()
	}
	return ""
}

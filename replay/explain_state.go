package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// keyState is how a key stands before a request.
type keyState struct {
	limit      *validate.Limit
	cost       int64
	now        int64
	scope      *engine.ScopeState
	projection *engine.Projection
	used       int64 // requests under way
	vars       map[string]string
}

// words says how the key stands, and whether that alone keeps the request.
func (d *keyState) words(priority string, retry bool) (text string, lacks bool) {
	switch d.limit.Spec.Kind {
	case schema.KindRate:
		text, lacks = d.bucket()
	case schema.KindConcurrency:
		most, _ := d.limit.Max(d.vars)
		text, lacks = fmt.Sprintf("%d of %d under way", d.used, most), d.used >= most
	default:
		text, lacks = d.quota(priority, retry)
	}
	if s := d.scope; s != nil && s.PenaltyEndNanos > d.now {
		text += fmt.Sprintf("; left alone until %s, after %s in a row", journalTime(s.PenaltyEndNanos), counted(int64(s.PenaltyRow), "refusal", "refusals"))
		lacks = true
	}
	return text, lacks
}

// bucket says how many tokens there are: full when new, refilled since.
func (d *keyState) bucket() (string, bool) {
	rate := d.limit.Spec.Rate.PerSecond()
	burst := float64(d.limit.Burst)
	tokens := burst
	if s := d.scope; s != nil {
		if s.RateMicros > 0 {
			rate = float64(s.RateMicros) / 1e6
		}
		tokens = min(burst, burst-float64(s.Used)+rate*float64(d.now-s.StartNanos)/1e9)
	}
	needs := math.Min(float64(d.cost)+1, burst)
	// One token stays behind, which absorbs the jitter of one interval.
	return fmt.Sprintf("%.4g of %d tokens at %.4g/s, needs %.4g", tokens, d.limit.Burst, rate, needs), tokens+1e-9 < needs
}

func (d *keyState) quota(priority string, retry bool) (string, bool) {
	p := d.projection
	if p == nil {
		return "untouched", false
	}
	most := p.Usable - p.Reserve
	dipped := d.scope != nil && d.scope.Dipped
	if priority == schema.PriorityCritical || retry && !dipped {
		most = p.Usable
	}
	carried := int64(0)
	if d.scope != nil {
		carried = d.scope.Carried
	}
	parts := []string{fmt.Sprintf("%d of %d used (%d usable, %d for retries) in the window until %s", p.Used, most, p.Usable, p.Reserve,
		journalTime(p.EndNanos))}
	if carried > 0 {
		parts = append(parts, fmt.Sprintf("%d more from before the turn", carried))
	}
	lacks := p.Used+carried+d.cost > most
	if s := d.scope; s != nil && s.Observed != nil {
		left := s.Observed.Remaining - (s.Used + s.Carried - s.Observed.UsedThen)
		parts = append(parts, fmt.Sprintf("the vendor showed %d left at %s, so %d now", s.Observed.Remaining, journalTime(s.Observed.AnsweredNanos), left))
		reserve := p.Usable - most
		lacks = lacks || d.now < s.Observed.AdmitUntilNanos && d.cost > left-s.Observed.Uncertain-reserve
	}
	if s := d.scope; s != nil && s.ExhaustedUntilNanos > d.now {
		parts = append(parts, "the vendor said that nothing is left until "+journalTime(s.ExhaustedUntilNanos))
		lacks = true
	}
	return strings.Join(parts, "; "), lacks
}

// sortAhead puts the waiting in the order in which they go.
func sortAhead(list []Ahead) {
	slices.SortFunc(list, func(a, b Ahead) int {
		return cmp.Or(-cmp.Compare(rankOf(a.Priority), rankOf(b.Priority)), a.Since.Compare(b.Since), cmp.Compare(a.Number, b.Number))
	})
}

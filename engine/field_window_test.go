package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/tapyr/tapyr/golden"
)

func TestFieldMidnightTwice(t *testing.T) { // CAL-06
	var in struct {
		Limit struct {
			Quota         int
			Per, Timezone string
		}
		Events []struct {
			T     time.Time
			Calls int
		}
	}
	var want struct{ Allowed, Denied []int }
	golden.Case(t, "CAL-06", &in, &want)
	d := newDesk(t, oneLimit(fmt.Sprintf("kind: quota, max: %d, window: { period: %s, timezone: %s }", in.Limit.Quota, in.Limit.Per, in.Limit.Timezone), ""))
	for i, ev := range in.Events {
		allowed, denied := d.many(ev.T.UnixNano(), ev.Calls)
		if allowed != want.Allowed[i] || denied != want.Denied[i] {
			t.Errorf("%v: %d allowed, %d denied, want %d, %d", ev.T, allowed, denied, want.Allowed[i], want.Denied[i])
		}
	}
}

// many asks for so many requests at once, and answers those that are granted.
func (d *desk) many(now int64, calls int) (allowed, denied int) {
	for range calls {
		ticket, refused := d.try(now)
		if refused != nil {
			denied++
			continue
		}
		allowed++
		d.Settle(now, ticket, &Response{Status: 200})
		d.Release(now, ticket)
	}
	return allowed, denied
}

func TestFieldRollingAcrossFallBack(t *testing.T) { // CAL-16
	var in struct {
		Limit struct {
			Quota  int
			Window string
		}
		Call time.Time
	}
	var want struct{ NextAllowed time.Time }
	golden.Case(t, "CAL-16", &in, &want)
	d := newDesk(t, oneLimit(fmt.Sprintf("kind: quota, max: %d, window: { rolling: %s }", in.Limit.Quota, in.Limit.Window), ""))
	at, next := in.Call.UnixNano(), want.NextAllowed.UnixNano()
	d.send(at, at, 200)
	if _, refused := d.try(next - 1); refused == nil || refused.RetryAtNanos != next {
		t.Errorf("a nanosecond before: %v, want a refusal until %v", refused, want.NextAllowed)
	}
	if _, refused := d.try(next); refused != nil {
		t.Errorf("at %v: %v", want.NextAllowed, refused)
	}
}

func TestFieldExternalUse(t *testing.T) { // LG-20
	var in struct {
		Quota          int64
		LedgerInWindow int
		HeadersEach    []struct {
			Remaining        int
			WindowJustRolled bool
			LedgerInWindow   int
		} `json:"headers_each"`
	}
	var want struct{ External []int64 }
	golden.Case(t, "LG-20", &in, &want)
	for i, h := range in.HeadersEach {
		d := newDesk(t, oneLimit(fmt.Sprintf(synced, in.Quota, "hour"), ""))
		now, used := int64(600e9), in.LedgerInWindow
		if h.WindowJustRolled {
			d.many(now, used)
			now, used = int64(3600e9+600e9), h.LedgerInWindow
		}
		d.many(now, used-1)
		d.send(now+1, now+2, 200, Field{"X-RateLimit-Remaining", fmt.Sprint(h.Remaining)})
		d.Projections(now+2, func(p *Projection) {
			if p.External != want.External[i] || p.Used != int64(used) {
				t.Errorf("remaining %d: external %d of used %d, want %d", h.Remaining, p.External, p.Used, want.External[i])
			}
		})
	}
}

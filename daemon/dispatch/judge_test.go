package dispatch

import (
	"testing"

	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

func TestJudge(t *testing.T) {
	plain := &validate.Provider{Spec: &schema.ProviderSpec{}}
	for _, test := range []struct {
		answer  Answer
		result  string
		outcome schedule.Outcome
		charge  Charge
	}{
		{Answer{Status: 200}, ResultOK, schedule.Succeeded, Charged},
		{Answer{Status: 204}, ResultOK, schedule.Succeeded, Charged},
		{Answer{Status: 304}, ResultRedirected, schedule.Rejected, MaybeCharged},
		{Answer{Status: 400}, ResultRejected, schedule.Rejected, NotCharged},
		{Answer{Status: 401}, ResultUnauthorized, schedule.Rejected, NotCharged},
		{Answer{Status: 402}, ResultUnauthorized, schedule.Rejected, NotCharged},
		{Answer{Status: 403}, ResultRejected, schedule.Rejected, NotCharged},
		{Answer{Status: 408}, ResultBusy, schedule.Transient, NotCharged},
		{Answer{Status: 409}, ResultRejected, schedule.Rejected, NotCharged},
		{Answer{Status: 429, Limited: true}, ResultLimited, schedule.RateLimited, NotCharged},
		{Answer{Status: 403, Limited: true}, ResultLimited, schedule.RateLimited, NotCharged},
		{Answer{Status: 500}, ResultServerError, schedule.Transient, MaybeCharged},
		{Answer{Status: 501}, ResultServerError, schedule.Rejected, NotCharged},
		{Answer{Status: 502}, ResultServerError, schedule.Transient, MaybeCharged},
		{Answer{Status: 503}, ResultBusy, schedule.Transient, NotCharged},
		{Answer{Status: 504}, ResultServerError, schedule.Transient, MaybeCharged},
		{Answer{Status: 505}, ResultServerError, schedule.Rejected, NotCharged},
		{Answer{Status: 520}, ResultServerError, schedule.Rejected, MaybeCharged},
		{Answer{}, ResultNoAnswer, schedule.Transient, MaybeCharged},
		{Answer{Timeout: true}, ResultTimeout, schedule.Transient, MaybeCharged},
		{Answer{Unsent: true}, ResultNotSent, schedule.Transient, NotCharged},
		{Answer{Unsent: true, Timeout: true}, ResultNotSent, schedule.Transient, NotCharged},
	} {
		v := Judge(plain, test.answer)
		if v.Result != test.result || v.Outcome != test.outcome || v.Charge != test.charge || v.AccountRefused != (test.result == ResultUnauthorized) {
			t.Errorf("%+v: %+v, want %s %s, charged %s", test.answer, v, test.result, test.outcome, test.charge)
		}
	}
	busy := &validate.Provider{Spec: &schema.ProviderSpec{}}
	busy.Spec.Errors.Transient = &schema.Transient{Status: []int{423}}
	if v := Judge(busy, Answer{Status: 423}); v.Result != ResultBusy || v.Outcome != schedule.Transient || v.Charge != NotCharged {
		t.Errorf("a transient status of the documents: %+v", v)
	}
}

// What follows is safe in every case: units never come back, and no other route is taken, while the vendor may have charged; and
// nothing is sent twice to a vendor that would charge twice.
func TestAfterIsSafe(t *testing.T) {
	plain := &validate.Provider{Spec: &schema.ProviderSpec{}}
	seen := make(map[Step]bool)
	for status := range 600 {
		for flags := range 16 {
			a := Answer{Status: status, Limited: flags&1 > 0 && status >= 400, Timeout: status == 0 && flags&2 > 0, Unsent: status == 0 && flags&4 > 0}
			if status > 0 && status < 200 {
				continue
			}
			doubted := flags&8 > 0
			for _, rules := range []Rules{{false, 3}, {true, 3}} {
				for tries := 1; tries <= 3; tries++ {
					v := Judge(plain, a)
					step := v.After(rules, tries, doubted)
					seen[step] = true
					doubt := doubted || v.Charge == MaybeCharged
					switch {
					case (step == Release || step == Unavailable) && (doubt || v.Charge == Charged),
						(step == Retry || step == Linger) && doubt && !rules.Repeatable,
						step == Retry && (tries >= rules.MaxAttempts || v.AccountRefused),
						(step == Settle) != (v.Charge == Charged),
						step == GiveUp && !doubt, step == Linger && !doubt:
						t.Fatalf("%+v after %d tries, in doubt %v, %+v: %s", a, tries, doubted, rules, step)
					}
				}
			}
		}
	}
	if len(seen) != 6 {
		t.Errorf("only %v were seen", seen)
	}
}

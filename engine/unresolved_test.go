package engine

import "testing"

// SF-01 in documents: a refusal of a request whose organization is not known yet penalizes nobody, and lowers no rate that others
// share; where the answer says which limit it was, that one is penalized all the same.
func TestUnresolvedRefusalPenalizesNobodyElse(t *testing.T) {
	const limit = "kind: rate, rate: 10/s, burst: 2, adaptive: { decrease: 0.5, increase: 0.2, floor: 1 }"
	for _, c := range []struct {
		name, errors string
		fields       []Field
		penalized    bool
	}{
		{"narrowest", "", nil, false},
		{"with a wait", "", []Field{{"Retry-After", "60"}}, false},
		{"all", "  errors: { rateLimited: { penalize: all } }", nil, false},
		{"named", "  errors: { rateLimited: { limitFrom: { header: X-Limit, values: { shared: l } } } }", []Field{{"X-Limit", "shared"}}, true},
		{"another named", "  errors: { rateLimited: { limitFrom: { header: X-Limit, values: { shared: l } } } }", []Field{{"X-Limit", "org"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, o := newHeard(t, oneLimit(limit, c.errors))
			known := d.p
			unresolved := plainRequest()
			unresolved.Unresolved = true
			var err error
			if d.p, err = d.Prepare(0, unresolved); err != nil {
				t.Fatal(err)
			}
			d.send(1, 2, 429, c.fields...)
			d.p = known
			if got := d.blockedFor(1e9) > 0; got != c.penalized {
				t.Errorf("others are penalized: %v, want %v", got, c.penalized)
			}
			if got := d.p.entries[0].cold.rate != nil; got != c.penalized {
				t.Errorf("others are slowed down: %v, want %v", got, c.penalized)
			}
			if o.limited != 1 || o.unexpected != 0 {
				t.Errorf("%d refusals were heard, %d of them unexpected; want 1 and 0", o.limited, o.unexpected)
			}
			reading, err := d.Read(1e15, unresolved, &Response{Status: 429, Fields: c.fields})
			if err != nil || !reading.RateLimited || (len(reading.PenaltyOn) == 1) != c.penalized {
				t.Errorf("%+v, %v", reading, err)
			}
			// The same answer to a request of which everything is known falls on what it shares.
			d.send(1e15, 1e15+1, 429, c.fields...)
			if d.blockedFor(1e15+1e9) == 0 {
				t.Error("a resolved request's refusal penalizes nothing: the test sees nothing")
			}
		})
	}
}

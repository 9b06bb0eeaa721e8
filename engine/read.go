package engine

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"time"
)

// Reading is what an engine reads from a response, for people.
type Reading struct {
	RateLimited bool `json:"rateLimited"`
	// PenaltySeconds is how long the first key of PenaltyOn is left alone, if this is the first refusal in a row.
	PenaltySeconds float64 `json:"penaltySeconds"`
	// PenaltyOn are the limits and keys that a penalty falls on; the limit is empty where none covers the request.
	PenaltyOn []struct {
		Limit string `json:"limit"`
		Key   string `json:"key"`
	} `json:"penaltyOn"`
	// Limits are the quotas whose headers say something; what they do not say is null.
	Limits []struct {
		Limit     string     `json:"limit"`
		Max       *int64     `json:"max"`
		Remaining *int64     `json:"remaining"`
		ResetAt   *time.Time `json:"resetAt"`
	} `json:"limits"`
	// Ignored are the values that are not believed.
	Ignored []string `json:"ignored"`
}

// Read tells what the engine reads from a response to a request that was granted in the same window. It changes nothing. The
// error is that of Prepare.
func (e *Engine) Read(now int64, q *Request, r *Response) (*Reading, error) {
	p, err := e.Prepare(now, q)
	if err != nil {
		return nil, err
	}
	rules := &p.account.provider.errors
	out := newReading(rules.outcomeOf(r) == outcomeLimited)
	if out.RateLimited {
		out.readPenalty(e, now, p, rules, r)
	}
	isCached := cached(r)
	if isCached {
		out.Ignored = append(out.Ignored, "the response comes from a cache, so it teaches nothing about limits")
	}
	for i := range p.entries {
		if en := &p.entries[i]; en.limit.sync != nil && !isCached {
			out.readQuota(now, en, r)
		}
	}
	return out, nil
}

// newReading has lists that are empty, not null.
func newReading(limited bool) *Reading {
	out := &Reading{RateLimited: limited, Ignored: []string{}}
	out.PenaltyOn, out.Limits = slices.Grow(out.PenaltyOn, 1), slices.Grow(out.Limits, 1)
	return out
}

func (out *Reading) readPenalty(e *Engine, now int64, p *Prepared, rules *errorRules, r *Response) {
	asked, parked, ok := rules.wait(r, now)
	if parked != "" {
		out.Ignored = append(out.Ignored, "the wait "+strconv.Quote(parked)+" is above maxPenalty, which holds instead")
	} else if text := findField(r.Fields, "Retry-After"); text != "" && !ok {
		out.Ignored = append(out.Ignored, "Retry-After "+strconv.Quote(text)+" asks for no wait, so the default holds")
	}
	p.penalizedBy(rules, r, func(en *entry) {
		if len(out.PenaltyOn) == 0 {
			wait := asked
			if !ok {
				wait = en.limit.base(rules)
			}
			out.PenaltySeconds = seconds(min(wait, rules.maxNanos))
		}
		out.PenaltyOn = append(out.PenaltyOn, struct {
			Limit string `json:"limit"`
			Key   string `json:"key"`
		}{en.limit.name, e.key(en.cold)})
	})
}

func (out *Reading) readQuota(now int64, en *entry, r *Response) {
	x, notes := en.limit.sync.read(r, now, nil)
	maximum := en.cold.maximum(now, en.variant)
	var limit struct {
		Limit     string     `json:"limit"`
		Max       *int64     `json:"max"`
		Remaining *int64     `json:"remaining"`
		ResetAt   *time.Time `json:"resetAt"`
	}
	limit.Limit = en.limit.name
	if x.hasMaximum {
		maximum = x.maximum
		limit.Max = &x.maximum
	}
	void := false
	if x.hasReset && !en.limit.rolling {
		span := en.limit.schedule.AtNanos(now)
		switch period := span.EndNanos - span.StartNanos; {
		case x.reset <= now:
			void = true
			out.ignore(en, "reset", r, "is over, so remaining, used and percent are void")
		case saturatedSub(x.reset, now) > saturatedAdd(period, period):
			out.ignore(en, "reset", r, "is more than two periods away")
		default:
			at := time.Unix(0, x.reset).UTC()
			limit.ResetAt = &at
		}
	}
	remaining, ok, tooMuch := x.left(maximum)
	if tooMuch != "" {
		out.ignore(en, tooMuch, r, "is above the maximum")
	}
	if ok && !void {
		limit.Remaining = &remaining
	}
	if limit.Max != nil || limit.Remaining != nil || limit.ResetAt != nil {
		out.Limits = append(out.Limits, limit)
	}
	for _, n := range notes {
		out.Ignored = append(out.Ignored, en.limit.name+": "+n.header+" "+strconv.Quote(n.text)+" cannot be")
	}
}

// ignore says why a value that can be read is not believed.
func (out *Reading) ignore(en *entry, header string, r *Response, why string) {
	y := en.limit.sync
	from := map[string]*reader{"reset": y.reset, "remaining": y.remaining, "percent": y.percent}[header]
	text := ""
	if from != nil {
		text = strconv.Quote(findField(r.Fields, from.name)) + " "
	}
	out.Ignored = append(out.Ignored, en.limit.name+": "+header+" "+text+why)
}

// CredentialKey is what stands for secrets in scope keys: an HMAC-SHA256 (RFC 2104) of them under a salt, 16 hexadecimal digits.
// It tells nothing about the secrets to those who do not know the salt.
func CredentialKey(salt []byte, secrets ...string) string {
	mac := hmac.New(sha256.New, salt)
	for _, s := range secrets {
		var length [8]byte // keeps "ab", "c" and "a", "bc" apart
		binary.BigEndian.PutUint64(length[:], uint64(len(s)))
		mac.Write(length[:])
		mac.Write([]byte(s))
	}
	return hex.EncodeToString(mac.Sum(nil))[:16]
}

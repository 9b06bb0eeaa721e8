package smartflow

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Clock is the time the limiter lives in. The clock of this package's shell is used
// where a Config names none; tests and simulations bring their own.
type Clock interface {
	// Monotonic is the time since any fixed moment. It never goes back.
	Monotonic() time.Duration
	// Wall is the time of day, for the cache file and for Retry-After dates.
	Wall() time.Time
	// Sleep waits until d has passed or ctx is done, and returns ctx.Err() in the
	// second case.
	Sleep(ctx context.Context, d time.Duration) error
}

// Resolver asks the API which organization a network or a device belongs to; an
// empty answer means that it does not know. It runs in the goroutine of the request
// that needs it, at most once at a time for a key. A resolver that sends its requests
// through the same Transport must pass ctx on: that is how the limiter knows not to
// wait for the look-up within itself.
type Resolver func(ctx context.Context, key Key) (organization string, err error)

// Hydrator is called once for an organization after the first look-up that led to
// it. It may register all networks and devices of the organization, which saves
// their look-ups. What is said of ctx at Resolver holds here too.
type Hydrator func(ctx context.Context, organization string) error

// Config configures a Limiter. The zero value is the published defaults, without
// look-ups and without a cache.
type Config struct {
	// OrgRatePerSecond is the rate of each organization; 0 = 10, the vendor's limit.
	// A little less, 9 for example, leaves room for other clients.
	OrgRatePerSecond float64
	// OrgBurst is how many requests an idle organization may send at once; 0 = the
	// whole part of OrgRatePerSecond, at least 1. With 1 they are spaced, so a server
	// that lowers its limit refuses one of them and not all that are in flight.
	OrgBurst int64
	// GlobalRatePerSecond is the rate of all requests together, which the vendor
	// limits for each source address; 0 = 100.
	GlobalRatePerSecond float64
	// GlobalBurst is how many requests may go at once after a quiet time; 0 = the whole
	// part of GlobalRatePerSecond, at least 1. A server that counts by the second, where
	// the vendor's has a bucket of its own, wants bursts and rates whose sums are within
	// its limits.
	GlobalBurst int64
	// DecreaseHold is how long a decrease of a rate forbids the next one; 0 = every
	// 429 decreases, as published. With it, the 429s of requests that were in flight
	// together count once.
	DecreaseHold time.Duration

	// Resolver and Hydrator find organizations that no response has named yet; nil =
	// a request whose organization is unknown pays the global rate only.
	Resolver Resolver
	Hydrator Hydrator

	// Cache keeps what was learned between runs; nil = nothing is kept.
	Cache Cache
	// CacheTTL is how long a cache file is used; 0 = 7 days, negative = for ever.
	CacheTTL time.Duration
	// FlushEvery is the number of new mappings after which the cache is stored in the
	// background; 0 = 50.
	FlushEvery int64

	// Clock is the time; nil = the time of this machine.
	Clock Clock
	// Warn is told what went wrong without stopping anything: a *CacheError, or the
	// error of a resolver or a hydrator. It may be called by several goroutines at
	// once. nil = nobody is told.
	Warn func(error)
}

// ConfigError says which field of a Config, a LearnSpec or a Transport cannot be
// used.
type ConfigError struct {
	Field  string // the name of the field, with an index where it is a list
	Value  string // as text
	Reason string // what it must be
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("smartflow: %s is %q: %s", e.Field, e.Value, e.Reason)
}

// settings are a checked Config with its defaults filled in. The reference dialect
// goes round the checks: a recorded sequence may have a capacity or a rate of 0.
type settings struct {
	orgRate, orgCapacity       float64
	globalRate, globalCapacity float64
	decreaseHold               time.Duration
	resolver                   Resolver
	hydrator                   Hydrator
	cache                      Cache
	ttl                        ttl
	flushEvery                 int64
	clock                      Clock
	warn                       func(error)
	dialect                    dialect
	trace                      *trace // nil except under Conform
}

// The published defaults, section 2 of the specification.
const (
	defaultOrgRate    = 10
	defaultGlobalRate = 100
	defaultFlushEvery = 50
)

// settings checks c and fills in what it leaves out.
func (c Config) settings() (settings, error) {
	s := settings{
		decreaseHold: c.DecreaseHold, resolver: c.Resolver, hydrator: c.Hydrator, cache: c.Cache,
		flushEvery: c.FlushEvery, clock: c.Clock, warn: c.Warn,
		ttl: ttl{length: c.CacheTTL, never: c.CacheTTL < 0},
	}
	var err error
	if s.orgRate, err = checkedRate("OrgRatePerSecond", c.OrgRatePerSecond, defaultOrgRate); err != nil {
		return s, err
	}
	if s.globalRate, err = checkedRate("GlobalRatePerSecond", c.GlobalRatePerSecond, defaultGlobalRate); err != nil {
		return s, err
	}
	s.orgCapacity = max(1, math.Trunc(s.orgRate))
	s.globalCapacity = max(1, math.Trunc(s.globalRate))
	for field, v := range map[string]int64{"OrgBurst": c.OrgBurst, "GlobalBurst": c.GlobalBurst, "FlushEvery": c.FlushEvery} {
		if v < 0 {
			return s, &ConfigError{field, strconv.FormatInt(v, 10), "must be at least 1, or 0 for the default"}
		}
	}
	if c.OrgBurst > 0 {
		s.orgCapacity = float64(c.OrgBurst)
	}
	if c.GlobalBurst > 0 {
		s.globalCapacity = float64(c.GlobalBurst)
	}
	if c.DecreaseHold < 0 {
		return s, &ConfigError{"DecreaseHold", c.DecreaseHold.String(), "must not be negative; 0 decreases at every 429"}
	}
	if c.FlushEvery == 0 {
		s.flushEvery = defaultFlushEvery
	}
	if c.CacheTTL == 0 {
		s.ttl.length = defaultTTL
	}
	if s.clock == nil {
		s.clock = newSystemClock()
	}
	return s, nil
}

// checkedRate checks a rate; 0 stands for the default.
func checkedRate(field string, v, byDefault float64) (float64, error) {
	if v == 0 {
		return byDefault, nil
	}
	if !(v > 0) || math.IsInf(v, 1) { // a NaN is not above 0 either
		return 0, &ConfigError{field, strconv.FormatFloat(v, 'g', -1, 64), "must be a finite number above 0, or 0 for the default"}
	}
	return v, nil
}

// DefaultCachePath is where the specification keeps the cache file:
// .meraki/.cache/rate_limit_cache.json in the home directory of the user.
func DefaultCachePath() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("smartflow: no default place for the cache: %w; name a path instead", err)
	}
	return filepath.Join(home, ".meraki", ".cache", "rate_limit_cache.json"), nil
}

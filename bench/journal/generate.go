package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/ledger/journal"
)

// quota is the daily limit of an account at the provider.
const quota = 500_000

// generator makes rows. Everything about them follows from its fields.
type generator struct {
	rows                    int64
	seed                    uint64
	accounts, organizations int
	disorder                float64
}

// endpoint is one of the things that the traffic asks for.
type endpoint struct {
	path, job, priority string
	weight              int
}

var endpoints = []endpoint{
	{"/organizations/{organizationId}/devices", "devices", "normal", 50},
	{"/organizations/{organizationId}/devices/statuses", "statuses", "high", 30},
	{"/organizations/{organizationId}/networks", "networks", "normal", 15},
	{"/organizations/{organizationId}/configurationChanges", "changes", "low", 5},
}

// start is a day with a whole month before it is out.
var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// write writes all rows.
func (g *generator) write(w io.Writer) error {
	rnd := rand.New(rand.NewPCG(g.seed, 7))
	used := make([]int64, g.accounts)
	day := -1
	var late [][]byte
	var row journal.Row
	row.Headers = map[string]string{}
	var buf []byte
	step := 30 * 24 * float64(time.Hour) / float64(max(g.rows, 1))
	clock := float64(0)
	for range g.rows {
		at := start.Add(time.Duration(clock))
		// By day three times the traffic of the night: the steps between requests are shorter.
		busy := 0.5
		if hour := at.Hour(); hour >= 7 && hour < 19 {
			busy = 1.5
		}
		clock += step / busy * rnd.Float64() * 1.999
		if at.YearDay() != day {
			day = at.YearDay()
			clear(used)
		}
		g.fill(&row, rnd, at, used)
		buf = append(row.AppendJSON(buf[:0]), '\n')
		if g.disorder > 0 && rnd.Float64() < g.disorder {
			late = append(late, append([]byte(nil), buf...))
		} else if _, err := w.Write(buf); err != nil {
			return err
		}
		if len(late) > 0 && (len(late) >= 200 || rnd.IntN(50) == 0) {
			if err := writeAll(w, late); err != nil {
				return err
			}
			late = late[:0]
		}
	}
	return writeAll(w, late)
}

func writeAll(w io.Writer, lines [][]byte) error {
	for _, l := range lines {
		if _, err := w.Write(l); err != nil {
			return err
		}
	}
	return nil
}

// fill makes the row of one request.
func (g *generator) fill(row *journal.Row, rnd *rand.Rand, at time.Time, used []int64) {
	org := rnd.IntN(g.organizations)
	account := org % g.accounts
	e := pick(rnd)
	used[account]++
	row.ID = ulid(at, rnd)
	row.At = at.Truncate(time.Millisecond)
	row.Request = journal.Request{
		Provider: "meraki", Account: accountName(account), Credential: fmt.Sprintf("%016x", uint64(account+1)*0x9e3779b97f4a7c15),
		Method: "GET", Endpoint: e.path, Vars: map[string]string{"organizationId": strconv.Itoa(500_000 + org)}, Job: e.job,
		Priority: e.priority, Retry: rnd.IntN(100) == 0,
	}
	row.Status, row.Latency = 200, time.Duration(40+rnd.IntN(400))*time.Millisecond
	clear(row.Headers)
	row.Headers["X-RateLimit-Limit-day"] = strconv.Itoa(quota)
	row.Headers["X-RateLimit-Remaining-day"] = strconv.FormatInt(max(quota-used[account], 0), 10)
	switch n := rnd.IntN(1000); {
	case n < 2:
		row.Status = 429
		row.Headers["Retry-After"] = strconv.Itoa(1 + rnd.IntN(5))
	case n < 5:
		row.Status = 503
	}
}

func accountName(number int) string { return "account-" + strconv.Itoa(1000+number) }

func pick(rnd *rand.Rand) endpoint {
	n := rnd.IntN(100)
	for _, e := range endpoints {
		if n < e.weight {
			return e
		}
		n -= e.weight
	}
	return endpoints[0]
}

// ulid makes an identifier of 26 characters that sorts by time: https://github.com/ulid/spec.
func ulid(at time.Time, rnd *rand.Rand) string {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var id [26]byte
	for ms, i := at.UnixMilli(), 9; i >= 0; i-- {
		id[i] = alphabet[ms&31]
		ms >>= 5
	}
	for i := 10; i < 26; i++ {
		id[i] = alphabet[rnd.IntN(32)]
	}
	return string(id[:])
}

package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// An instance that missed a start while nothing ran starts once, soon, and is then back in its phase; one that ran a moment ago waits.
func TestRan(t *testing.T) {
	config := validatetest.Config(t, documents("", "", "x interval: 1h, request: { endpoint: /x }"))
	intervals := map[string]time.Duration{"x": time.Hour}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixNano()
	fresh := schedule.New(config)
	adopt(fresh, config, now, intervals)
	slot, _ := fresh.Next() // the first of its phase
	for name, c := range map[string]struct {
		ran      int64
		from, to int64 // when it starts
		missed   int64
	}{
		"never":                  {0, slot, slot, 0},
		"three hours ago":        {slot - int64(4*time.Hour), now, now + int64(5*time.Minute), 2},
		"a week ago":             {slot - int64(169*time.Hour), now, now + int64(5*time.Minute), 167},
		"by its phase":           {slot - int64(time.Hour), slot, slot, 0},
		"just now":               {now, slot, slot + int64(time.Hour), 0},
		"five minutes ago":       {now - int64(5*time.Minute), slot, slot + int64(time.Hour), 0},
		"by a clock of tomorrow": {now + int64(24*time.Hour), slot, slot, 0},
	} {
		s := schedule.New(config)
		if c.ran != 0 {
			s.Ran("x", c.ran)
			s.Ran("x", c.ran-int64(time.Hour)) // an older one changes nothing
		}
		adopt(s, config, now, intervals)
		start, ok := s.Next()
		if !ok || start < c.from || start > c.to {
			t.Errorf("%s: starts %v after now, want %v to %v", name, time.Duration(start-now), time.Duration(c.from-now), time.Duration(c.to-now))
			continue
		}
		due, missed := s.Due(start)
		if due == nil || missed != c.missed {
			t.Errorf("%s: %v, %d missed, want %d", name, due, missed, c.missed)
			continue
		}
		s.Finish(due)
		next, _ := s.Next()
		if (next-slot)%int64(time.Hour) != 0 || next-start < int64(30*time.Minute) || next-start > int64(90*time.Minute) {
			t.Errorf("%s: the start after %v is %v later, the phase %v", name, time.Duration(start-now), time.Duration(next-start), time.Duration(slot-now))
		}
	}
}

// What a fan-out missed is not made up for all at once.
func TestRanSpreads(t *testing.T) {
	config := validatetest.Config(t, documents("", "",
		"list interval: 1h, request: { endpoint: /list }, inventory: { items: response, vars: { n: item } }", "each interval: 1h, forEach: list, request: { endpoint: '/{n}' }"))
	var items []map[string]string
	for i := range 100 {
		items = append(items, map[string]string{"n": fmt.Sprint(i)})
	}
	s := schedule.New(config)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixNano()
	s.SetItems(s.Instance("list"), items)
	for _, i := range s.Instances("each") {
		s.Ran(i.Name, now-int64(5*time.Hour))
	}
	s.Ran("list", now-int64(time.Minute))
	adopt(s, config, now, map[string]time.Duration{"list": time.Hour, "each": time.Hour})
	perMinute := make(map[int64]int)
	for _, i := range s.Instances("each") {
		perMinute[(i.NextNanos()-now)/int64(time.Minute)]++
	}
	for minute, n := range perMinute {
		if minute < 0 || minute > 4 || n < 15 || n > 25 {
			t.Errorf("%d of 100 in minute %d", n, minute)
		}
	}
	if next := s.Instance("list").NextNanos(); next-now < int64(29*time.Minute) {
		t.Errorf("the inventory, told a minute ago, is asked for again after %v", time.Duration(next-now))
	}
}

// Whenever a process dies and comes back, starts are at least half an interval apart, at most one and a half and the making up.
func TestRestartsKeepTheRhythm(t *testing.T) {
	config := validatetest.Config(t, documents("", "", "x interval: 1h, request: { endpoint: /x }"))
	intervals := map[string]time.Duration{"x": time.Hour}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixNano()
		var last int64
		for range rapid.IntRange(2, 12).Draw(t, "lives") {
			s := schedule.New(config)
			if last != 0 {
				s.Ran("x", last)
			}
			born := now
			adopt(s, config, now, intervals)
			end := now + rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "life")
			for {
				next, _ := s.Next()
				if next > end {
					break
				}
				if last != 0 && next-last < int64(30*time.Minute) {
					t.Fatalf("%v after the last", time.Duration(next-last))
				}
				if latest := max(last+int64(90*time.Minute), born+int64(5*time.Minute)); last != 0 && next > latest {
					t.Fatalf("%v after the last, %v after the birth", time.Duration(next-last), time.Duration(next-born))
				}
				due, _ := s.Due(next)
				s.Finish(due)
				last = next
			}
			now = end + rapid.Int64Range(0, int64(5*time.Hour)).Draw(t, "gap")
		}
	})
}

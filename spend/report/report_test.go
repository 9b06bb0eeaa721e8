package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/spendtest"
)

var t0 = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func policy(t testing.TB, account, tracking string) *spend.Policy {
	return spendtest.Policy(t, fmt.Sprintf(`
apiVersion: tapyr/v1alpha1
kind: SpendPolicy
metadata: { name: p }
spec:
  version: v-%s-%s
  unit: EUR
  account: { limit: %q, bands: [0.5, 0.9], window: { every: 1h } }
  routes:
    standard: { cost: "2", class: gold }
    economy: { cost: "1" }
  capabilities:
    tracking: { limit: %q, routes: [standard, economy], fallback: defer, deadline: 90m, onDeadline: minimal, essential: true }
    summary: { limit: "100", protected: "3", routes: [standard], fallback: reject }
`, account, tracking, account, tracking))
}

func TestMake(t *testing.T) {
	ctx, store := context.Background(), book.NewMemory()
	if _, err := Make(ctx, store, "p", t0); !errors.As(err, new(*spend.NoPolicyError)) {
		t.Fatalf("a report of nothing: %v", err)
	}
	m := spendtest.Publish(t, store, t0, policy(t, "10", "4"))
	r, err := Make(ctx, store, "p", t0)
	if err != nil {
		t.Fatal(err)
	}
	if r.Account.Headroom.String() != "10" || r.Account.Protected.String() != "3" || r.OldestDeferred != nil || len(r.Days) != 0 {
		t.Errorf("an empty book: %+v", r)
	}
	for i := range 7 { // two by standard, the rest waits
		if _, err := m.Admit(ctx, t0.Add(time.Duration(i)*time.Minute), spend.Admission{EventID: fmt.Sprint("t", i), Capability: "tracking"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Admit(ctx, t0.Add(8*time.Minute), spend.Admission{EventID: "s", Capability: "summary"}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Settle(ctx, t0.Add(9*time.Minute), "s", spendtest.Units(t, "2.5")); err != nil {
		t.Fatal(err)
	}
	if r, err = Make(ctx, store, "p", t0.Add(10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	line := func(l Line) string {
		return fmt.Sprintf("%s limit %s used %s reserved %s settled %s headroom %s protected %s deferred %d oldest %v",
			l.Capability, l.Limit, l.Used, l.Reserved, l.Settled, l.Headroom, l.Protected, l.Deferred, l.OldestSeconds)
	}
	for got, want := range map[string]string{
		line(r.Account):         " limit 10 used 6.5 reserved 4.0 settled 2.5 headroom 3.5 protected 0.5 deferred 5 oldest 480",
		line(r.Capabilities[0]): "summary limit 100 used 2.5 reserved 0.0 settled 2.5 headroom 97.5 protected 0.5 deferred 0 oldest 0",
		line(r.Capabilities[1]): "tracking limit 4 used 4 reserved 4 settled 0 headroom 0 protected 0 deferred 5 oldest 480",
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if r.OldestEssential == nil || r.OldestEssential.EventID != "t2" || !r.OldestDeferred.Deadline.Equal(t0.Add(92*time.Minute)) {
		t.Errorf("oldest %+v, essential %+v", r.OldestDeferred, r.OldestEssential)
	}
	if len(r.Bands) != 1 || r.Bands[0].Band != "0.5" {
		t.Errorf("bands %+v", r.Bands)
	}
	var days []string
	for _, d := range r.Days {
		days = append(days, fmt.Sprintf("%s %s %s %s %d %s %s", d.Day, d.Capability, d.RouteClass, d.Disposition, d.Events, d.Reserved, d.Settled))
	}
	want := "2026-11-01 summary gold dispatch 1 0 2.5\n2026-11-01 tracking  defer 5 0 0\n2026-11-01 tracking gold dispatch 2 4 0"
	if got := strings.Join(days, "\n"); got != want {
		t.Errorf("days\n%s\nwant\n%s", got, want)
	}
	if text, err := json.Marshal(r); err != nil || !strings.Contains(string(text), `"headroom":"3.5"`) {
		t.Errorf("amounts must be texts: %s, %v", text, err)
	}
}

// traffic is ten hours: twelve tracking events in the first, one in each of the others, and summaries beside them.
func traffic() []Event {
	var events []Event
	add := func(id, capability string, at time.Duration) {
		events = append(events, Event{spend.Admission{EventID: id, Capability: capability}, t0.Add(at)})
	}
	for i := range 12 {
		add(fmt.Sprint("t", i), "tracking", time.Duration(i)*time.Minute)
	}
	for h := 1; h < 10; h++ {
		add(fmt.Sprint("h", h), "tracking", time.Duration(h)*time.Hour+time.Minute)
		add(fmt.Sprint("s", h), "summary", time.Duration(h)*time.Hour+2*time.Minute)
	}
	add("t3", "tracking", 20*time.Minute) // a retry
	add("x", "unheard", time.Minute)
	add("", "tracking", time.Minute)
	return events
}

func TestDryRun(t *testing.T) {
	r, err := DryRun(context.Background(), policy(t, "10", "4"), traffic())
	if err != nil {
		t.Fatal(err)
	}
	if r.Events != 30 || r.Repeated != 1 || r.Refused != 2 || r.Unknown["unheard"] != 1 {
		t.Errorf("counts: %+v", r)
	}
	// The first two of twelve get a route at once, two more at 1:00, before their deadlines; the other eight of them end at
	// their deadlines, 1:34 to 1:41. h1 comes when the window is full and waits to 2:00 with nobody before it.
	var mix []string
	for _, s := range r.Mix {
		mix = append(mix, fmt.Sprintf("%s %s %d %s %.3f", s.Capability, s.RouteClass, s.Events, s.Units, s.Part))
	}
	want := "summary gold 9 18 1.000, tracking gold 13 26 0.619, tracking minimal 8 0 0.381"
	if got := strings.Join(mix, ", "); got != want {
		t.Errorf("mix %s, want %s", got, want)
	}
	// Each of those that expired waited the whole 90 minutes, to the second.
	if r.Wait == nil || r.Wait.WaitSeconds != 5400 || r.Wait.Ended != book.Minimal || r.Wait.EventID != "t4" {
		t.Errorf("longest wait %+v", r.Wait)
	}
	if len(r.Exhausted) != 2 || r.Exhausted[0].EventID != "t2" || r.Exhausted[0].AccountHeadroom.String() != "3" ||
		r.Exhausted[0].Used.String() != "4" || r.Exhausted[1].EventID != "h1" {
		t.Errorf("exhausted %+v", r.Exhausted)
	}
	if r.Report.Account.Deferred != 0 || r.Report.Version != "v-10-4" || len(r.Report.Days) != 3 {
		t.Errorf("report %+v", r.Report)
	}
	// In any order of lines the same.
	events := traffic()
	for i, j := 0, len(events)-1; i < j; i, j = i+1, j-1 {
		events[i], events[j] = events[j], events[i]
	}
	again, err := DryRun(context.Background(), policy(t, "10", "4"), events)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(r)
	b, _ := json.Marshal(again)
	if string(a) != string(b) {
		t.Errorf("the same events in another order of lines\n%s\n%s", a, b)
	}
	if empty, err := DryRun(context.Background(), policy(t, "10", "4"), nil); err != nil || empty.Events != 0 || empty.Report == nil {
		t.Errorf("no events: %+v, %v", empty, err)
	}
}

func TestCompare(t *testing.T) {
	ctx := context.Background()
	before, err := DryRun(ctx, policy(t, "10", "4"), traffic())
	if err != nil {
		t.Fatal(err)
	}
	after, err := DryRun(ctx, policy(t, "100", "50"), traffic())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range Compare(before, after) {
		got = append(got, fmt.Sprintf("%s %s %d-%d %s", c.Capability, c.RouteClass, c.OldEvents, c.NewEvents, c.Units))
	}
	want := "tracking gold 13-21 16, tracking minimal 8-0 0, summary gold 9-9 0"
	if strings.Join(got, ", ") != want {
		t.Errorf("changes %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestReadEvents(t *testing.T) {
	text := "\ufeff{\"event_id\":\"e1\",\"capability\":\"a\",\"at\":\"2026-11-01T01:00:00+01:00\",\"class\":\"c\",\"size\":7,\"more\":[1]}\r\n\n" +
		"{\"event_id\":\"e2\"}\n{\"capability\":\"a\"}\n{\"event_id\":\"e2\",\"capability\":\"a\"}\n{\n[]\n{\"event_id\":1}\n" +
		"{\"event_id\":\"e3\",\"capability\":\"a\",\"at\":\"2026-11-01T00:00:01Z\",\"size\":-1}"
	var events []Event
	var lines []int
	for e, err := range ReadEvents(strings.NewReader(text)) {
		var bad *EventError
		switch {
		case errors.As(err, &bad):
			lines = append(lines, bad.Line)
		case err != nil:
			t.Fatal(err)
		default:
			events = append(events, e)
		}
	}
	if fmt.Sprint(lines) != "[3 4 5 6 7 8]" || len(events) != 2 || !events[0].At.Equal(t0) || events[0].Class != "c" || events[0].Size != 7 {
		t.Errorf("events %+v, bad lines %v", events, lines)
	}
	n := 0
	for _, err := range ReadEvents(strings.NewReader(strings.Repeat("x", 2<<20))) {
		if n++; !errors.As(err, new(*EventError)) {
			t.Errorf("a line of two megabytes: %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d results for one long line", n)
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add(`{"event_id":"e1","capability":"a","at":"2026-11-01T00:00:00Z"}`)
	f.Add("{}\n\n[1]")
	f.Fuzz(func(t *testing.T, text string) {
		for e, err := range ReadEvents(strings.NewReader(text)) {
			if err == nil && (e.EventID == "" || e.Capability == "" || e.At.IsZero()) {
				t.Fatalf("%q gave %+v", text, e)
			}
		}
	})
}

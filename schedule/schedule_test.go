package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/golden"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

const head = "apiVersion: tapyr/v1alpha1\nkind: "

// documents are a provider, an account, and jobs.
func documents(provider, account string, jobs ...string) string {
	text := head + "Provider\nmetadata: { name: vendor }\nspec: { baseURL: https://api.example.com, " + provider + " }\n---\n" +
		head + "Account\nmetadata: { name: acme }\nspec: { provider: vendor, " + account + " }\n"
	for _, j := range jobs {
		name, spec, _ := strings.Cut(j, " ")
		text += "---\n" + head + "Job\nmetadata: { name: " + name + " }\nspec: { account: acme, " + spec + " }\n"
	}
	return text
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixNano()

const second, minute = int64(time.Second), int64(time.Minute)

// adopt makes a plan and takes it over.
func adopt(s *schedule.Schedule, config *validate.Config, now int64, intervals map[string]time.Duration) []schedule.Change {
	p := plan.Make(plan.Input{Config: config, At: time.Unix(0, now), State: &plan.State{Inventories: s.Inventories()}})
	for i := range p.Jobs {
		if d, set := intervals[p.Jobs[i].Job]; set {
			p.Jobs[i].EffectiveSeconds = d.Seconds()
		}
	}
	return s.Adopt(now, p)
}

// starts lists what begins in [from, to), each run ending at once.
func starts(s *schedule.Schedule, from, to int64) (names []string, at []int64) {
	for {
		next, ok := s.Next()
		if !ok || next >= to {
			return names, at
		}
		due, _ := s.Due(max(next, from))
		names, at = append(names, due.Name), append(at, max(next, from))
		s.Finish(due)
	}
}

// PL-09: every 13 minutes is elapsed time, 110 or 111 runs a day, whatever the hour says.
func TestFieldPL09(t *testing.T) {
	var in struct {
		Job struct{ Every string }
	}
	var want struct{ RunsPerDayMax, RunsPerDayMin int }
	golden.Case(t, "PL-09", &in, &want)
	config := validatetest.Config(t, documents("limits: []", "vars: {}", "poll interval: "+in.Job.Every+", request: { endpoint: /poll }"))
	s := schedule.New(config)
	adopt(s, config, noon, nil)
	every := 13 * minute
	for day := range int64(5) {
		from := noon + day*1440*minute
		_, at := starts(s, from, from+1440*minute)
		if len(at) < want.RunsPerDayMin || len(at) > want.RunsPerDayMax {
			t.Errorf("%d runs on day %d, want %d to %d", len(at), day, want.RunsPerDayMin, want.RunsPerDayMax)
		}
		for i := 1; i < len(at); i++ {
			if at[i]-at[i-1] != every {
				t.Fatalf("two starts are %s apart", time.Duration(at[i]-at[i-1]))
			}
		}
	}
}

// PL-10: jobs of one interval do not start on the same tick, and at the same instants after a restart.
func TestFieldPL10(t *testing.T) {
	var in struct {
		Jobs  int
		Every string
	}
	var want struct {
		MaxStartsInAnySecond int
		MeanSpacingSeconds   float64
	}
	golden.Case(t, "PL-10", &in, &want)
	var jobs []string
	for i := range in.Jobs {
		jobs = append(jobs, fmt.Sprintf("job%d interval: %s, request: { endpoint: /j%d }", i, in.Every, i))
	}
	config := validatetest.Config(t, documents("limits: []", "vars: {}", jobs...))
	s := schedule.New(config)
	adopt(s, config, noon, nil)
	names, at := starts(s, noon, noon+minute)
	if len(at) != 6*in.Jobs {
		t.Errorf("%d starts in a minute, want %d", len(at), 6*in.Jobs)
	}
	for i, first := range at {
		n := 0
		for _, other := range at[i:] {
			if other < first+second {
				n++
			}
		}
		if n > want.MaxStartsInAnySecond {
			t.Fatalf("%d starts within a second", n)
		}
	}
	if mean := float64(at[len(at)-1]-at[0]) / float64(len(at)-1) / 1e9; mean < want.MeanSpacingSeconds*0.99 || mean > want.MeanSpacingSeconds*1.01 {
		t.Errorf("starts are %v s apart on average, want %v", mean, want.MeanSpacingSeconds)
	}
	again := schedule.New(config)
	adopt(again, config, noon+7*second, nil)
	names2, at2 := starts(again, noon+7*second, noon+minute)
	skip := len(names) - len(names2)
	if fmt.Sprint(names[skip:], at[skip:]) != fmt.Sprint(names2, at2) {
		t.Error("after a restart the jobs start at other instants")
	}
}

// TestOneRunAtATime: a start that comes while the last run goes on waits for its end, and several are made up for by one.
func TestOneRunAtATime(t *testing.T) {
	config := validatetest.Config(t, documents("limits: []", "vars: {}", "poll interval: 1m, request: { endpoint: /poll }"))
	s := schedule.New(config)
	adopt(s, config, noon, nil)
	first, _ := s.Next()
	due, missed := s.Due(first)
	if due == nil || missed != 0 || !due.Running() {
		t.Fatalf("due %v, missed %d", due, missed)
	}
	if _, ok := s.Next(); ok {
		t.Fatal("a second start while the run goes on")
	}
	if again, _ := s.Due(first + 10*minute); again != nil {
		t.Fatal("a second run of the same instance")
	}
	s.Finish(due)
	s.Finish(due) // does nothing
	late := first + 3*minute + 30*second
	due, missed = s.Due(late)
	if due == nil || missed != 2 {
		t.Fatalf("after 3.5 intervals: %v, %d missed starts made up for; want one run for the starts of minutes 1 to 3", due, missed)
	}
	s.Finish(due)
	if next, _ := s.Next(); next != first+4*minute {
		t.Errorf("the next start is at +%s, want +4m: the grid stays", time.Duration(next-first))
	}
}

// TestSleep: whatever was missed while the machine slept runs once.
func TestSleep(t *testing.T) {
	config := validatetest.Config(t, documents("limits: []", "vars: {}", "a interval: 1m, request: { endpoint: /a }", "b interval: 7m, request: { endpoint: /b }"))
	s := schedule.New(config)
	adopt(s, config, noon, nil)
	starts(s, noon, noon+30*minute)
	morning := noon + 1000*minute
	names, _ := starts(s, morning, morning+1)
	if len(names) != 2 {
		t.Errorf("after a sleep %v run at once, want each job once", names)
	}
	if next, _ := s.Next(); next <= morning || next > morning+minute {
		t.Errorf("the next start is %s later", time.Duration(next-morning))
	}
}

// TestNewInterval: the next start is the last one plus the new interval; a shorter one makes nobody overdue at once.
func TestNewInterval(t *testing.T) {
	config := validatetest.Config(t, documents("limits: []", "vars: {}", "list interval: 1h, request: { endpoint: /l }, inventory: { items: response, vars: { id: item.id } }",
		"poll interval: 10m, forEach: list, request: { endpoint: \"/poll/{id}\" }"))
	s := schedule.New(config)
	adopt(s, config, noon, nil)
	list, _ := s.Due(noon)
	var items []map[string]string
	for i := range 20 {
		items = append(items, map[string]string{"id": fmt.Sprint(i)})
	}
	s.SetItems(list, items)
	s.Finish(list)
	adopt(s, config, noon+second, nil)
	_, before := starts(s, noon+second, noon+12*minute)
	now := noon + 12*minute
	changes := adopt(s, config, now, map[string]time.Duration{"poll": 20 * time.Minute})
	if len(changes) != 0 {
		t.Fatalf("a longer interval was taken though the old one fits: %v", changes)
	}
	changes = adopt(s, config, now, map[string]time.Duration{"poll": 5 * time.Minute})
	if len(changes) != 1 || changes[0] != (schedule.Change{Job: "poll", From: 10 * time.Minute, To: 5 * time.Minute}) {
		t.Fatalf("changes %v", changes)
	}
	names, at := starts(s, now, now+5*minute)
	if len(names) != 20 {
		t.Errorf("%d starts in the first new interval, want each of the 20 once", len(names))
	}
	for i, first := range at {
		n := 0
		for _, other := range at[i:] {
			if other < first+15*second {
				n++
			}
		}
		if n > 3 { // 20 in 5 minutes are one in 15 s
			t.Errorf("%d starts within 15 s: the shorter interval makes a burst", n)
			break
		}
	}
	if len(before) < 18 {
		t.Errorf("%d starts before, want each at least about once", len(before))
	}
}

// TestInventories: items become instances, with their ancestors' variables; those that leave are forgotten; a failed refresh, which sets
// nothing, changes nothing.
func TestInventories(t *testing.T) {
	config := validatetest.Config(t, documents("limits: []", "targets: [{ name: east, baseURL: https://e.example.com }, { name: west, baseURL: https://w.example.com }]",
		"orgs interval: 1h, request: { endpoint: /orgs }, inventory: { items: response, vars: { org: item.id } }",
		"nets interval: 1h, forEach: orgs, request: { endpoint: \"/orgs/{org}/nets\" }, inventory: { items: response, vars: { net: item.id } }",
		"clients interval: 1h, forEach: nets, request: { endpoint: \"/nets/{net}/clients\" }"))
	s := schedule.New(config)
	if s.PlanAt(noon) != noon {
		t.Error("the first plan is not wanted at once")
	}
	adopt(s, config, noon, nil)
	if names, _ := starts(s, noon, noon+1); fmt.Sprint(names) != "[orgs target=east orgs target=west]" {
		t.Fatalf("%v start at once, want the jobs that others wait for", names)
	}
	if s.PlanAt(noon+minute) == noon+minute {
		t.Error("a plan is wanted though nothing has changed")
	}
	east := s.Instance("orgs target=east")
	if !s.SetItems(east, []map[string]string{{"org": "1"}, {"org": "2"}, {"org": "2"}}) {
		t.Error("new items changed nothing")
	}
	if s.SetItems(east, []map[string]string{{"org": "1"}, {"org": "2"}, {"org": "2"}}) {
		t.Error("the same items changed something")
	}
	if s.PlanAt(noon+minute) != noon+minute {
		t.Error("a changed inventory wants no plan")
	}
	if s.Inventories()["orgs"] != nil {
		t.Error("an inventory counts as known though the western part is not")
	}
	s.SetItems(s.Instance("orgs target=west"), []map[string]string{})
	if got := len(s.Inventories()["orgs"]); got != 3 {
		t.Errorf("%d items, want 3", got)
	}
	adopt(s, config, noon+minute, nil)
	net := s.Instance("nets target=east org=2")
	if net == nil || net.Target != "east" || net.Vars["org"] != "2" {
		t.Fatalf("instance %+v", net)
	}
	s.SetItems(net, []map[string]string{{"net": "n"}})
	adopt(s, config, noon+2*minute, nil)
	if c := s.Instance("clients target=east net=n org=2"); c == nil || c.Vars["org"] != "2" || c.Vars["net"] != "n" {
		t.Fatalf("a grandchild has not its ancestors' variables: %+v", c)
	}
	s.SetItems(east, []map[string]string{{"org": "1"}})
	if n := len(s.Instances("nets")) + len(s.Instances("clients")); n != 1 {
		t.Errorf("%d instances below the one organization that is left, want 1", n)
	}
	if names, _ := starts(s, noon+2*minute, noon+120*minute); strings.Contains(fmt.Sprint(names), "org=2") {
		t.Errorf("an instance that is gone still starts: %v", names)
	}
	if s.SetItems(net, []map[string]string{{"net": "z"}}) {
		t.Error("an instance that is gone set items")
	}
}

// TestItemsAreShared: children and plans have the same items, so that a large inventory is not in memory for each of them again.
func TestItemsAreShared(t *testing.T) {
	config := validatetest.Config(t, documents("limits: []", "vars: {}",
		"orgs interval: 1h, request: { endpoint: /orgs }, inventory: { items: response, vars: { org: item.id } }",
		"nets interval: 1h, forEach: orgs, request: { endpoint: \"/orgs/{org}/nets\" }, inventory: { items: response, vars: { net: item.id } }",
		"clients interval: 1h, forEach: nets, request: { endpoint: \"/nets/{net}/clients\" }",
		"devices interval: 1h, forEach: nets, request: { endpoint: \"/nets/{net}/devices\" }"))
	s := schedule.New(config)
	adopt(s, config, noon, nil)
	s.SetItems(s.Instance("orgs"), []map[string]string{{"org": "1"}})
	items := make([]map[string]string, 1000)
	for i := range items {
		items[i] = map[string]string{"net": fmt.Sprintf("n%d", i)}
	}
	s.SetItems(s.Instance("nets org=1"), items)
	one := s.Inventories()["nets"][7]
	if len(one) != 2 || one["net"] != "n7" || one["org"] != "1" || len(items[7]) != 1 {
		t.Fatalf("the item is %v, of %v", one, items[7])
	}
	one["seen"] = "by all" // which nobody else may do
	for _, name := range []string{"clients net=n7 org=1", "devices net=n7 org=1"} {
		if i := s.Instance(name); i == nil || i.Vars["seen"] == "" {
			t.Errorf("%s has variables of its own", name)
		}
	}
	if n := testing.AllocsPerRun(5, func() { s.Inventories() }); n > 100 {
		t.Errorf("every plan makes %v objects for 1000 items", n)
	}
}

func TestPauseAndTrigger(t *testing.T) {
	config := validatetest.Config(t, documents("limits: []", "vars: {}", "a interval: 10m, request: { endpoint: /a }", "b interval: 10m, request: { endpoint: /b }"))
	s := schedule.New(config)
	adopt(s, config, noon, nil)
	s.Pause("a", true)
	s.Pause("a", true)
	if names, _ := starts(s, noon, noon+60*minute); strings.Contains(fmt.Sprint(names), "a") || len(names) != 6 {
		t.Errorf("%v ran while a was paused", names)
	}
	s.Pause("a", false)
	if due, missed := s.Due(noon + 60*minute); due == nil || due.Name != "a" || missed < 4 {
		t.Errorf("after the pause: %v, %d missed", due, missed)
	} else {
		s.Finish(due)
	}
	now := noon + 61*minute
	if n := s.Trigger(now, "b"); n != 1 {
		t.Errorf("%d instances were triggered", n)
	}
	if due, _ := s.Due(now); due == nil || due.Name != "b" {
		t.Errorf("the triggered job is not due: %v", due)
	}
	if n := s.Trigger(now, "b"); n != 0 {
		t.Error("a job that runs was triggered")
	}
}

// TestPlanAt: a plan is wanted when a window opens, but not each second for a window of a second.
func TestPlanAt(t *testing.T) {
	config := validatetest.Config(t, documents("limits: [{ name: hour, kind: quota, max: 100, window: { period: hour } }, { name: tick, kind: quota, max: 5, window: { every: 1s } }]", "vars: {}",
		"a interval: 10m, request: { endpoint: /a }"))
	s := schedule.New(config)
	adopt(s, config, noon+57*minute, nil)
	if at := s.PlanAt(noon + 57*minute); at != noon+60*minute {
		t.Errorf("the next plan is wanted at +%s, want the turn of the hour", time.Duration(at-noon))
	}
	adopt(s, config, noon+60*minute, nil)
	if at := s.PlanAt(noon + 60*minute); at != noon+65*minute {
		t.Errorf("the next plan is wanted at +%s, want 5 minutes later", time.Duration(at-noon))
	}
	s.Ask()
	if at := s.PlanAt(noon + 60*minute); at != noon+60*minute+second {
		t.Errorf("a plan that is asked for is wanted at +%s", time.Duration(at-noon))
	}
}

// TestScheduleAgainstTwin holds the schedule against counting: over any course of runs of any length, an instance never starts twice
// at once, never before its interval is over, and makes up for what it missed as soon as it can.
func TestScheduleAgainstTwin(t *testing.T) {
	config := validatetest.Config(t, documents("limits: []", "vars: {}", "a interval: 60s, request: { endpoint: /a }", "b interval: 90s, request: { endpoint: /b }", "c interval: 200s, request: { endpoint: /c }"))
	rapid.Check(t, func(t *rapid.T) {
		s := schedule.New(config)
		adopt(s, config, noon, nil)
		grid := make(map[string]int64) // the next start by the twin
		for _, name := range []string{"a", "b", "c"} {
			grid[name] = s.Instance(name).NextNanos()
		}
		busy := make(map[string]bool)
		now := noon
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, 400).Draw(t, "seconds") * second
			for name := range busy {
				if rapid.Bool().Draw(t, "ends") {
					s.Finish(s.Instance(name))
					delete(busy, name)
				}
			}
			got := make(map[string]bool)
			for due, _ := s.Due(now); due != nil; due, _ = s.Due(now) {
				if busy[due.Name] || got[due.Name] {
					t.Fatalf("%s runs twice at once", due.Name)
				}
				got[due.Name] = true
			}
			for name, next := range grid {
				interval := int64(config.Job(name).Interval)
				want := !busy[name] && next <= now
				if got[name] != want {
					t.Fatalf("%s started: %v, want %v", name, got[name], want)
				}
				for want && grid[name] <= now {
					grid[name] += interval
				}
			}
			for name := range got {
				busy[name] = true
			}
		}
	})
}

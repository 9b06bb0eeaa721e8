package reconcile

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/spendtest"
)

func names(files []Seen) string {
	var list []string
	for _, f := range files {
		list = append(list, f.Name)
	}
	return strings.Join(list, " ")
}

func TestInboxWaitsUntilAFileIsStill(t *testing.T) {
	b := NewInbox(5 * time.Second)
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	file := func(name string, size int64, modified int) Seen { return Seen{name, size, at(modified)} }
	for _, step := range []struct {
		now   int
		files []Seen
		ready string
		again int // 0 for none
	}{
		{0, []Seen{file("a.csv", 1, -100)}, "", 5}, // however old it looks: it may have been moved in while it is written
		{4, []Seen{file("a.csv", 1, -100)}, "", 5},
		{5, []Seen{file("a.csv", 2, -100)}, "", 10}, // it has grown
		{9, []Seen{file("a.csv", 2, 8)}, "", 14},    // it was written again
		{14, []Seen{file("a.csv", 2, 8), file("b.TSV", 0, 0)}, "a.csv", 19},
		{15, []Seen{file("a.csv", 2, 8), file("b.TSV", 0, 0)}, "a.csv", 19}, // it was not read
		{19, []Seen{file("b.TSV", 0, 0)}, "b.TSV", 0},
		{20, []Seen{file("a.csv", 2, 8), file("b.TSV", 0, 0)}, "b.TSV", 25}, // it was gone meanwhile
		{30, []Seen{file(".a.csv", 2, 8), file("a.csv.part", 2, 8), file("notes.txt", 2, 8), file("csv", 1, 1)}, "", 0},
	} {
		ready, again := b.Look(at(step.now), step.files)
		want := time.Time{}
		if step.again > 0 {
			want = at(step.again)
		}
		if names(ready) != step.ready || !again.Equal(want) {
			t.Errorf("at %d: %q again %v, want %q again %v", step.now, names(ready), again, step.ready, want)
		}
	}
}

// However a folder changes, each state of a file that stays still is ready until it is done, and never again; one that has changed
// within the stillness never is.
func TestInboxReadsEachStateOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b, now := NewInbox(5*time.Second), t0
		folder := map[string]Seen{}
		changed := map[string]time.Time{} // when a look first saw the present state
		read := map[Seen]bool{}
		for range rapid.IntRange(1, 40).Draw(rt, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 7).Draw(rt, "seconds")) * time.Second)
			name := rapid.SampledFrom([]string{"a.csv", "b.csv"}).Draw(rt, "name")
			switch rapid.SampledFrom([]string{"nothing", "nothing", "write", "remove"}).Draw(rt, "change") {
			case "write":
				folder[name] = Seen{name, int64(len(read) + 1), now}
				changed[name] = now
			case "remove":
				delete(folder, name)
			}
			var files []Seen
			for _, f := range folder {
				files = append(files, f)
			}
			ready, _ := b.Look(now, files)
			for _, f := range ready {
				if now.Sub(changed[f.Name]) < 5*time.Second {
					rt.Fatalf("%v was read %v after it changed", f, now.Sub(changed[f.Name]))
				}
				if read[f] {
					rt.Fatalf("%v was read twice", f)
				}
				if rapid.Bool().Draw(rt, "done") {
					b.Done(f)
					read[f] = true
				}
			}
		}
	})
}

// What was compared is found in the chain again, by policy, and from where the last search ended.
func TestRemember(t *testing.T) {
	ctx := context.Background()
	store, m := testStore(t)
	result := run(t, store, settled, Options{Apply: true})
	first := result.Summary("é.csv", HashOf([]byte(settled)), true)
	if first.Settled != 5 || first.BadRows != 5 || first.Open() == 0 || len(first.Hash) != 64 {
		t.Errorf("%+v", first)
	}
	if err := Remember(ctx, m, &first); err != nil {
		t.Fatal(err)
	}
	var found []string
	search := func(policy string, from int64) int64 {
		next, err := Remembered(ctx, store, policy, from, func(f File) { found = append(found, fmt.Sprintf("%+v", f)) })
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	next := search("p", 0)
	if len(found) != 1 || found[0] != fmt.Sprintf("%+v", first) {
		t.Fatalf("found %v, want %+v", found, first)
	}
	if search("p", next); len(found) != 1 {
		t.Error("a file was found twice")
	}
	second := first
	second.Name = "second.csv"
	if err := Remember(ctx, m, &second); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Admit(ctx, t0.Add(25*time.Hour), spend.Admission{EventID: `,"reconciled":{`, Capability: "a", Class: `,"reconciled":{`}); err != nil {
		t.Fatal(err)
	}
	search("other", 0)
	if search("p", next); len(found) != 2 || !strings.Contains(found[1], "second.csv") {
		t.Errorf("found %v, want the second", found)
	}
	spendtest.CheckBook(t, store, "p")
}

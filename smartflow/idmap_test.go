package smartflow

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// A table is a map: the same steps on both show the same.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, twin := newTable[int](), map[string]*int{}
		keys := rapid.SampledFrom([]string{"", "a", "b", "N_1", "N_2", "N_10", "Q2AA-BBBB-CCCC"})
		if rapid.Bool().Draw(t, "many keys") { // more than the first slots hold
			keys = rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 400).Draw(t, "number")) })
		}
		for i := range rapid.IntRange(0, 600).Draw(t, "steps") {
			key := keys.Draw(t, "key")
			was := twin[key]
			if got := table.get(key); got != was {
				t.Fatalf("get(%q) = %v, want %v", key, got, was)
			}
			if rapid.Bool().Draw(t, "swap") {
				if got := table.swap(key, &i); got != was {
					t.Fatalf("swap(%q) = %v, want %v", key, got, was)
				}
				twin[key] = &i
				continue
			}
			got := table.getOrCreate(key, func() *int { return &i })
			if was != nil && got != was || was == nil && got != &i {
				t.Fatalf("getOrCreate(%q) = %v, there was %v", key, got, was)
			}
			twin[key] = got
		}
		if all := maps.Collect(table.all()); !maps.Equal(all, twin) || table.len() != len(twin) {
			t.Fatalf("%d entries of %d, want %d", len(all), table.len(), len(twin))
		}
	})
}

// Readers never miss what was there before they came, while the table grows under them.
func TestTableGrowsUnderReaders(t *testing.T) {
	const writers, each = 4, 2000
	table := newTable[string]()
	var there [writers]atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				key := fmt.Sprintf("%d:%d", w, i)
				if i%2 == 0 {
					table.swap(key, &key)
				} else {
					table.getOrCreate(key, func() *string { return &key })
				}
				there[w].Store(int64(i + 1))
			}
		})
		wg.Go(func() {
			for n := int64(0); n < each; {
				n = there[w].Load()
				for i := n - 1; i >= max(0, n-50); i-- {
					key := fmt.Sprintf("%d:%d", w, i)
					if v := table.get(key); v == nil || *v != key {
						t.Errorf("%s is not there", key)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if table.len() != writers*each {
		t.Errorf("%d entries, want %d", table.len(), writers*each)
	}
}

// One organization is one entry, whoever comes first, and has one bucket.
func TestOneEntryAndOneBucket(t *testing.T) {
	l := mustNew(t, Config{})
	var wg sync.WaitGroup
	var entries, buckets sync.Map
	for range 16 {
		wg.Go(func() {
			for i := range 100 {
				o := l.orgOf(fmt.Sprint(i))
				entries.Store(o, true)
				buckets.Store(l.bucketOf(o, 0), true)
			}
		})
	}
	wg.Wait()
	count := func(m *sync.Map) (n int) {
		m.Range(func(any, any) bool { n++; return true })
		return n
	}
	if count(&entries) != 100 || count(&buckets) != 100 || len(l.buckets()) != 100 {
		t.Errorf("%d entries and %d buckets of 100 organizations", count(&entries), count(&buckets))
	}
}

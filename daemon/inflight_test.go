package daemon_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// crowd counts the requests that are at a server at the same time.
type crowd struct {
	mu        sync.Mutex
	now, most map[string]int
	all       int
}

func (c *crowd) enter(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	for _, name := range names {
		c.now[name]++
		c.most[name] = max(c.most[name], c.now[name])
	}
}

func (c *crowd) leave(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		c.now[name]--
	}
}

// Two thousand instances that are due at once open no more connections than the bounds allow, and all have their turn.
func TestAFanOutOpensNoMoreConnectionsThanAllowed(t *testing.T) {
	const items, most, each = 1000, 12, 8
	text := provider("  auth: { type: bearer, credential: key }\n") +
		"---\napiVersion: tapyr/v1alpha1\nkind: Account\nmetadata: { name: other }\nspec: { provider: p, credentials: { key: { env: KEY } } }\n"
	for _, account := range []string{"a", "other"} {
		text += strings.ReplaceAll(job("list-"+account, `  interval: 1h
  request: { endpoint: /list }
  inventory: { items: response, vars: { id: string(item) } }
`)+job("each-"+account, fmt.Sprintf(`  interval: 1h
  forEach: list-%s
  request: { endpoint: "/%s/{id}" }
  metrics: [{ name: m_%s, type: info, labels: { id: vars.id } }]
`, account, account, account)), "account: a\n", "account: "+account+"\n")
	}
	text += fmt.Sprintf("---\napiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\n"+
		"spec: { state: { path: @DIR/tapyr.db }, budget: { maxInFlight: %d, maxInFlightPerAccount: %d } }\n", most, each)
	seen := &crowd{now: map[string]int{}, most: map[string]int{}}
	r := newRig(t, text, func(w http.ResponseWriter, q *http.Request) {
		account, _, _ := strings.Cut(q.URL.Path[len("/v1/"):], "/")
		if account == "list" {
			ids := make([]string, items)
			for i := range ids {
				ids[i] = fmt.Sprint(i)
			}
			fmt.Fprintf(w, "[%s]", strings.Join(ids, ","))
			return
		}
		seen.enter(account, "all")
		defer seen.leave(account, "all")
		time.Sleep(time.Millisecond)
		fmt.Fprint(w, `{}`)
	})
	r.quiet = true
	r.daemon = r.make(daemon.Options{})
	if err := r.once(); err != nil {
		t.Fatal(err)
	}
	if seen.most["all"] > most || seen.most["a"] > each || seen.most["other"] > each {
		t.Errorf("at once: %v, allowed %d and %d an account", seen.most, most, each)
	}
	if seen.all != 2*items {
		t.Errorf("%d requests, want %d", seen.all, 2*items)
	}
	if granted := r.daemon.Snapshot().Totals.Granted; granted != 2*items+2 {
		t.Errorf("%d granted, want %d", granted, 2*items+2)
	}
}

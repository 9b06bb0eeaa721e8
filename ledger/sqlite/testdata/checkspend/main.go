// Command checkspend proves from an export of spend's audit chain alone that nobody spent too much, and shares no code with
// tapyr: the standard library is all it uses.
//
//	checkspend EXPORT.jsonl [ACKNOWLEDGED...]
//
// It checks that the chain links, by the bytes of its lines; that no event was admitted twice; that every reservation fitted the
// limits of the policy in force when it was made, protected amounts included, by sums of its own; that no event gave back or
// was charged more than once; and that every answer that a caller got (lines of event, disposition, route and entry hash) is in
// the chain as it was given.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"strings"
)

// entry holds the members that matter, whatever the kind.
type entry struct {
	Kind            string
	Hash            string  `json:"entry_hash"`
	Previous        string  `json:"previous_hash"`
	Event           string  `json:"event_id"`
	Capability      string  `json:"capability"`
	Disposition     string  `json:"disposition"`
	Route           *string `json:"route"`
	Reserved        string  `json:"reserved_units"`
	Actual          string  `json:"actual_units"`
	Window          string  `json:"window_start"`
	AccountUnits    string  `json:"account_units"`
	CapabilityUnits string  `json:"capability_units"`
	Content         string  `json:"policy_content"`
	ContentHash     string  `json:"policy_hash"`
}

type policy struct {
	Account      struct{ Limit string }
	Routes       map[string]struct{ Cost string }
	Capabilities map[string]struct {
		Limit, Protected string
		Routes           []string
	}
}

// event is what an event holds.
type event struct {
	capability, window string
	units              *big.Rat
	holds, over        bool
	admissions         int
	disposition, route string
	hashes             map[string]bool
}

type checker struct {
	line     int
	entries  int
	previous string
	policy   *policy
	events   map[string]*event
	used     map[[2]string]*big.Rat // by capability (empty: account) and window
	problems int
}

func (c *checker) fail(format string, args ...any) {
	c.problems++
	if c.problems <= 20 {
		fmt.Printf("line %d: %s\n", c.line, fmt.Sprintf(format, args...))
	}
}

func rat(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return new(big.Rat)
	}
	return r
}

func main() {
	c := &checker{previous: "GENESIS", policy: new(policy), events: make(map[string]*event), used: make(map[[2]string]*big.Rat)}
	lines(os.Args[1], c.check)
	acknowledged := 0
	for _, file := range os.Args[2:] {
		c.line = 0
		lines(file, func(line []byte) { c.acknowledged(line); acknowledged++ })
	}
	charged := 0
	for _, e := range c.events {
		if e.holds {
			charged++
		}
	}
	fmt.Printf("%d entries, %d events, %d charged, %d answers, %d problems\n", c.entries, len(c.events), charged, acknowledged, c.problems)
	if c.problems > 0 {
		os.Exit(1)
	}
}

func lines(file string, visit func([]byte)) {
	f, err := os.Open(file)
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		visit(in.Bytes())
	}
	if in.Err() != nil {
		fmt.Println(in.Err())
		os.Exit(2)
	}
}

// check handles one entry.
func (c *checker) check(line []byte) {
	c.line++
	c.entries++
	var e entry
	if err := json.Unmarshal(line, &e); err != nil {
		c.fail("%v", err)
		return
	}
	// The member is cut out of the line: its name cannot stand inside a string, where its quotes would be escaped.
	member := []byte(`"entry_hash":"` + e.Hash + `",`)
	sum := sha256.Sum256(bytes.Replace(line, member, nil, 1))
	if hex.EncodeToString(sum[:]) != e.Hash {
		c.fail("hash of %q is not its own", e.Event)
	}
	if e.Previous != c.previous {
		c.fail("follows %s, not %s", e.Previous, c.previous)
	}
	c.previous = e.Hash
	switch e.Kind {
	case "publication":
		sum := sha256.Sum256([]byte(e.Content))
		if hex.EncodeToString(sum[:]) != e.ContentHash {
			c.fail("policy's content has another hash")
		}
		c.policy = new(policy)
		if err := json.Unmarshal([]byte(e.Content), c.policy); err != nil {
			c.fail("policy: %v", err)
		}
	case "admission", "decision":
		c.decide(&e)
	case "settlement":
		c.end(&e, rat(e.Actual))
	case "release":
		c.end(&e, nil)
	case "attempt", "prune":
	default:
		c.fail("unknown kind %q", e.Kind)
	}
}

func (c *checker) sum(capability, window string) *big.Rat {
	key := [2]string{capability, window}
	if c.used[key] == nil {
		c.used[key] = new(big.Rat)
	}
	return c.used[key]
}

// decide handles a decision: first what the event held is given back, then what it got is taken.
func (c *checker) decide(e *entry) {
	x := c.events[e.Event]
	if x == nil {
		x = &event{capability: e.Capability, hashes: make(map[string]bool)}
		c.events[e.Event] = x
	}
	if e.Kind == "admission" {
		if x.admissions++; x.admissions > 1 {
			c.fail("event %q is admitted twice", e.Event)
		}
	}
	if x.over {
		c.fail("event %q is decided after its end", e.Event)
	}
	c.giveBack(x)
	x.disposition, x.route, x.hashes[e.Hash] = e.Disposition, "", true
	if e.Route == nil {
		if rat(e.Reserved).Sign() != 0 {
			c.fail("event %q holds %s without a route", e.Event, e.Reserved)
		}
		return
	}
	x.route, x.window = *e.Route, e.Window
	cost := rat(c.policy.Routes[x.route].Cost)
	if cost.Cmp(rat(e.Reserved)) != 0 {
		c.fail("event %q holds %s, its route costs %s", e.Event, e.Reserved, c.policy.Routes[x.route].Cost)
	}
	account, own := c.sum("", e.Window), c.sum(e.Capability, e.Window)
	if account.Cmp(rat(e.AccountUnits)) != 0 || own.Cmp(rat(e.CapabilityUnits)) != 0 {
		c.fail("event %q was decided at %s and %s, the sums are %s and %s", e.Event, e.AccountUnits, e.CapabilityUnits, account, own)
	}
	account.Add(account, cost)
	own.Add(own, cost)
	x.units, x.holds = cost, true
	protected := new(big.Rat)
	for name, other := range c.policy.Capabilities {
		if left := new(big.Rat).Sub(rat(other.Protected), c.sum(name, e.Window)); name != e.Capability && left.Sign() > 0 {
			protected.Add(protected, left)
		}
	}
	if new(big.Rat).Add(account, protected).Cmp(rat(c.policy.Account.Limit)) > 0 {
		c.fail("event %q: account at %s with %s protected is over %s", e.Event, account, protected, c.policy.Account.Limit)
	}
	if own.Cmp(rat(c.policy.Capabilities[e.Capability].Limit)) > 0 {
		c.fail("event %q: capability at %s is over its limit", e.Event, own)
	}
}

func (c *checker) giveBack(x *event) {
	if !x.holds {
		return
	}
	for _, capability := range []string{"", x.capability} {
		sum := c.sum(capability, x.window)
		sum.Sub(sum, x.units)
	}
	x.holds = false
}

// end handles a settlement, or with nil a release.
func (c *checker) end(e *entry, actual *big.Rat) {
	x := c.events[e.Event]
	if x == nil || x.over || actual != nil && !x.holds {
		c.fail("event %q cannot end here", e.Event)
		return
	}
	c.giveBack(x)
	x.over = true
	if actual == nil {
		return
	}
	for _, capability := range []string{"", x.capability} {
		sum := c.sum(capability, x.window)
		sum.Add(sum, actual)
	}
	x.units, x.holds = actual, true
}

// acknowledged compares an answer that a caller got.
func (c *checker) acknowledged(line []byte) {
	c.line++
	fields := strings.Fields(string(line))
	if len(fields) != 4 {
		return // a worker was killed while it wrote
	}
	x := c.events[fields[0]]
	if x == nil {
		c.fail("event %q was answered and is not in the chain", fields[0])
		return
	}
	if !x.hashes[fields[3]] {
		c.fail("event %q was answered with the entry %s, which is not its own", fields[0], fields[3])
	}
}

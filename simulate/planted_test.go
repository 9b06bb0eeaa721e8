package simulate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// planted are mistakes that are put into the engine on purpose: each replaces one piece of its source. TestSeeds must find every one
// of them, or it proves nothing about the engine that has none.
var planted = []struct {
	name, file, right, wrong string
	want                     string // the invariant that breaks, a regular expression
}{
	{
		"a quota lets one request too many through", "admit.go",
		"if now >= s.until || s.used+en.cost > s.cap(cl) {", "if now >= s.until || s.used >= s.cap(cl) && s.used > 0 {",
		"within-limits",
	},
	{
		"a slot is given back twice", "settle.go",
		"			en.scope.used--\n			en.scope.since = now", "			en.scope.used -= 2\n			en.scope.since = now",
		"nothing-lost",
	},
	{
		"a bucket holds one token more than declared", "bucket.go",
		"return r.atLeast(now-s.since, saturatedAdd(tokens-burst, s.used))", "return r.atLeast(now-s.since, saturatedAdd(tokens-burst-2, s.used))",
		"within-limits",
	},
	{
		"a unit leaves a rolling window a bucket too early", "cells.go",
		"for cs.len() > 0 && saturatedAdd(cs.at(0).last(), c.limit.length) <= now {",
		"for cs.len() > 0 && saturatedAdd(cs.at(0).last(), c.limit.length-c.limit.length/60) <= now {",
		"within-limits",
	},
	{
		"an arrival overtakes those that wait", "admit.go",
		"if e.lacking(now, p) == 0 && !e.blocked(now, r) {", "if e.lacking(now, p) == 0 {",
		"in-order",
	},
	{
		"nobody wakes up at the deadline of a waiter", "wait.go",
		"		e.wakeAt = min(e.wakeAt, r.deadline, e.wakeOf(now, r))\n		return true",
		"		e.wakeAt = min(e.wakeAt, e.wakeOf(now, r))\n		return true",
		"in-time",
	},
	{
		"what is in flight when a window turns is counted in neither", "quota.go",
		"	s.since, s.used = q.start, q.carried", "	s.since, s.used = q.start, min(q.carried, -1)",
		"within-limits|same-count",
	},
}

// TestPlantedBugs builds tapyr with each mistake and lets TestSeeds look for it.
func TestPlantedBugs(t *testing.T) {
	if os.Getenv("TAPYR_PLANTED") != "" {
		t.Skip("this is the build with the mistake")
	}
	if testing.Short() {
		t.Skip("builds a package several times")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	list := planted
	if !soak() {
		list = list[:1]
	}
	for i, bug := range list {
		t.Run(bug.name, func(t *testing.T) {
			source, err := filepath.Abs("../engine/" + bug.file)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(text), bug.right) != 1 {
				t.Fatalf("%s does not hold the piece to replace exactly once: the engine has changed, so must this test", bug.file)
			}
			dir := t.TempDir()
			patched := filepath.Join(dir, bug.file)
			if err := os.WriteFile(patched, []byte(strings.Replace(string(text), bug.right, bug.wrong, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: patched}})
			if err != nil {
				t.Fatal(err)
			}
			list := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(list, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "go", "test", "-overlay", list, "-count=1", "-run", "^TestSeeds$|^TestHunt$", "-v", ".")
			command.Env = append(os.Environ(), fmt.Sprintf("TAPYR_PLANTED=%d", i+1), "TAPYR_SOAK=1")
			output, err := command.CombinedOutput()
			if err == nil {
				t.Fatalf("1000 seeds did not find it:\n%s", output)
			}
			line := ""
			for l := range strings.Lines(string(output)) {
				if strings.Contains(l, "violations, the first") {
					line = strings.TrimSpace(l)
				}
			}
			if line == "" || !regexp.MustCompile(bug.want).MatchString(line) {
				t.Fatalf("the test fails for another reason than a broken %s:\n%s", bug.want, output)
			}
			t.Log(line)
			if i == 0 && !strings.Contains(string(output), "--- PASS: TestHunt") {
				t.Errorf("Hunt does not find it, or does not make it as short as it gets:\n%s", output)
			}
		})
	}
}

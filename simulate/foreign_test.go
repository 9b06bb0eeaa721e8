package simulate_test

import (
	"fmt"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/simulate"
	"github.com/tapyr/tapyr/validate/validatetest"
)

// foreign is a vendor whose limits a client that is not ours is let loose on. The quota's window is a day, so that no turn comes
// between, unless it is midnight.
func foreign(t *testing.T, limits string) string {
	t.Helper()
	config := validatetest.Config(t, vendorDocument("  auth: { type: header, header: X-Key, credential: key }\n  limits: "+limits+"\n")+
		jobDocument("devices", "request: { endpoint: /devices }"))
	server := httptest.NewServer(newServer(t, config, "vendor", simulate.ServerOptions{Seed: 1}))
	t.Cleanup(server.Close)
	return server.URL + "/devices"
}

// tool finds a program, or skips the test.
func tool(t *testing.T, name, where string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not here; %s has it", name, where)
	}
	return path
}

// TestCurl: curl in a loop meets a quota exactly where it is declared, is told when to come back, and gets the declared headers.
func TestCurl(t *testing.T) {
	curl := tool(t, "curl", "every distribution")
	url := foreign(t, "[{ name: day, kind: quota, max: 7, window: { rolling: 24h }, scope: { by: [account] }, sync: { limitHeader: X-Limit, remainingHeader: X-Left } }]")
	for n := 1; n <= 10; n++ {
		output, err := exec.CommandContext(t.Context(), curl, "-sS", "-D", "-", "-o", "/dev/null", "-H", "X-Key: one", url).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		status, left := "200", fmt.Sprintf("X-Left: %d", 7-n)
		if n > 7 {
			status, left = "429", "X-Left: 0"
		}
		answer := strings.ReplaceAll(string(output), "\r", "")
		if !strings.HasPrefix(answer, "HTTP/1.1 "+status) || !strings.Contains(answer, left+"\n") || !strings.Contains(answer, "X-Limit: 7\n") {
			t.Fatalf("request %d: want %s and %q, got\n%s", n, status, left, answer)
		}
		if wait := regexp.MustCompile(`Retry-After: (\d+)`).FindStringSubmatch(answer); n > 7 && (wait == nil || len(wait[1]) != 5) {
			t.Fatalf("request %d: want a Retry-After of nearly a day, got\n%s", n, answer)
		}
	}
	other, err := exec.CommandContext(t.Context(), curl, "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "X-Key: two", url).CombinedOutput()
	if err != nil || string(other) != "200" {
		t.Errorf("another key got %s, %v: its quota is its own", other, err)
	}
	nobody, err := exec.CommandContext(t.Context(), curl, "-sS", "-o", "/dev/null", "-w", "%{http_code}", url).CombinedOutput()
	if err != nil || string(nobody) != "401" {
		t.Errorf("no key got %s, %v", nobody, err)
	}
}

// TestApacheBench: ab, with eight connections at once, gets as many answers as a bucket and a quota let through, and no more.
func TestApacheBench(t *testing.T) {
	ab := tool(t, "ab", "Debian's apache2-utils")
	run := func(limits string, requests int) (served int, seconds float64) {
		output, err := exec.CommandContext(t.Context(), ab, "-n", strconv.Itoa(requests), "-c", "8", "-l", "-H", "X-Key: one", foreign(t, limits)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		number := func(label string) float64 {
			match := regexp.MustCompile(label + `:\s+([0-9.]+)`).FindStringSubmatch(string(output))
			if match == nil {
				return 0
			}
			n, err := strconv.ParseFloat(match[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if number("Complete requests") != float64(requests) {
			t.Fatalf("ab did not finish: %s", output)
		}
		return requests - int(number("Non-2xx responses")), number("Time taken for tests")
	}
	if served, _ := run("[{ name: day, kind: quota, max: 123, window: { rolling: 24h }, scope: { by: [account] } }]", 500); served != 123 {
		t.Errorf("a quota of 123 served %d of 500", served)
	}
	served, seconds := run("[{ name: pace, kind: rate, rate: 50/s, burst: 20, scope: { by: [account] } }]", 2000)
	// The burst, and what flowed in while ab ran; its clock begins before the first request and ends behind the last.
	if most := 20 + int(50*seconds) + 1; served < 20 || served > most {
		t.Errorf("a bucket of 20 with 50/s served %d in %v s, want 20 to %d", served, seconds, most)
	}
}

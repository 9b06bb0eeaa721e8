package daemon_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
)

// hijacked sends text as it is and hangs up.
func hijacked(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer connection.Close()
		_, _ = fmt.Fprint(connection, text)
	}
}

// What breaks off may pass and is tried again, as often as retry says; what the server would only send once more is not. Nothing of
// either is published.
func TestHostileAnswersAreTriedAgainOnlyWhereThatMayHelp(t *testing.T) {
	const header = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
		hits   int
	}{
		"a body that is cut":     {hijacked(header + "Content-Length: 100\r\n\r\n[1]"), "broke off", 4},
		"a header that is cut":   {hijacked(header), "the other side ended the connection", 4},
		"a change of protocol":   {hijacked("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n[1]"), "status 101", 4},
		"a header that is large": {hijacked(header + "X-A: " + strings.Repeat("x", 2<<20) + "\r\n\r\n[1]"), "", 4},
		"br":                     {hijacked(header + "Content-Encoding: br\r\n\r\n[1]"), `the content encoding "br"`, 1},
		"a page for people":      {hijacked("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>"), "looks like HTML", 1},
		"a tail after JSON":      {hijacked(header + "\r\n[1] x"), "not JSON", 1},
		"a body that is large":   {hijacked(header + "\r\n[" + strings.Repeat("1,", 40<<10) + "1]"), "larger than 65536 bytes", 1},
		"a body that is deep":    {hijacked(header + "\r\n" + strings.Repeat("[", 200) + strings.Repeat("]", 200)), "nested deeper", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, provider("")+one("x", ""), c.answer)
			r.daemon = r.make(daemon.Options{MaxBodyBytes: 64 << 10, Timeout: 20 * time.Second})
			var failed *daemon.FailedRunsError
			if err := r.once(); !errors.As(err, &failed) || !strings.Contains(failed.First.Error, c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if n := len(r.seen()); n != c.hits {
				t.Errorf("%d requests, want %d", n, c.hits)
			}
			if got := metrics(t, r.daemon); len(got) != 0 {
				t.Errorf("a failed run published %q", got)
			}
		})
	}
}

// A job that could not run says so, unless its inventory is empty by right or there is one from before.
func TestJobsWithoutAnInventoryAreNamed(t *testing.T) {
	up := "[]"
	documents := provider("  retry: { maxAttempts: 1 }") + job("sites", `  interval: 1h
  request: { endpoint: /sites }
  inventory: { items: response, vars: { site: item.id } }
`) + job("devices", `  interval: 1h
  forEach: sites
  request: { endpoint: "/sites/{site}/devices" }
  metrics: [{ name: devices, value: double(size(response)) }]
`)
	documents = strings.Replace(documents, "  retry: { initial: 1ms, max: 5ms, maxAttempts: 4, jitter: 0 }\n", "", 1)
	r := newRig(t, documents, func(w http.ResponseWriter, q *http.Request) {
		switch {
		case strings.HasSuffix(q.URL.Path, "/devices"):
			reply(w, []int{1})
		case up == "":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = fmt.Fprint(w, up)
		}
	})
	for _, c := range []struct{ up, notRun, text string }{
		{"", "[devices]", "1 of 1 runs failed, the first of them sites: status 503; not run for want of an inventory: devices"},
		{"[]", "", ""},
		{`[{"id":"a"}]`, "", ""},
		{"", "[]", "1 of 2 runs failed, the first of them sites: status 503"}, // over the inventory from before
	} {
		up = c.up
		r.daemon = r.make(daemon.Options{})
		err := r.once()
		var failed *daemon.FailedRunsError
		switch {
		case c.text == "" && err != nil:
			t.Errorf("%q: %v", c.up, err)
		case c.text != "" && (!errors.As(err, &failed) || err.Error() != c.text || fmt.Sprint(failed.NotRun) != c.notRun):
			t.Errorf("%q: %v, want %s", c.up, err, c.text)
		}
	}
}

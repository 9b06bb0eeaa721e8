package daemon_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/daemon"
)

// How an account fares, and why, follows from what its requests met.
func TestHealthOfAnAccount(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	const bearer = "  auth: { type: bearer, credential: key }\n"
	const day = "  limits: [{ name: day, kind: quota, scope: { by: [account] }, max: 2, window: { period: day } }]\n"
	const settings = "---\napiVersion: tapyr/v1alpha1\nkind: Settings\nmetadata: { name: default }\nspec: { budget: { retryReserve: 0 }, state: { path: \"@DIR/tapyr.db\" } }\n"
	for name, c := range map[string]struct {
		documents string
		answer    http.HandlerFunc
		want      daemon.Health
		reason    string // a part of the first, empty for none
	}{
		"all is well":           {provider(bearer) + one("x", ""), numbers, daemon.HealthOK, ""},
		"nothing was sent":      {provider(bearer) + job("x", "  interval: 1h\n  request: { endpoint: /x }\n"), numbers, daemon.HealthUnknown, ""},
		"refused credentials":   {provider(bearer) + one("x", ""), status(401), daemon.HealthFailing, "does not accept the credentials (status 401)"},
		"no permission":         {provider(bearer) + one("x", ""), status(403), daemon.HealthFailing, "check what the account's credentials are allowed to do"},
		"a vendor that is down": {provider(bearer) + one("x", ""), status(500), daemon.HealthFailing, "the last requests failed: status 500"},
		"no token":              {provider(oauth) + one("x", ""), status(400), daemon.HealthFailing, "check the account's credentials"},
		"one job of two fails": {provider(bearer) + one("x", "") + one("y", ""), func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "/y") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			numbers(w, q)
		}, daemon.HealthDegraded, "job y fails: status 404"},
		"a quota is used up": {provider(bearer+day) + settings + one("x", "") + one("y", ""), numbers, daemon.HealthDegraded, "the quota day of a is used up until "},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.documents, c.answer)
			_ = r.once() // how the runs ended is part of what is looked at
			checkHealth(t, r.daemon, c.want, c.reason)
		})
	}
}

func checkHealth(t *testing.T, d *daemon.Daemon, want daemon.Health, reason string) {
	t.Helper()
	told := d.Snapshot()
	if len(told.Accounts) != 1 {
		t.Fatalf("%+v", told.Accounts)
	}
	a := told.Accounts[0]
	if a.Health != want || (len(a.Reasons) == 0) != (reason == "") || reason != "" && !strings.Contains(a.Reasons[0], reason) {
		t.Errorf("the account is %s, %q; want %s, %q", a.Health, a.Reasons, want, reason)
	}
}

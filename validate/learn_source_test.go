package validate_test

import (
	"strings"
	"testing"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// What learn looks for in bodies is paths of member names; anything else would find nothing, or stop the learner from being made.
func TestPathsInBodies(t *testing.T) {
	for body, wrong := range map[string]bool{
		"id": false, "organization.id": false, "a.b.c": false, `""`: true, "a..b": true, ".a": true, "a.": true,
	} {
		for _, where := range []string{"body: [BODY]", "body: [id], keys: { network: { url: '/n/([^/]+)', body: [x, BODY] } }"} {
			text := "apiVersion: tapyr/v1alpha1\nkind: Provider\nmetadata: { name: p }\nspec:\n  baseURL: https://api.example.com\n" +
				"  limits: [{ name: l, kind: rate, rate: 1/s, burst: 1, scope: { by: ['var:org'] } }]\n  learn: [{ var: org, " +
				strings.Replace(where, "BODY", body, 1) + " }]\n"
			docs, problems := schema.Decode("test.yaml", []byte(text))
			_, more := validate.Check(docs)
			found := false
			for _, p := range append(problems, more...) {
				found = found || p.Rule == "learn-source" && p.Severity == schema.SeverityError
			}
			if found != wrong {
				t.Errorf("%s: found %v, want %v", strings.Replace(where, "BODY", body, 1), found, wrong)
			}
		}
	}
}

package smartflow_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tapyr/tapyr/smartflow"
)

// server stands for api.meraki.com, and for its limit: it refuses the third request.
func server() *httptest.Server {
	requests := 0
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests == 3 {
			w.Header().Set("Retry-After", "0.1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"N_1","organizationId":"549236","name":"Lyon"}`)
	}))
}

// An http.Client whose requests are paced, repeated when they are refused, and learned
// from. The mappings survive in a cache file.
func Example() {
	api := server() // https://api.meraki.com/api/v1
	defer api.Close()
	folder, err := os.MkdirTemp("", "smartflow")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	limiter, err := smartflow.New(smartflow.Config{
		OrgRatePerSecond:    9, // a little below the vendor's 10 and 100
		GlobalRatePerSecond: 90,
		Cache:               smartflow.FileCache{Path: filepath.Join(folder, "cache.json")},
		Warn:                func(err error) { log.Print(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: &smartflow.Transport{Limiter: limiter}}

	for range 4 {
		resp, err := client.Get(api.URL + "/networks/N_1")
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	organization, _ := limiter.Resolve("/networks/N_1/clients")
	fmt.Println("network N_1 belongs to", organization)
	for _, org := range limiter.Snapshot().Orgs {
		// 9 * 0.7 for the refusal, and twice 0.2 for the successes after it.
		fmt.Printf("%s is paced at %.1f requests a second\n", org.Org, org.RatePerSecond)
	}
	if err := limiter.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 200 OK
	// 200 OK
	// 200 OK
	// 200 OK
	// network N_1 belongs to 549236
	// 549236 is paced at 6.7 requests a second
}

// A program that does not use net/http asks before each request and reports after it.
func ExampleLimiter_Acquire() {
	limiter, err := smartflow.New(smartflow.Config{
		Resolver: func(ctx context.Context, key smartflow.Key) (string, error) {
			fmt.Println("looking up", key.Kind, key.ID)
			return "549236", nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	const url = "/devices/Q2AA-BBBB-CCCC/lldpCdp"
	if err := limiter.Acquire(context.Background(), url); err != nil {
		log.Fatal(err)
	}
	limiter.RateLimited(url, 2*time.Second) // the answer was 429 with Retry-After: 2
	org := limiter.Snapshot().Orgs[0]
	fmt.Printf("%s: %.0f requests a second, in %.0f s\n", org.Org, org.RatePerSecond, org.PausedSeconds)
	// Output:
	// looking up device Q2AA-BBBB-CCCC
	// 549236: 7 requests a second, in 2 s
}

// Identifiers of any API can be learned.
func ExampleLearner() {
	learner, err := smartflow.NewLearner(smartflow.LearnSpec{
		Var:  "account",
		From: []string{`/accounts/([^/]+)`},
		Keys: []smartflow.KeySpec{{Kind: "zone", URL: `/zones/([^/]+)`, Body: []string{"zone.id"}}},
		Body: []string{"account.id"},
	})
	if err != nil {
		log.Fatal(err)
	}
	body := map[string]any{"account": map[string]any{"id": "42"}}
	lesson, _ := learner.Lesson("/zones/ab12/records?page=2", body)
	fmt.Println(learner.Var(), lesson.Value, "for", lesson.Keys)
	// Output: account 42 for [{zone ab12}]
}

func ExampleConform() {
	report := smartflow.Conform("mine.json", []byte(`{"version": 1, "rate_setter_floor": {"cases": [
		{"name": "good", "set_rate": 0.2, "expected_rate": 0.5},
		{"name": "bad", "set_rate": 0.2, "expected_rate": 0.2}
	]}}`))
	fmt.Println(report.Cases, "cases")
	for _, f := range report.Failures {
		fmt.Println(strings.Join([]string{f.File, f.Case, f.Message}, ": "))
	}
	// Output:
	// 2 cases
	// mine.json: rate_setter_floor/bad: rate: expected 0.2, got 0.5
}

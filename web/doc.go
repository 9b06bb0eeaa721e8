// Package web shows a running daemon: as a page for people, as JSON for programs, as metrics for Prometheus. All three show the
// same daemon.Snapshot, so that none of them can contradict another, and nothing here counts anything.
//
//	GET  /                         the status page; ?q=TEXT filters quotas and jobs, ?refresh=SECONDS (5 to 3600) renews it
//	GET  /healthz                  200 {"status":"ok"}, or 503 with what does not work
//	GET  /readyz                   200 {"status":"ready"} once documents, state and plan are there, otherwise 503 with what is missing
//	GET  /metrics                  Prometheus or OpenMetrics text
//	GET  /api/v1/status            daemon.Snapshot
//	GET  /api/v1/plan              the plan in force, in the form of tapyr plan; 503 before the first; with Retry-After while
//	                               remedies are still looked for
//	GET  /api/v1/scopes            {"at","scopes":[...]}, also with ?provider=P&limit=L&key=K
//	GET  /api/v1/jobs              {"at","jobs":[...]}
//	GET  /api/v1/jobs/NAME         one job
//	POST /api/v1/jobs/NAME/pause   204: no run starts any more; also resume
//	POST /api/v1/jobs/NAME/trigger {"instances":N}: so many runs start at once
//	POST /api/v1/reload            202: the documents are loaded again
//	GET  /api/v1/spend             {"at","policies":[...]}: spend/report.Report of each policy
//	POST /api/v1/spend/admit       spend.Admission with an optional "policy"; answers with spend.Outcome
//	POST /api/v1/spend/events      the same as JSON lines, for events that tapyr delivers; 202: all are durable
//	POST /api/v1/spend/settle      {"event_id","actual"}
//	POST /api/v1/spend/release     {"event_id","reason"}
//
// Errors are {"error":"...","status":N}; instants RFC 3339 in UTC, durations seconds in names that end in Seconds. Spend keeps the
// names of its audit entries (event_id), as everywhere.
//
// # Who may
//
// This is the one place that decides it. At an address of loopback, requests from this machine are served without a token, if they
// name a host of loopback (a page elsewhere cannot rebind its own name to 127.0.0.1 and read along) and no proxy sent them (it would
// speak for everybody). All others need the bearer token of the settings; where there is none, they are refused and told so. At an
// address that other machines reach, those from this machine need it as well. For GET the token may also be the password of HTTP
// basic authentication, so that a browser can ask for it; it is never read from a URL. POST needs the bearer form, or loopback, and
// never comes from another site's page. Spend admissions always need the bearer token: they are money. GET of /healthz and /readyz is
// for everybody, and tells one word; why it is not "ok" or "ready" is told to those who may ask.
package web

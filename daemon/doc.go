// Package daemon is tapyr run: it starts jobs when they are due, asks the engine for every request, sends it, follows its pages,
// keeps what the documents want kept, and writes down what happened.
//
// A Daemon owns one goroutine that decides (the loop in loop.go) and one for each run under way (run.go). All decisions about
// time and budgets are made elsewhere: schedule says which run starts when and what it sends next, engine whether a request may
// go, plan which interval a job has. Here is what surrounds them: sockets, files, signals, clocks and locks.
//
//	daemon/client   one request: credentials, redirects, bodies
//	daemon/mapping  answers to metrics and files
//	daemon/keep     the engine's counts in the ledger
//
// Everything that a page, an API or a metric shows comes from Snapshot.
package daemon

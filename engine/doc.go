// Package engine decides, event by event, which request may go.
//
// A provider declares limits: token buckets (rate), requests in flight (concurrency), and units in a window (quota). A limit's
// scope says what it is counted by; the scope key is the value of that scope for one request. A request that is granted takes of
// every limit that applies to it, or of none.
//
// Engine is a state machine without a clock, a lock or I/O: every method takes the present instant, in nanoseconds since the Unix
// epoch, and instants never go backwards (an earlier one counts as the latest seen). Reserve grants, refuses or queues a request;
// Settle reads its response; Release ends it; Advance lets waiting requests go, or refuses them at their deadline; Next says when
// Advance has something to do. Gate is the shell around it, with a lock, a clock and calls that block. Loop drives the same
// engine in virtual time. Enforcer asks the opposite question: what a server with these limits would let through.
//
// # Layout
//
// A live scope key is a scope, one cache line that holds everything a grant needs, and a coldScope with the rest; both stand in
// chunks of a slab, so that their addresses hold and the garbage collector has few objects to visit. Strings become numbers
// (symbols) at the door. A Prepared request holds the addresses of its keys, checked by a generation number.
package engine

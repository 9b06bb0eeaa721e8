// Package spend admits paid calls: within the budget of an account and of each capability, by the first route that fits, once
// for each logical event however often it is retried.
//
// A Machine decides over a book.Store. Each of its methods is one transaction at one instant, which the caller gives: the
// decision, the counters and the entry of the audit chain are durable together before the method returns, or none of them is.
//
// # What is counted
//
// An event takes from its account and from its capability what is reserved for it, and from its settlement on what was really
// spent (book.Event.Units). A route fits where, with equality allowed,
//
//	account used + cost + what others have protected and not used <= account limit
//	capability used + cost                                        <= capability limit
//
// both in the window of the admission. Corrections count in that window too, also when it is closed. An actual amount above its
// reservation is charged in full, even beyond a limit: it was spent, and the limits hold for what comes next.
//
// # What happens by itself
//
// Every method first lets time pass: events whose deadline is reached expire (an event may wait while now is before its
// deadline), and where a window has opened, deferred events are offered again. They are offered also when a policy is
// published, and when units of the current window come back: by a release, by a settlement below the reservation, by a cheaper
// route, by an expiry. Essential capabilities are offered first, then the others by name; within one, the oldest event first,
// and the first that does not fit ends it. An offer that changes nothing leaves no trace.
package spend

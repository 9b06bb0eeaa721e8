// Package smartflow paces requests to the Cisco Meraki Dashboard API so that they are
// not refused: it prevents 429s instead of repeating what was answered with one.
//
// It implements the Smart Flow specification, published in SMARTFLOW.md of
// https://github.com/meraki/dashboard-api-python together with conformance vectors.
// The vendor allows about 10 requests a second to each organization and 100 to each
// source address. A Limiter keeps a token bucket for each of them, lowers a rate when
// the server refuses and raises it again when it does not, and learns from URLs and
// responses which organization a network or a device belongs to, because a URL often
// names only those.
//
// # Use
//
// Put a Transport into an http.Client; the example shows it. Programs that do not use
// net/http call Limiter.Acquire before each request and Limiter.RateLimited,
// Limiter.Success and Limiter.Learn after it. The package needs no other package of
// its module.
//
// Learner and AIMD are the two ideas behind it without the vendor: where scope
// variables are found in traffic, and how a rate follows refusals.
//
// # Where the specification is silent
//
// The limiter then does what the published Python implementation does:
//
//   - Learning creates the bucket of the organization, even when no mapping changes.
//     Rates are adapted only of organizations that have a bucket.
//   - A look-up that finds an organization creates its bucket and counts as one new
//     mapping before it is checked whether a flush is due. A hydrator that fails is not
//     called again for the organization.
//   - A network in a URL hides a serial, also while the network is unknown.
//   - The bucket of the organization is charged after the wait for the global one. A
//     changed rate applies to all the time since the last charge.
//   - Each attempt pays. Any 2xx raises rates; only a 429 lowers them, and each one
//     does: nine at once take 10 a second to 0.5. Config.DecreaseHold changes that.
//   - In a response, an organizationId that is null or empty hides organization.id.
//     Lists teach nothing. Registered mappings do not make a flush due.
//   - A cache file without networks or devices is fresh, and the missing part is empty.
//
// # Beyond the specification
//
//   - A context that is done gives back what was reserved, as if the request had not
//     come.
//   - Concurrent look-ups of one network or device are one, which all wait for.
//   - A Retry-After stops the bucket that was decreased. Requests that were already
//     waiting in its queue are moved back as a whole, in their order, and queue up anew
//     when the pause is over, so its end is no stampede. From then on until its rate has
//     recovered, an organization saves no more than one token, and pays the global rate
//     when a request goes: of what was paid before the pause, the global limit of the
//     server has nothing. What was refused is not refused again because several go
//     together.
//   - The cache is stored by a goroutine in the background, and by Close, which
//     replaces the file only if something has changed, or else its mappings would look
//     younger than they are.
//
// # Deviations
//
// Conform compares with recordings of the published implementation, so it runs the
// limiter with all peculiarities of that implementation, and every recorded sequence
// is matched, those with the profiles conflict and quirk included. The limiter that
// New returns refuses some of them. This table lists all tags of both profiles, and
// the tags of the profile core under which New differs.
//
//	tag                          New       what it does instead, and why
//	null-org-shadows             matches
//	flush, flush-by-resolve      matches   the same thresholds; stored in the background
//	failed-flush-raises          refuses   a store that fails is told to Config.Warn and
//	                                       tried again after as many new mappings: who
//	                                       learns cannot do anything about a full disk
//	fault-swallowed-in-acquire   matches   and Config.Warn is told
//	ctor-below-floor, zero-rate  refuses   a configured rate below the floor of 0.5 is
//	                                       its own floor, or a 429 would raise it; a rate
//	                                       of 0 is the default, as it could never be paid
//	load-crash, partial-load     refuses   a damaged cache file starts empty with a
//	                                       warning: half a cache looks like a whole one,
//	                                       and a program must not fail to start over it
//	strptime-lenient             refuses   the timestamp has exactly the published form
//	empty-id, null-id,           refuses   only strings that are not empty are identifiers:
//	numeric-id, unhashable-id              all others are faults of the sender, and would
//	                                       give one organization the traffic of another
//	pending-ignores-type         refuses   a network and a device with the same identifier
//	                                       are two look-ups
//	reentrant-resolver           refuses   only where it meets pending-ignores-type; a
//	                                       resolver may call the limiter, and is not asked
//	                                       about what it is asked already
//	url-edges (core)             refuses   the query and the fragment name nothing, and end
//	                                       an identifier: ?next=/networks/N_1 is no scope
//	url-edges (core)             refuses   what follows /devices/ is learned only if it looks
//	                                       like a serial (Q2XX-XXXX-XXXX; two groups will do):
//	                                       /organizations/1/devices/statuses is no device
//	freshness (core)             refuses   a cache file from the future is not fresh: a clock
//	                                       was wrong, then or now
package smartflow

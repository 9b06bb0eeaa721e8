// Package journal reads and writes journals: one row for every request outcome, as tapyr writes them and as other programs do.
//
// A row is written once and read in bulk. So there are two forms of it: Row, for programs that look at one, and Batch, for
// programs that read ten million, where what repeats from row to row is a number into a table. Open reads any mix of files
// into either form, in order of time and in bounded memory; NewWriter writes JSONL, CSV and Parquet.
//
// Beside the readers' files nothing here does input or output, and nothing reads a clock.
package journal

import (
	"maps"
	"time"
)

const (
	// MaxBodyBytes is how much of a response's body a row keeps. Readers cut what is longer, at a character's edge: the rest of
	// such a row still counts.
	MaxBodyBytes = 4096

	// maxStatus and maxLatency bound what a row may claim: beyond them it is a bad row, because its request would settle at an
	// instant that no report means.
	maxStatus  = 999
	maxLatency = 30 * 24 * time.Hour
)

// Request is the part of a row that was known before the request was sent. Few of a journal's rows differ in it, which is why
// a Batch keeps each once. Two requests are the same if all fields are.
type Request struct {
	// Provider, Account, Target and Job are names of documents; Target is empty for an account without targets.
	Provider, Account, Target, Job string
	// Credential is the keyed hash of the secret in use, 16 hexadecimal digits; empty where none was.
	Credential string
	// Method is in capitals in rows of tapyr; readers keep what they find.
	Method string
	// Endpoint is a templated path, or a concrete one; it may carry a query after a question mark.
	Endpoint string
	// Vars are the values of the template's variables. Nil and empty are the same.
	Vars map[string]string
	// Priority is critical, high, normal or low; empty where the row does not say.
	Priority string
	// Retry marks a second or later attempt, Auth a token or login request.
	Retry, Auth bool
}

// Equal tells whether two requests are the same.
func (r *Request) Equal(o *Request) bool {
	return r.Provider == o.Provider && r.Account == o.Account && r.Target == o.Target && r.Job == o.Job &&
		r.Credential == o.Credential && r.Method == o.Method && r.Endpoint == o.Endpoint && r.Priority == o.Priority &&
		r.Retry == o.Retry && r.Auth == o.Auth && maps.Equal(r.Vars, o.Vars)
}

// Row is one request and its outcome.
type Row struct {
	// ID names the event; empty for none. Of rows with one ID, provider and account the last counts.
	ID string
	// At is when the request was granted, in UTC; with enforcement, when it arrived. Within the range of package window.
	At time.Time

	Request

	// Status is the response's, 0 for a request that was refused or got no response; at most 999.
	Status int
	// Headers are those response headers that some limit, penalty or match reads. Several fields of one name are one value,
	// joined by ", " as RFC 9110, section 5.3, allows. Nil and empty are the same.
	Headers map[string]string
	// Latency is how long after At the response had arrived: not negative, at most 30 days.
	Latency time.Duration
	// Refused is the reason of a refusal; empty for a request that was sent.
	Refused string
	// Body is the response's body, at most MaxBodyBytes, where something reads it.
	Body string
}

// Settled is the instant at which the response had arrived.
func (r *Row) Settled() time.Time { return r.At.Add(r.Latency) }

// Equal tells whether two rows say the same; an absent map is an empty one.
func (r *Row) Equal(o *Row) bool {
	return r.ID == o.ID && r.At.Equal(o.At) && r.Request.Equal(&o.Request) && r.Status == o.Status &&
		maps.Equal(r.Headers, o.Headers) && r.Latency == o.Latency && r.Refused == o.Refused && r.Body == o.Body
}

// clipBody cuts a body to MaxBodyBytes without leaving half a character.
func clipBody(body string) string {
	if len(body) <= MaxBodyBytes {
		return body
	}
	n := MaxBodyBytes
	for n > MaxBodyBytes-4 && body[n]&0xC0 == 0x80 {
		n--
	}
	return body[:n]
}

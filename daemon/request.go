package daemon

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/tapyr/tapyr/daemon/client"
	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/match"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate"
)

// sent is what came of one request.
type sent struct {
	answer  *client.Answer // nil where none came
	err     error          // beside or instead of it
	limited bool
	latency time.Duration
}

// send sends a request that has a pass, tells the engine what came, and writes it down. It ends the pass.
func (d *Daemon) send(ctx context.Context, p *pass, job string, h *host, r *client.Request, c *client.Credential) sent {
	defer p.end()
	began := time.Now()
	out := sent{}
	out.answer, out.err = h.client.Send(ctx, r, h.client.Latest(c))
	out.latency = time.Since(began)
	response := &engine.Response{}
	if out.answer != nil {
		response.Fields = fieldsOf(out.answer, p.recorded())
		if out.err == nil || !truncated(out.err) {
			response.Status = out.answer.Status
		}
		if recorded := p.recorded(); recorded != nil && recorded.body {
			response.Body = string(out.answer.Body[:min(len(out.answer.Body), maxEngineBody)])
		}
	}
	out.limited = p.settle(response)
	d.record(p, job, response, "", out.latency)
	return out
}

// maxEngineBody is how much of a body is looked at for what means "rate limited" and how long to wait.
const maxEngineBody = 64 << 10

func truncated(err error) bool {
	var body *client.BodyError
	return !errors.As(err, &body) || body.Why == client.BodyTruncated
}

// recorded are the headers that some rule of the request's provider may read.
func (p *pass) recorded() *recorded { return p.world.headers[p.ask.request.Provider] }

// fieldsOf are the headers of an answer that some rule may read; nil stands for any rule.
func fieldsOf(a *client.Answer, recorded *recorded) []engine.Field {
	var fields []engine.Field
	for name, values := range a.Header {
		if recorded != nil && !recorded.all && !recorded.names[name] {
			continue
		}
		for _, value := range values {
			fields = append(fields, engine.Field{Name: name, Value: value})
		}
	}
	return fields
}

// record adds a row to the journal. refused is the reason of a request that was not sent.
func (d *Daemon) record(p *pass, job string, response *engine.Response, refused string, latency time.Duration) {
	row := d.row(p.ask, job, p.retry, p.granted)
	row.Refused, row.Latency = refused, latency
	if response != nil {
		row.Status = response.Status
		if recorded := p.recorded(); recorded != nil {
			for _, f := range response.Fields {
				if !recorded.names[f.Name] {
					continue
				}
				if row.Headers == nil {
					row.Headers = make(map[string]string)
				}
				if before, ok := row.Headers[f.Name]; ok {
					row.Headers[f.Name] = before + ", " + f.Value
					continue
				}
				row.Headers[f.Name] = f.Value
			}
			if recorded.body {
				row.Body = response.Body[:min(len(response.Body), maxRowBody)]
			}
		}
	}
	d.keeper.Row(row)
}

// maxRowBody is the most of a body that a journal keeps.
const maxRowBody = 4 << 10

func (d *Daemon) row(a *ask, job string, retry bool, atNanos int64) ledger.Row {
	r := &a.request
	row := ledger.Row{
		At: time.Unix(0, atNanos).UTC(),
		Request: ledger.RowRequest{
			Provider: r.Provider, Account: r.Account, Target: r.Target, Job: job, Credential: r.Credential, Method: r.Method,
			Endpoint: r.Endpoint, Vars: r.Vars, Priority: r.Priority, Retry: retry, Auth: r.Auth,
		},
	}
	row.ID = d.rowID()
	return row
}

// rowID names a row of the journal: the daemon's start, and a number. It is unique on the state, which has one owner at a time, short,
// and greater than those before it, which an index likes.
func (d *Daemon) rowID() string {
	const digits = 36
	number := strconv.FormatInt(d.rows.Add(1), digits)
	return strconv.FormatInt(d.startedAt.UnixNano(), digits) + "-" + "0000000"[min(len(number), 7):] + number
}

// admitAuth lets token and login requests of an account through the engine, like any other request.
func (d *Daemon) admitAuth(a *validate.Account, name hostName, h *host, priority string) client.Admit {
	return func(ctx context.Context, method, endpoint string) (client.Admission, error) {
		one := &ask{request: engine.Request{
			Request: match.Request{
				Provider: a.Provider.Name, Account: a.Name, Target: name.target, Credential: h.credential,
				Method: method, Endpoint: endpoint, Auth: true,
			},
			Priority: priority,
		}}
		deadline, ok := ctx.Deadline()
		if !ok {
			deadline = time.Now().Add(time.Minute)
		}
		p, err := d.admit(ctx, one, false, d.now()+int64(time.Until(deadline)), "", nil)
		if err != nil {
			return nil, err
		}
		return &authPass{d, p, time.Now()}, nil
	}
}

// authPass is a token request that may go.
type authPass struct {
	daemon *Daemon
	pass   *pass
	began  time.Time
}

// Done implements client.Admission.
func (a *authPass) Done(answer *client.Answer) {
	defer a.pass.end()
	response := &engine.Response{}
	if answer != nil {
		response.Status, response.Fields = answer.Status, fieldsOf(answer, a.pass.recorded())
	}
	a.pass.settle(response)
	a.daemon.record(a.pass, "", response, "", time.Since(a.began))
}

// admit acquires, and queues a refused request again until the instant from which it makes sense, if that precedes its deadline: a
// fan-out survives a minute's quota. What is refused for good is written down. queued, if not nil, hears why a request waits again.
func (d *Daemon) admit(
	ctx context.Context, a *ask, retry bool, deadlineNanos int64, job string, queued func(engine.Reason),
) (*pass, error) {
	for {
		p, err := d.acquire(ctx, a, retry, deadlineNanos)
		var refused *engine.RefusedError
		if !errors.As(err, &refused) {
			return p, err
		}
		now := d.now()
		if refused.Reason == engine.DeadlineExceeded || !refused.RetryKnown || refused.RetryAtNanos > deadlineNanos || now >= deadlineNanos {
			row := d.row(a, job, retry, now)
			row.Refused = string(refused.Reason)
			d.keeper.Row(row)
			return nil, err
		}
		if queued != nil {
			queued(refused.Reason)
		}
		if err := d.sleep(ctx, max(now+1, refused.RetryAtNanos)); err != nil {
			return nil, err
		}
	}
}

// sleep waits until an instant of the gate's clock, or until the daemon stops.
func (d *Daemon) sleep(ctx context.Context, untilNanos int64) error {
	wait := time.Duration(untilNanos - d.now())
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-d.stopping:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// draw is uniform in [0, 1), for the jitter of retries.
func draw() float64 { return rand.Float64() }

// outcomeOf an answer.
func outcomeOf(p *validate.Provider, s *sent) schedule.Outcome {
	switch {
	case s.answer == nil:
		return schedule.OutcomeOf(p, 0, false)
	case s.err != nil && truncated(s.err):
		return schedule.OutcomeOf(p, 0, s.limited)
	case s.err != nil && !s.limited:
		return schedule.Rejected
	}
	return schedule.OutcomeOf(p, s.answer.Status, s.limited)
}

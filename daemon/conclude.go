package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/tapyr/tapyr/daemon/client"
	"github.com/tapyr/tapyr/daemon/dispatch"
	"github.com/tapyr/tapyr/expr"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
)

const (
	// resultInterrupted: tapyr was ended while a request was under way, and the route is not idempotent.
	resultInterrupted = "interrupted"
	// resultUnpriced: it is done, and the answer does not tell what it cost.
	resultUnpriced = "unpriced"
	// resultUnsendable: the route's request cannot be made of the event.
	resultUnsendable = "unsendable"
)

// judge reads what came of a request.
func judge(account string, w *world, got *sent) dispatch.Verdict {
	a := dispatch.Answer{Limited: got.limited, Timeout: errors.Is(got.err, context.DeadlineExceeded)}
	var unsent *client.UnsentError
	a.Unsent = errors.As(got.err, &unsent)
	if got.answer != nil { // with a whole body or not: the status says what was done
		a.Status = got.answer.Status
	}
	return dispatch.Judge(w.config.Account(account).Provider, a)
}

// why is an answer that was no success as an error.
func (d *delivery) why(got *sent) error {
	var redirect *client.RedirectError
	if errors.As(got.err, &redirect) {
		return redirect
	}
	if got.answer == nil || got.err != nil && got.answer.Status < 300 {
		return got.err
	}
	return &client.StatusError{Status: got.answer.Status, Attempts: d.task.Tries + 1, Excerpt: d.host.client.Excerpt(got.answer.Body)}
}

// conclude writes down what came of an attempt, in one step with what follows from it.
func (d *delivery) conclude(ctx context.Context, got *sent, verdict *dispatch.Verdict) dispatch.Result {
	var redirect *client.RedirectError
	if errors.As(got.err, &redirect) {
		*verdict = dispatch.Verdict{Result: dispatch.ResultRedirected, Outcome: schedule.Rejected, Charge: dispatch.MaybeCharged}
	}
	backoff := schedule.BackoffOf(d.world.config.Account(d.ask.request.Account).Provider)
	doubted := d.doubt || d.event.InDoubt
	out := spend.Delivery{
		Result: verdict.Result, Response: responseOf(got), InDoubt: doubted || verdict.Charge == dispatch.MaybeCharged,
	}
	step := verdict.After(dispatch.Rules{Repeatable: d.route.Idempotent, MaxAttempts: backoff.MaxAttempts}, d.task.Tries+1, doubted)
	switch step {
	case dispatch.Settle:
		return d.settle(ctx, got, out)
	case dispatch.Release:
		return d.release(ctx, got, out)
	case dispatch.Retry:
		return d.after(ctx, out, dispatch.Result{
			Kind: dispatch.Again, Until: time.Now().Add(backoff.Wait(d.task.Tries+1, draw())), Told: out.InDoubt,
		})
	case dispatch.Unavailable:
		return d.down(ctx, got, verdict, out)
	case dispatch.Linger:
		if deadline := d.event.Deadline; deadline.IsZero() || time.Now().Before(deadline) {
			return d.after(ctx, out, dispatch.Result{Kind: dispatch.Again, Until: d.later(), Told: true})
		}
	}
	return d.giveUp(ctx, verdict.Result, d.why(got).Error())
}

// settle charges what the answer says.
func (d *delivery) settle(ctx context.Context, got *sent, out spend.Delivery) dispatch.Result {
	actual, err := d.actual(ctx, got)
	if err != nil {
		return d.giveUp(ctx, resultUnpriced, "the answer does not tell what it cost: "+err.Error())
	}
	out.Actual, out.InDoubt = &actual, false
	result := d.after(ctx, out, dispatch.Result{Kind: dispatch.Over})
	d.daemon.log.Debug("a paid call was delivered", "policy", d.task.Policy, "event", d.task.ID, "route", d.task.Route,
		"attempts", d.event.Attempts+1, "units", actual.String())
	return result
}

// release gives the units back, unless the refusal itself names what it cost.
func (d *delivery) release(ctx context.Context, got *sent, out spend.Delivery) dispatch.Result {
	if d.route.Actual != "" {
		if actual, err := d.actual(ctx, got); err == nil && actual.Sign() > 0 {
			out.Actual = &actual
		}
	}
	if out.Actual == nil {
		out.Reason = fmt.Sprintf("%s: status %d", out.Result, got.answer.Status)
	}
	d.daemon.log.Warn("a paid call was refused by the vendor", "policy", d.task.Policy, "event", d.task.ID, "route", d.task.Route,
		"released", out.Actual == nil, "error", d.why(got))
	return d.after(ctx, out, dispatch.Result{Kind: dispatch.Over})
}

// down lets an event wait for its route, or take the next.
func (d *delivery) down(ctx context.Context, got *sent, verdict *dispatch.Verdict, out spend.Delivery) dispatch.Result {
	out.Down = true
	outcome, err := d.record(ctx, out)
	if err != nil {
		return d.unwritten(err)
	}
	why := d.daemon.redactor.Text(d.why(got).Error())
	result := d.waits(&outcome, d.later(), why)
	if verdict.AccountRefused {
		result = dispatch.Result{Kind: dispatch.Down, Until: d.later(), Why: why, Told: result.Told, Moved: result.Kind == dispatch.Over}
	}
	return result
}

// giveUp leaves an event that may have been charged to people.
func (d *delivery) giveUp(ctx context.Context, result, why string) dispatch.Result {
	why = d.daemon.redactor.Text(why)
	end := d.after(ctx, spend.Delivery{Result: result, InDoubt: true, GiveUp: true}, dispatch.Result{Kind: dispatch.Over})
	if end.Kind == dispatch.Over {
		d.outbox.mu.Lock()
		d.outbox.doubts[d.task.Policy]++
		d.outbox.mu.Unlock()
		d.daemon.log.Warn("A PAID CALL MAY HAVE BEEN CHARGED and is not sent again: its units are kept until it is reconciled, settled or released",
			"policy", d.task.Policy, "event", d.task.ID, "route", d.task.Route, "result", result, "why", why)
	}
	return end
}

// unsendable releases an event that no request can be made of.
func (d *delivery) unsendable(ctx context.Context, event *book.Event, why error) dispatch.Result {
	d.event = event
	if event.InDoubt {
		return d.giveUp(ctx, resultUnsendable, why.Error())
	}
	d.daemon.log.Warn("a paid call cannot be sent, and is released", "policy", d.task.Policy, "event", d.task.ID, "route", d.task.Route, "error", why)
	return d.after(ctx, spend.Delivery{Result: resultUnsendable, Reason: "unsendable: " + cut(why.Error())}, dispatch.Result{Kind: dispatch.Over})
}

// cut keeps a reason within what the chain takes.
func cut(text string) string {
	const most = 400
	if len(text) > most {
		text = text[:most]
	}
	return text
}

// after records an attempt; the result holds where that succeeds.
func (d *delivery) after(ctx context.Context, out spend.Delivery, result dispatch.Result) dispatch.Result {
	if _, err := d.record(ctx, out); err != nil {
		return d.unwritten(err)
	}
	return result
}

// record writes an attempt down. The answer is there and the money may be spent, so it does not end with the daemon's work, and a
// store that fails is asked again until it does.
func (d *delivery) record(ctx context.Context, out spend.Delivery) (spend.Outcome, error) {
	out.Route = d.task.Route
	for {
		outcome, err := d.machine.Attempt(context.WithoutCancel(ctx), time.Now(), d.task.ID, out)
		var storage *book.StorageError
		if !errors.As(err, &storage) {
			if err == nil {
				d.outbox.count(&d.task, out.Result)
			}
			return outcome, err
		}
		d.daemon.log.Error("the outcome of a paid call could not be written, and is tried again", "policy", d.task.Policy, "event", d.task.ID, "error", err)
		select {
		case <-time.After(moment):
		case <-ctx.Done(): // the note of Send stays: after a restart the event is in doubt
			return outcome, err
		}
	}
}

// actual is what an answer says that it cost; without an expression, what was reserved.
func (d *delivery) actual(ctx context.Context, got *sent) (book.Units, error) {
	if d.route.Actual == "" {
		return d.event.Reserved, nil
	}
	if got.err != nil {
		return book.Units{}, got.err
	}
	program, err := d.outbox.program(d.route.Actual)
	if err != nil {
		return book.Units{}, err
	}
	body, err := client.Decode(got.answer.Body)
	if err != nil {
		return book.Units{}, err
	}
	text, err := program.EvalText(context.WithoutCancel(ctx), map[string]any{
		"response": body, "headers": client.Headers(got.answer.Header), "status": got.answer.Status,
	})
	if err != nil {
		return book.Units{}, err
	}
	return book.ParseUnits(text)
}

// program compiles an expression, once.
func (o *outbox) program(text string) (*expr.Program, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.programs[text]; p != nil {
		return p, nil
	}
	p, err := expr.SpendActual.Compile(text)
	if err == nil {
		o.programs[text] = p
	}
	return p, err
}

// count takes down an attempt.
func (o *outbox) count(task *dispatch.Task, result string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[deliveryCount{task.Policy, task.Route, result}]++
}

// responseOf is what the book keeps of an answer: its body, or a hash of one that is too long or no text.
func responseOf(got *sent) string {
	if got.answer == nil || len(got.answer.Body) == 0 {
		return ""
	}
	const most = 4 << 10
	if body := got.answer.Body; len(body) <= most && utf8.Valid(body) {
		return string(body)
	}
	sum := sha256.Sum256(got.answer.Body)
	return fmt.Sprintf("sha256:%s (%d bytes)", hex.EncodeToString(sum[:]), len(got.answer.Body))
}

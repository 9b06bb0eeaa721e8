package cli

import (
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

const (
	// progressDelay keeps short work silent.
	progressDelay = time.Second
	// progressEvery is how often the bar moves: often enough to look alive.
	progressEvery = 150 * time.Millisecond
)

// progress is a bar on standard error for work that takes longer than a second.
// It is there only where standard error is a terminal and not with --quiet, and
// leaves nothing behind. Add may be called from any goroutine and costs an
// atomic addition, so that loops over millions of rows can afford it.
type progress struct {
	done atomic.Int64
	// count, where it is set, tells how much is done in place of Add.
	count func() int64
	// stop asks the goroutine that owns the bar to end, stopped says that it
	// has. Both are nil where there is no bar.
	stop, stopped chan struct{}
}

// startProgress begins to count total units of work named label, as "rows". A
// total of 0 means that it is not known. The caller must call finish.
func (c *Call) startProgress(label string, total int64) *progress {
	return c.followProgress(label, total, nil)
}

// followProgress is startProgress for work that counts itself. count is called from another goroutine.
func (c *Call) followProgress(label string, total int64, count func() int64) *progress {
	p := &progress{count: count}
	if c.Env.StderrColumns == 0 || c.Quiet() {
		return p
	}
	p.stop, p.stopped = make(chan struct{}), make(chan struct{})
	go p.show(c.Env, label, total, time.Now())
	return p
}

// Add counts n more units as done.
func (p *progress) Add(n int64) { p.done.Add(n) }

// finish takes the bar away and returns once it is gone, so that what is
// printed next does not mix with it.
func (p *progress) finish() {
	if p.stop != nil {
		close(p.stop)
		<-p.stopped
		p.stop = nil
	}
}

// show owns the bar: it waits for the delay, then moves the bar until stopped.
// The work began at start, before there was a bar, and the estimate needs that.
func (p *progress) show(env *Env, label string, total int64, start time.Time) {
	defer close(p.stopped)
	delay := time.NewTimer(progressDelay)
	defer delay.Stop()
	select {
	case <-p.stop:
		return
	case <-delay.C:
	}
	container := mpb.New(
		mpb.WithOutput(env.Stderr),
		mpb.WithWidth(min(env.StderrColumns, defaultColumns)),
		mpb.WithRefreshRate(progressEvery),
		mpb.WithAutoRefresh(),
		mpb.ForceTTY(), // Env says that it is one
	)
	bar := newBar(container, label, total, start)
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		if p.count != nil {
			p.done.Store(p.count())
		}
		bar.SetCurrent(p.done.Load())
		select {
		case <-p.stop:
			bar.Abort(true)
			container.Wait()
			return
		case <-tick.C:
		}
	}
}

// newBar makes a bar where the total is known, else a spinner with a count.
func newBar(container *mpb.Progress, label string, total int64, start time.Time) *mpb.Bar {
	room := decor.WC{W: 6}
	if total <= 0 {
		return container.AddSpinner(0,
			mpb.AppendDecorators(decor.CurrentNoUnit("%d "+label), decor.NewElapsed(decor.ET_STYLE_GO, start, room)))
	}
	return container.AddBar(total,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(label, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.Percentage(), decor.NewAverageETA(decor.ET_STYLE_GO, start, nil, room)))
}

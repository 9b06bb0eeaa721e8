package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/tapyr/tapyr/daemon/client"
	"github.com/tapyr/tapyr/daemon/dispatch"
	"github.com/tapyr/tapyr/daemon/keep"
	"github.com/tapyr/tapyr/daemon/mapping"
	"github.com/tapyr/tapyr/engine"
	"github.com/tapyr/tapyr/learn"
	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/plan"
	"github.com/tapyr/tapyr/schedule"
	"github.com/tapyr/tapyr/validate"
)

// Daemon runs the jobs of a configuration. New makes one, Run or Once runs it; the other methods may be called by any goroutine
// meanwhile.
type Daemon struct {
	options  Options
	log      *slog.Logger
	redactor *client.Redactor
	store    *sqlite.Store
	keeper   *keep.Keeper
	outbox   *outbox
	// reconciler compares settled files.
	reconciler *reconciler
	salt       []byte
	door       *door
	watch      *watch
	series     *mapping.Series
	files      mapping.Files
	library    *learn.Library // the latest world's
	lessons    learnedLog
	// token is that of the status address, exposed whether others reach that.
	token   atomic.Pointer[string]
	exposed atomic.Bool
	// allAccounts makes clients for accounts without jobs, too.
	allAccounts bool
	startedAt   time.Time
	wall        clock
	// stopping is closed when nothing starts any more.
	stopping chan struct{}
	stopOnce sync.Once
	// wake tells the loop that something has changed; it has room for one.
	wake chan struct{}
	// reloads asks for new documents; it has room for one.
	reloads chan struct{}
	rows    atomic.Int64 // of the journal
	// gate is that of the world in force; intervals are the jobs' in force.
	gate      atomic.Pointer[engine.Gate]
	intervals atomic.Pointer[map[string]time.Duration]

	// taking is held while the counts of the engine in force are taken, so that no older ones come after those of its successor.
	taking sync.Mutex

	mu       sync.Mutex // guards what follows, the world's schedule and the runs' heirs
	world    *world
	book     *sqlite.Spend // of paid calls; nil while no policy is declared
	machines map[string]*dispatch.Machine
	ready    bool
	history  *schedule.History
	running  map[string]*run // by instance name
	group    sync.WaitGroup  // of the runs
	waiting  map[*run]WaitingRequest
	jobs     map[string]*jobRecord
	accounts map[string]*accountRecord
	listed   map[string]ledger.Inventory // what instances have told, by name
	started  map[string]int64            // when instances started last, by name, those of earlier processes included
	paused   map[string]bool
	lines    map[string]*semaphore.Weighted // of those that stand at the gate, by job
	config   ConfigState
	plan     *plan.Plan
	advice   *advice // of plan
	planWhy  string
	replans  int64
	changes  ring[IntervalChange]
	maxima   map[[3]string]int64 // learned, by key, as the plan knew them
	warned   bool                // that the plan is infeasible
}

// jobRecord is what has become of a job.
type jobRecord struct {
	runs              map[string]int64
	missed            int64
	requests, retries int64
	last, firstBad    *RunState
	lastSuccess       time.Time
	err               string
	errAt             time.Time
	lines             int64
}

// accountRecord is what has become of an account's requests.
type accountRecord struct {
	requests, succeeded, limited, failed int64
	lastSuccess                          time.Time
	// refusedAuth tells that the last answer was that the credentials are not accepted, failing how many requests in a row failed.
	refusedAuth bool
	failing     int64
	lastFailure string
}

// New makes a daemon. Nothing is read and nothing is sent yet.
func New(o Options) *Daemon {
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	d := &Daemon{
		options: o, redactor: client.NewRedactor(), door: newDoor(), watch: newWatch(), stopping: make(chan struct{}),
		wake: make(chan struct{}, 1), reloads: make(chan struct{}, 1), startedAt: time.Now(), wall: wallClock, history: schedule.NewHistory(),
		running: make(map[string]*run), waiting: make(map[*run]WaitingRequest), jobs: make(map[string]*jobRecord),
		accounts: make(map[string]*accountRecord), listed: make(map[string]ledger.Inventory), paused: make(map[string]bool),
		started: make(map[string]int64), lines: make(map[string]*semaphore.Weighted), planWhy: "start",
		machines: make(map[string]*dispatch.Machine),
	}
	d.outbox, d.reconciler = newOutbox(d), newReconciler(d)
	d.log = slog.New(&redacting{o.Log.Handler(), d.redactor})
	d.series = mapping.NewSeries(time.Now, d.intervalOf)
	return d
}

// busy is how long a write waits for another program that holds the state.
const busy = 2 * time.Second

// open loads the documents, opens the state, and brings an engine to where the last one was. The error says what to do.
func (d *Daemon) open(ctx context.Context) error {
	config, err := d.options.Load(ctx)
	if err != nil {
		return err
	}
	w, err := d.newWorld(config, 1)
	if err != nil {
		return err
	}
	if _, err := d.lookUp(w); err != nil {
		return err // before anything is made
	}
	if d.store, err = sqlite.Open(ctx, w.settings.statePath, sqlite.Options{Mode: sqlite.Owner, BusyTimeout: busy}); err != nil {
		return d.explainState(err)
	}
	if d.salt, err = d.store.Salt(ctx, freshSalt()); err != nil {
		return err
	}
	if err := d.connect(w); err != nil {
		return err
	}
	d.loadLearned(w)
	d.keeper = keep.New(d.store)
	snapshot, err := d.keeper.Restore(ctx, time.Unix(0, d.wall()), w.config)
	if err != nil {
		return err
	}
	if err := d.remember(ctx, w); err != nil {
		return err
	}
	if err := d.openBook(ctx, w); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, job := range d.keeper.Paused() {
		d.paused[job] = true
		d.log.Info("a job is paused since an earlier start of tapyr; \"tapyr job resume\" lets it go on", "job", job)
	}
	d.install(w, snapshot)
	d.ready = true
	return nil
}

// explainState says what to do about a state that does not open.
func (d *Daemon) explainState(err error) error {
	var locked *ledger.LockedError
	if errors.As(err, &locked) {
		return fmt.Errorf("%w; stop the other one, or give this one a state of its own in state.path", err)
	}
	return fmt.Errorf("the state does not open, and without it what was used before is not known: %w", err)
}

// remember takes over what earlier runs found and took.
func (d *Daemon) remember(ctx context.Context, w *world) error {
	inventories, err := d.store.Inventories(ctx)
	if err != nil {
		return err
	}
	starts, err := d.store.LastStarts(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	for _, one := range inventories {
		d.listed[one.Instance] = one
	}
	for instance, at := range starts {
		d.started[instance] = at.UnixNano()
	}
	d.takeInventories(w)
	d.takeStarts(w)
	d.mu.Unlock()
	const runsPerJob = 200
	for _, j := range w.kept.Jobs {
		runs, err := d.store.Runs(ctx, j.Name, runsPerJob)
		if err != nil {
			return err
		}
		for i := len(runs) - 1; i >= 0; i-- {
			d.mu.Lock()
			d.takeRun(w, j, &runs[i])
			d.mu.Unlock()
		}
	}
	return nil
}

// takeStarts tells a new schedule when instances started last. It requires mu.
func (d *Daemon) takeStarts(w *world) {
	for instance, at := range d.started {
		w.schedule.Ran(instance, at)
	}
}

// takeInventories opens the instances that known items make: of parents first, since children's instances come of them. It
// requires mu.
func (d *Daemon) takeInventories(w *world) {
	var visit func(j *validate.Job)
	visit = func(j *validate.Job) {
		if len(j.Children) == 0 {
			return
		}
		for _, i := range w.schedule.Instances(j.Name) {
			if known, ok := d.listed[i.Name]; ok && suits(j, known.Items) {
				w.learnItems(known.At.UnixNano(), i, known.Items)
				w.schedule.SetItems(i, known.Items)
			}
		}
		for _, child := range j.Children {
			visit(child)
		}
	}
	for _, j := range w.kept.Jobs {
		if j.Parent == nil {
			visit(j)
		}
	}
}

// suits tells whether stored items have the variables that the documents now declare.
func suits(j *validate.Job, items []map[string]string) bool {
	for _, item := range items {
		if len(item) != len(j.Spec.Inventory.Vars) {
			return false
		}
		for name := range j.Spec.Inventory.Vars {
			if _, ok := item[name]; !ok {
				return false
			}
		}
	}
	return true
}

// takeRun takes over a run of an earlier process. It requires mu.
func (d *Daemon) takeRun(w *world, j *validate.Job, from *ledger.Run) {
	record := d.job(j.Name)
	ended := from.Started.Add(from.Duration)
	if from.Status == statusOK && ended.After(record.lastSuccess) {
		record.lastSuccess = ended
	}
	if instance := w.schedule.Instance(from.Instance); instance != nil && from.Status == statusOK {
		past := schedule.Run{Instance: instance, Requests: int(from.Requests), Retries: int(from.Requests - from.Pages)}
		d.history.Add(&past, 0)
	}
}

// install puts a world in force, with an engine that begins where a snapshot was taken. It requires mu, and that the door is
// closed.
func (d *Daemon) install(w *world, snapshot *engine.Snapshot) {
	e := engine.New(w.config, engine.Options{
		Observer: d.watch, MaxInFlight: w.settings.inFlight, MaxInFlightEach: w.settings.inFlightEach,
	})
	if snapshot != nil {
		if skipped := e.Restore(d.wall(), snapshot); skipped > 0 {
			d.log.Info("what the documents no longer know was left out of the state", "scopes", skipped)
		}
	}
	w.gate = e.GateAt(d.wall())
	d.gate.Store(w.gate)
	for name := range d.paused {
		w.schedule.Pause(name, true)
	}
	d.world, d.maxima = w, nil
	d.publishIntervals()
	if w.generation != d.config.Generation {
		d.config.Error, d.config.ErrorAt = "", nil // of documents that were refused before these
	}
	d.config.Generation, d.config.LoadedAt = w.generation, time.Now().UTC()
	for _, j := range w.config.Jobs {
		if w.kept.Job(j.Name) == nil {
			d.log.Info("a job makes no calls, because nobody keeps what it finds: it has no metrics and no outputs, and no job with any runs over its inventory",
				"job", j.Name)
		}
	}
	d.door.open(w)
}

// job is the record of a job. It requires mu.
func (d *Daemon) job(name string) *jobRecord {
	if d.jobs[name] == nil {
		d.jobs[name] = &jobRecord{runs: map[string]int64{statusOK: 0, statusFailed: 0, statusPartial: 0, statusInterrupted: 0}}
	}
	return d.jobs[name]
}

// account is the record of an account. It requires mu.
func (d *Daemon) account(name string) *accountRecord {
	if d.accounts[name] == nil {
		d.accounts[name] = new(accountRecord)
	}
	return d.accounts[name]
}

// now is the present, in the time of the gate in force, in nanoseconds since the Unix epoch.
func (d *Daemon) now() int64 { return d.gate.Load().Now() }

// intervalOf is a job's interval in force, for the age of its series; 0 for a job that is gone.
func (d *Daemon) intervalOf(job string) time.Duration {
	intervals := d.intervals.Load()
	if intervals == nil {
		return 0
	}
	return (*intervals)[job]
}

// publishIntervals makes the intervals in force known to intervalOf. It requires mu.
func (d *Daemon) publishIntervals() {
	intervals := make(map[string]time.Duration)
	for _, j := range d.world.kept.Jobs {
		intervals[j.Name] = j.Interval
		if held := d.world.schedule.Interval(j.Name); held > 0 {
			intervals[j.Name] = held
		}
	}
	d.intervals.Store(&intervals)
}

// Series are the metrics that the jobs' answers are mapped to.
func (d *Daemon) Series() prometheus.Collector { return d.series }

// poke wakes the loop.
func (d *Daemon) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// NoSuchJobError says that there is no job of a name, or none that makes calls.
type NoSuchJobError struct {
	Job string
	// Silent tells that there is one, but nobody keeps what it finds.
	Silent bool
}

func (e *NoSuchJobError) Error() string {
	if e.Silent {
		return fmt.Sprintf("job %q makes no calls: nobody keeps what it finds", e.Job)
	}
	return fmt.Sprintf("there is no job %q", e.Job)
}

// find requires mu. The error is a *NoSuchJobError.
func (d *Daemon) find(job string) error {
	switch {
	case d.world == nil || d.world.config.Job(job) == nil:
		return &NoSuchJobError{Job: job}
	case d.world.kept.Job(job) == nil:
		return &NoSuchJobError{Job: job, Silent: true}
	}
	return nil
}

// Pause keeps a job's instances from starting, until Resume, also after a restart. Runs under way go on. The error is a *NoSuchJobError.
func (d *Daemon) Pause(job string) error { return d.setPaused(job, true) }

// Resume lets a job start again; what was missed is made up for by one run. The error is a *NoSuchJobError.
func (d *Daemon) Resume(job string) error { return d.setPaused(job, false) }

func (d *Daemon) setPaused(job string, paused bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.find(job); err != nil {
		return err
	}
	if d.paused[job] == paused {
		return nil
	}
	d.paused[job] = paused
	if !paused {
		delete(d.paused, job)
	}
	d.world.schedule.Pause(job, paused)
	d.keeper.Pause(job, paused)
	d.log.Info("a job was paused or resumed", "job", job, "paused", paused)
	d.poke()
	return nil
}

// Trigger starts all instances of a job now, apart from those that run, within the limits like any other run. It tells how many. A
// paused job is not started. The error is a *NoSuchJobError.
func (d *Daemon) Trigger(job string) (started int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.find(job); err != nil {
		return 0, err
	}
	started = d.world.schedule.Trigger(d.world.gate.Now(), job)
	d.log.Info("a job was triggered", "job", job, "instances", started)
	d.poke()
	return started, nil
}

// Reload asks for the documents to be read again. It does not wait for that: Snapshot tells how it went.
func (d *Daemon) Reload() {
	select {
	case d.reloads <- struct{}{}:
	default:
	}
}

// Ready tells whether the daemon does its work: nil, or why not.
func (d *Daemon) Ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.stopping:
		return errStopping
	default:
	}
	switch {
	case !d.ready:
		return errors.New("tapyr is starting")
	case d.plan == nil:
		return errors.New("there is no plan yet")
	}
	return nil
}

package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/tapyr/tapyr/daemon/dispatch"
	"github.com/tapyr/tapyr/ledger/sqlite"
	"github.com/tapyr/tapyr/spend"
	"github.com/tapyr/tapyr/spend/book"
)

// Paid calls. The documents say which policies this tapyr serves; which version of one decides, and how its events are delivered, is
// what was published last. The book is in the state file, where the commands of tapyr spend write too.

// openBook opens the book of paid calls where the documents declare a policy. It is opened once and stays open.
func (d *Daemon) openBook(ctx context.Context, w *world) error {
	if d.book != nil || len(w.config.Policies) == 0 {
		return nil
	}
	store, err := sqlite.OpenSpend(ctx, w.settings.statePath, sqlite.Options{})
	if err != nil {
		return fmt.Errorf("the book of paid calls does not open: %w", err)
	}
	d.mu.Lock()
	d.book = store
	d.mu.Unlock()
	return nil
}

// closeBook gives the book back.
func (d *Daemon) closeBook() {
	if d.book == nil {
		return
	}
	if err := d.book.Close(); err != nil {
		d.log.Error("the book of paid calls was not closed", "error", err)
	}
}

// deliverPaid delivers paid calls until the daemon stops; end waits for that. A daemon that is restricted to some jobs delivers none.
func (d *Daemon) deliverPaid(ctx, work context.Context) {
	if len(d.options.Jobs) > 0 {
		return
	}
	d.comparePolicies(ctx, d.world)
	d.group.Go(func() { d.outbox.run(work) })
	d.group.Go(func() { d.reconciler.run(work) })
}

// reloadPaid takes over what new documents say: an account that was missing may be there.
func (d *Daemon) reloadPaid(ctx context.Context, w *world) {
	d.comparePolicies(ctx, w)
	d.outbox.mu.Lock()
	d.outbox.queue.Forget()
	d.outbox.mu.Unlock()
	d.outbox.poke()
}

// Book is the book of paid calls; nil while no policy is declared. It is closed when Run returns.
func (d *Daemon) Book() book.Store {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.book == nil {
		return nil
	}
	return d.book
}

// Machines are those that admit paid calls, one for each policy that the documents declare, by its name.
func (d *Daemon) Machines() map[string]*dispatch.Machine {
	d.mu.Lock()
	defer d.mu.Unlock()
	machines := make(map[string]*dispatch.Machine)
	if d.book == nil || d.world == nil {
		return machines
	}
	for _, p := range d.world.config.Policies {
		if d.machines[p.Name] == nil {
			d.machines[p.Name] = dispatch.NewMachine(d.book, p.Name, func(out *spend.Outcome) { d.heard(p.Name, out) })
		}
		machines[p.Name] = d.machines[p.Name]
	}
	return machines
}

// heard wakes the delivery after a step of a machine, and logs what else it has changed. Bands that were reached the reconciler
// finds in the book, whichever process reached them.
func (d *Daemon) heard(policy string, out *spend.Outcome) {
	for i := range out.Others {
		other := &out.Others[i]
		d.log.Info("another decision holds for a paid call", "policy", policy, "event", other.EventID,
			"disposition", other.Disposition, "state", other.State)
	}
	d.outbox.poke()
}

// comparePolicies says where the documents and what was published differ.
func (d *Daemon) comparePolicies(ctx context.Context, w *world) {
	store := d.Book()
	if store == nil {
		return
	}
	for _, p := range w.config.Policies {
		var active *spend.Policy
		err := store.View(ctx, func(tx book.Tx) (err error) {
			active, _, err = spend.New(store, p.Name).Active(tx)
			return err
		})
		var none *spend.NoPolicyError
		switch {
		case errors.As(err, &none):
			d.log.Warn("a spend policy is declared, but no version of it is published, so that it admits nothing; publish it with tapyr spend publish",
				"policy", p.Name, "declared", p.Spec.Version)
		case err != nil:
			d.log.Error("the book of paid calls cannot be read", "policy", p.Name, "error", err)
		default:
			d.compareVersion(p.Name, active, p.Spec.Version, func() (*spend.Policy, error) { return spend.Compile(p) })
		}
	}
}

func (d *Daemon) compareVersion(name string, active *spend.Policy, declared string, compile func() (*spend.Policy, error)) {
	document, err := compile()
	switch {
	case err != nil:
		d.log.Warn("a spend policy of the documents cannot decide; what was published does", "policy", name, "in-force", active.Version, "error", err)
	case declared != active.Version:
		d.log.Warn("the documents declare another version of a spend policy than the one in force; publish it with tapyr spend publish",
			"policy", name, "declared", declared, "in-force", active.Version)
	case document.Hash() != active.Hash():
		d.log.Warn("the documents have changed a version of a spend policy that is published and holds as it was; give the new content a new version",
			"policy", name, "version", declared)
	}
}

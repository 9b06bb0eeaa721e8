package daemon

import (
	"context"
	"log/slog"

	"github.com/tapyr/tapyr/spend/reconcile"
)

// logResult tells what a settled file came to: one line for the file, and one for each thing that people must look at.
func logResult(log *slog.Logger, r *reconcile.Result, apply bool) {
	level := slog.LevelInfo
	if !r.Clean() {
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "a settled file was compared with the book", "rows", r.Rows, "matched", r.Matched, "corrected", len(r.Corrected),
		"unmatched-rows", len(r.UnmatchedRows), "unmatched-events", len(r.UnmatchedEvents), "conflicts", len(r.Conflicts),
		"stale", len(r.Stale), "bad-rows", len(r.BadRows), "duplicates", r.Duplicates, "reserved", r.ReservedUnits.String(),
		"charged", r.ActualUnits.String(), "apply", apply, "settled", r.Applied, "released", r.Released, "failed", len(r.Failed))
	for i, bad := range r.BadRows {
		if i == maxLoggedItems {
			log.Warn("more rows of a settled file cannot be read", "rows", len(r.BadRows)-i)
			break
		}
		log.Warn("a row of a settled file cannot be read", "line", bad.Line, "reason", bad.Reason)
	}
	for _, list := range []struct {
		what  string
		items []reconcile.Item
	}{
		{"a charge has no reservation", r.UnmatchedRows},
		{"a charge contradicts what is settled, or another", r.Conflicts},
		{"a settled file could not be applied to an event", r.Failed},
	} {
		for i, item := range list.items {
			if i == maxLoggedItems {
				log.Warn(list.what+": more of these", "items", len(list.items)-i)
				break
			}
			log.Warn(list.what, "line", item.Line, "event", item.EventID, "charged", item.ActualUnits, "reserved", item.ReservedUnits,
				"reason", item.Reason)
		}
	}
}

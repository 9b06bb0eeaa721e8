package ledgertest

import (
	"errors"
	"testing"

	"github.com/tapyr/tapyr/ledger"
)

func TestMemory(t *testing.T) {
	Run(t, func(*testing.T) ledger.Ledger { return NewMemory() })
}

func TestMemoryFails(t *testing.T) {
	m, full := NewMemory(), errors.New("full")
	m.Fail(full)
	if err := m.Apply(t.Context(), ledger.Changes{Rows: []ledger.Row{row("a", now)}}); !errors.Is(err, full) {
		t.Errorf("failing, it says %v", err)
	}
	m.Fail(nil)
	if n := len(collect(t, m.Journal(t.Context(), ledger.Interval{}))); n != 0 {
		t.Errorf("%d rows were written nevertheless", n)
	}
}

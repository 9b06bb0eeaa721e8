package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/tapyr/tapyr/ledger"
	"github.com/tapyr/tapyr/ledger/ledgertest"
)

func open(t testing.TB, options Options) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "state.db"), options)
}

func openAt(t testing.TB, path string, options Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// sound fails the test unless Check finds nothing.
func sound(t testing.TB, s *Store) {
	t.Helper()
	findings, err := s.Check(t.Context())
	if err != nil || len(findings) > 0 {
		t.Errorf("check: %q, %v", findings, err)
	}
}

func TestSuite(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger {
		s := open(t, Options{Mode: Owner})
		t.Cleanup(func() {
			if again, err := Open(t.Context(), s.Path(), Options{}); err == nil {
				sound(t, again)
				again.Close()
			}
		})
		return s
	})
}

package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/spendtest"
)

// openSpend opens an empty book in a folder of the test.
func openSpend(t testing.TB) (book.Store, func() book.Store) {
	path := filepath.Join(t.TempDir(), "state 100%?#.db") // a name that means something in a URI
	open := func() *Spend {
		s, err := OpenSpend(context.Background(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	store := open()
	closeStore := func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { closeStore() })
	return store, func() book.Store {
		closeStore()
		store = open()
		return store
	}
}

func TestSpendSuite(t *testing.T) { spendtest.Run(t, openSpend) }

func TestSpendDialogues(t *testing.T) {
	spendtest.Dialogues(t, "../../spend/testdata/dialogues", openSpend)
}

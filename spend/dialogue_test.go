package spend_test

import (
	"testing"

	"github.com/tapyr/tapyr/spend/book"
	"github.com/tapyr/tapyr/spend/spendtest"
)

func openMemory(t testing.TB) (book.Store, func() book.Store) {
	store := book.NewMemory()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store, nil
}

func TestDialogues(t *testing.T) { spendtest.Dialogues(t, "testdata/dialogues", openMemory) }

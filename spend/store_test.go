package spend_test

import (
	"testing"

	"github.com/tapyr/tapyr/spend/spendtest"
)

func TestMemory(t *testing.T) { spendtest.Run(t, openMemory) }

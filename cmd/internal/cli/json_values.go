package cli

import (
	"time"

	"github.com/tapyr/tapyr/plan/planjson"
)

// instantOrNil is an instant as all JSON writes it.
func instantOrNil(t time.Time) *time.Time { return planjson.Instant(t) }

// rounded is a figure as all JSON and CSV write it.
func rounded(f float64) float64 { return planjson.Rounded(f) }

package web

import (
	"cmp"
	"fmt"

	"github.com/tapyr/tapyr/daemon"
)

// addStanding says which documents are in force and where the state is.
func (v *pageView) addStanding(s *daemon.Snapshot) {
	c, st := &s.Config, &s.State
	v.Standing = []quotaFigure{
		{"Documents", fmt.Sprintf("number %d, loaded %s", c.Generation, ago(&c.LoadedAt, s.At))},
		{"Reloads", fmt.Sprintf("%s, %s failed", units(c.Reloads), units(c.ReloadErrors))},
		{"Plans made", units(s.Replans)},
		{"State file", cmp.Or(st.Path, "none")},
		{"Written", fmt.Sprintf("%s; %s writes, %s failed", ago(st.FlushedAt, s.At), units(st.Flushes), units(st.Failures))},
		{"Rows not written yet", units(int64(st.PendingRows))},
	}
	if c.Error != "" {
		v.Standing = append(v.Standing, quotaFigure{"Failed to load " + ago(c.ErrorAt, s.At).Text, c.Error})
	}
	if !st.OK {
		v.Standing = append(v.Standing, quotaFigure{"Cannot be written since " + ago(st.Since, s.At).Text, st.Error})
	}
	if st.DroppedRows > 0 {
		v.Standing = append(v.Standing, quotaFigure{"Rows lost", units(st.DroppedRows)})
	}
}

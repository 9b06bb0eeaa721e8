package daemon

// SetClock replaces the wall clock of a daemon that does not run yet.
func (d *Daemon) SetClock(wall func() int64) { d.wall = wall }

// Poke makes the loop look.
func (d *Daemon) Poke() { d.poke() }

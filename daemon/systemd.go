package daemon

import (
	"math"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// What systemd is told (sd_notify(3)).
const (
	readyState    = daemon.SdNotifyReady
	stoppingState = daemon.SdNotifyStopping
	watchdogState = daemon.SdNotifyWatchdog
)

// notify tells systemd, where it started us. That it does not listen is no reason to stop.
func notify(state string) { _, _ = daemon.SdNotify(false, state) }

// notifyReloading begins a reload; readyState ends it.
func notifyReloading() { notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec()) }

// watchdogInterval is how often systemd wants to hear from us; very long where it does not.
func watchdogInterval() time.Duration {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval <= 0 {
		return math.MaxInt64
	}
	return interval
}

// watchdogTicks comes at half the watchdog's interval, and never where there is none.
func watchdogTicks() (ticks <-chan time.Time, stop func()) {
	interval := watchdogInterval()
	if interval == math.MaxInt64 {
		return nil, func() {}
	}
	ticker := time.NewTicker(interval / 2)
	return ticker.C, ticker.Stop
}

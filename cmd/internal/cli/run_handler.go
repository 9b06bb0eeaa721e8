package cli

import (
	"net/http"

	"github.com/tapyr/tapyr/daemon"
)

// statusHandler is what the status address of "tapyr run" serves.
func statusHandler(d *daemon.Daemon) http.Handler { return d.API() }

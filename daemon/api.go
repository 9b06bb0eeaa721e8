package daemon

import (
	"encoding/json"
	"errors"
	"net/http"
)

// API answers what a probe, tapyr status and tapyr job ask:
//
//	GET  /healthz                      200 while the process does its work
//	GET  /readyz                       200 when jobs run, else 503 with the reason
//	GET  /api/v1/status                a Snapshot
//	POST /api/v1/jobs/NAME/pause       204; also resume
//	POST /api/v1/jobs/NAME/trigger     200 with {"instances": N}
//	POST /api/v1/reload                202
//
// Errors are {"error": "TEXT"}, 404 for a job that there is not. Handlers of package web stand beside or around it.
func (d *Daemon) API() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := d.Ready(); err != nil {
			answer(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "error": err.Error()})
			return
		}
		answer(w, http.StatusOK, map[string]string{"status": "ready"})
	})
	mux.HandleFunc("GET /api/v1/status", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, d.Snapshot())
	})
	mux.HandleFunc("POST /api/v1/jobs/{job}/pause", d.operate(func(job string) (any, error) { return nil, d.Pause(job) }))
	mux.HandleFunc("POST /api/v1/jobs/{job}/resume", d.operate(func(job string) (any, error) { return nil, d.Resume(job) }))
	mux.HandleFunc("POST /api/v1/jobs/{job}/trigger", d.operate(func(job string) (any, error) {
		started, err := d.Trigger(job)
		return map[string]int{"instances": started}, err
	}))
	mux.HandleFunc("POST /api/v1/reload", func(w http.ResponseWriter, _ *http.Request) {
		d.Reload()
		w.WriteHeader(http.StatusAccepted)
	})
	return mux
}

func (d *Daemon) operate(do func(job string) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		result, err := do(r.PathValue("job"))
		var missing *NoSuchJobError
		switch {
		case errors.As(err, &missing) && !missing.Silent:
			answer(w, http.StatusNotFound, map[string]string{"error": err.Error()})
		case err != nil:
			answer(w, http.StatusConflict, map[string]string{"error": err.Error()})
		case result == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			answer(w, http.StatusOK, result)
		}
	}
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the reader has gone away
}

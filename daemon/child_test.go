package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tapyr/tapyr/daemon"
	"github.com/tapyr/tapyr/validate"
)

// childVariable names the documents of a daemon that this test binary is, instead of a test.
const childVariable = "TAPYR_TEST_CHILD"

func TestMain(m *testing.M) {
	if file := os.Getenv(childVariable); file != "" {
		os.Exit(child(file))
	}
	if file := os.Getenv(vendorVariable); file != "" {
		os.Exit(serveVendor(file))
	}
	os.Exit(m.Run())
}

// child runs a daemon as a process of its own, so that it can be killed.
func child(file string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it, as in package cli
	options := daemon.Options{
		Load: func(context.Context) (*validate.Config, error) {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			return configOf(string(text))
		},
		Log:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Getenv: os.Getenv, Version: "test",
	}
	if os.Getenv("LISTEN") != "" {
		options.Handler = page
	}
	d := daemon.New(options)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			d.Reload()
		}
	}()
	if os.Getenv("TRIGGER") != "" {
		go trigger(d)
	}
	if err := d.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "ended:", err)
		return 2
	}
	return 0
}

// trigger starts all jobs as soon as the daemon is ready.
func trigger(d *daemon.Daemon) {
	for d.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	for _, j := range d.Snapshot().Jobs {
		_, _ = d.Trigger(j.Job)
	}
}

// process is a daemon of its own.
type process struct {
	*exec.Cmd
	logs *syncBuffer
	done chan error
}

// spawn starts a daemon with the rig's documents.
func (r *rig) spawn(documents string) *process {
	r.t.Helper()
	file := filepath.Join(r.dir, "documents.yaml")
	if err := os.WriteFile(file, []byte(strings.NewReplacer("@URL", r.server.URL, "@DIR", r.dir).Replace(documents)), 0o600); err != nil {
		r.t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(os.Args[0]), logs: new(syncBuffer), done: make(chan error, 1)}
	p.Env = append(os.Environ(), childVariable+"="+file)
	for name, value := range r.env {
		p.Env = append(p.Env, name+"="+value)
	}
	pipe, err := p.StderrPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(pipe)
		for lines.Scan() {
			_, _ = fmt.Fprintln(p.logs, lines.Text())
		}
		p.done <- p.Wait()
	}()
	r.t.Cleanup(func() {
		if r.t.Failed() && p.Process.Signal(syscall.Signal(0)) == nil {
			text := p.logs.String()
			r.t.Logf("the process that was alive said last:\n%s", text[max(0, len(text)-4000):])
		}
		_ = p.Process.Kill()
	})
	return p
}

// end waits for the process.
func (p *process) end(t testing.TB) error {
	t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatalf("the process does not end\n%s", p.logs)
		return nil
	}
}

// killAfter runs the rig's documents in a process, and kills that when the server has seen n requests.
func (r *rig) killAfter(n int) {
	r.t.Helper()
	r.mu.Lock()
	documents := r.documents
	r.mu.Unlock()
	r.env["TRIGGER"] = "1"
	defer delete(r.env, "TRIGGER")
	p := r.spawn(documents)
	r.until("the requests before the kill", func() bool {
		return len(r.seen()) >= n
	})
	if err := p.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	_ = p.end(r.t)
}

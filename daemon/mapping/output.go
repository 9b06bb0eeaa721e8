package mapping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tapyr/tapyr/expr"
)

type output struct {
	path  string
	items *expr.Program // nil: the page's items
}

// lines are what a run has to write to one output.
type lines struct {
	text  bytes.Buffer
	count int64
}

// write adds the items of a page to an output.
func (h *Harvest) write(ctx context.Context, number int, p *Page) error {
	items := p.Items
	if program := h.job.outputs[number].items; program != nil {
		var err error
		if items, err = program.EvalList(ctx, map[string]any{"response": p.Body}); err != nil {
			return err
		}
	}
	into := &h.lines[number]
	for _, item := range items {
		if err := json.MarshalWrite(&into.text, item, json.Deterministic(true), jsontext.AllowInvalidUTF8(true)); err != nil {
			h.fail(fmt.Errorf("an item cannot be written as JSON: %w", err))
			continue
		}
		into.text.WriteByte('\n')
		into.count++
	}
	return nil
}

// Files appends to files, one run at a time. It may be used by any goroutine.
type Files struct{ mu sync.Mutex }

// Publish appends what a run has brought to its files, whole or not at all, and tells how many lines that were. at is when the
// run began.
func (f *Files) Publish(h *Harvest, at time.Time) (written int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range h.lines {
		if h.lines[i].count == 0 {
			continue
		}
		if e := appendTo(expandTime(h.job.outputs[i].path, at), h.lines[i].text.Bytes()); e != nil {
			err = errors.Join(err, e)
			continue
		}
		written += h.lines[i].count
	}
	return written, err
}

// expandTime fills in %Y, %m, %d and %H, in UTC; %% is a percent sign.
func expandTime(path string, at time.Time) string {
	at = at.UTC()
	return strings.NewReplacer("%%", "%", "%Y", at.Format("2006"), "%m", at.Format("01"), "%d", at.Format("02"), "%H", at.Format("15")).
		Replace(path)
}

// appendTo adds text to a file. A line that an earlier crash has cut is ended first, and what a full disk did not take is taken
// back, so that every line of the file is whole.
func appendTo(path string, text []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if size > 0 {
		last := make([]byte, 1)
		if _, err := file.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			text = append([]byte{'\n'}, text...)
		}
	}
	if _, err := file.Write(text); err != nil {
		return errors.Join(err, file.Truncate(size))
	}
	return nil
}

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

// stagedBytes is how much of a run's lines waits in memory; beyond it, they wait in a file.
const stagedBytes = 1 << 20

// lines are what a run has to write to one output.
type lines struct {
	text  bytes.Buffer // what is not in the file
	file  *os.File     // nil while there is little
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
		before := into.text.Len()
		if err := json.MarshalWrite(&into.text, item, json.Deterministic(true), jsontext.AllowInvalidUTF8(true)); err != nil {
			into.text.Truncate(before)
			h.fail(fmt.Errorf("an item cannot be written as JSON: %w", err))
			continue
		}
		into.text.WriteByte('\n')
		into.count++
		if into.text.Len() >= stagedBytes {
			if err := into.spill(filepath.Dir(expandTime(h.job.outputs[number].path, time.Time{}))); err != nil {
				return fmt.Errorf("an output could not be staged: %w", err)
			}
		}
	}
	return nil
}

// spill moves the lines from memory to a file beside the output: a folder for temporary files may be memory itself. The file has no
// name from the beginning, where the system allows that, so that nothing of it stays when the process is killed.
func (l *lines) spill(beside string) error {
	if l.file == nil {
		for { // the folder of an output may be named by the time, and not be there yet
			if info, err := os.Stat(beside); err == nil && info.IsDir() || filepath.Dir(beside) == beside {
				break
			}
			beside = filepath.Dir(beside)
		}
		var err error
		if l.file, err = os.CreateTemp(beside, ".tapyr-staged-*"); err != nil {
			return err
		}
		_ = os.Remove(l.file.Name())
	}
	_, err := l.text.WriteTo(l.file)
	return err
}

// drop lets go of the lines.
func (l *lines) drop() {
	if l.file != nil {
		_ = l.file.Close()
		_ = os.Remove(l.file.Name()) // where it could not go while it was open
	}
	*l = lines{}
}

// all reads the lines from the first.
func (l *lines) all() (io.Reader, error) {
	if l.file == nil {
		return bytes.NewReader(l.text.Bytes()), nil
	}
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.MultiReader(l.file, bytes.NewReader(l.text.Bytes())), nil
}

// Drop lets go of what a run has brought for files. It comes last, in every case.
func (h *Harvest) Drop() {
	for i := range h.lines {
		h.lines[i].drop()
	}
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
		text, e := h.lines[i].all()
		if e == nil {
			e = appendTo(expandTime(h.job.outputs[i].path, at), text)
		}
		if e != nil {
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

// appendTo adds text to a file. What a full disk did not take is taken back, and so is, before, the part of a line that a killed process
// has left: every line of the file is whole.
func appendTo(path string, text io.Reader) (err error) {
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
	end, err := mend(file, size)
	if err != nil {
		return errors.Join(err, file.Truncate(size))
	}
	if _, err := file.Seek(end, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(file, text); err != nil {
		return errors.Join(err, file.Truncate(end))
	}
	return nil
}

// mend ends the last line of a file that has no end, and tells where the next one begins: half a line goes, a whole one, which somebody
// else may have written so, is ended.
func mend(file *os.File, size int64) (end int64, err error) {
	begin := size
	var tail []byte
	for begin > 0 {
		part := make([]byte, min(begin, 64<<10))
		if _, err := file.ReadAt(part, begin-int64(len(part))); err != nil {
			return 0, err
		}
		at := bytes.LastIndexByte(part, '\n')
		if tail = append(part[at+1:], tail...); at >= 0 {
			begin -= int64(len(part) - at - 1)
			break
		}
		begin -= int64(len(part))
	}
	switch {
	case len(tail) == 0:
		return size, nil
	case jsontext.Value(tail).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) && !number(tail):
		_, err := file.WriteAt([]byte{'\n'}, size)
		return size + 1, err
	}
	return begin, file.Truncate(begin)
}

// number tells whether a text is a number, of which half looks whole.
func number(text []byte) bool { return jsontext.Value(bytes.TrimSpace(text)).Kind() == '0' }

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

// documents are what the files and folders of a command line hold.
type documents struct {
	// files are the names of the files that were read, in the order in which
	// their documents count; "-" is standard input.
	files []string
	// sources are their contents, for showing the lines of findings.
	sources map[string][]byte
	// docs are all documents, in the order of files and lines.
	docs []*schema.Document
	// problems are those of whole files, such as broken YAML.
	problems []schema.Problem
}

// readDocuments reads the files that the arguments, --config or the defaults
// name. Whatever is wrong with the text is a finding, not an error; an error is
// a file that cannot be read.
func (c *Call) readDocuments() (*documents, error) {
	paths, err := c.ConfigPaths()
	if err != nil {
		return nil, err
	}
	return readPaths(c.Ctx(), c.Env.Stdin, paths)
}

// checkDocuments resolves documents. Where they have errors, it prints the
// findings to standard error and returns the bad news; warnings and notices are
// for "tapyr validate" to tell. --only restricts the result.
func (c *Call) checkDocuments(read *documents) (*validate.Config, error) {
	config, problems := read.check()
	if config == nil {
		errorsOnly := slices.DeleteFunc(problems, func(p schema.Problem) bool { return p.Severity != schema.SeverityError })
		view := findingsView{sources: read.sources, paint: func(_ style, text string) string { return text }}
		if err := view.write(c.Env.Stderr, errorsOnly); err != nil {
			return nil, err
		}
		return nil, &BadNewsError{Summary: fmt.Sprintf("the documents have %s; nothing was done", counted(len(errorsOnly), "error"))}
	}
	return onlyConfig(config, c.Only())
}

// onlyConfig restricts a configuration to what selectors concern; without any,
// it is the whole.
func onlyConfig(config *validate.Config, only []Selector) (*validate.Config, error) {
	if len(only) == 0 {
		return config, nil
	}
	byKind := map[string][]string{}
	for _, selector := range only {
		byKind[selector.Kind] = append(byKind[selector.Kind], selector.Name)
	}
	return config.Only(byKind["provider"], byKind["account"], byKind["job"])
}

// check holds the documents against each other. The Config is nil where the
// problems, those of whole files included, hold an error.
func (d *documents) check() (*validate.Config, []schema.Problem) {
	config, problems := validate.Check(d.docs)
	for _, p := range d.problems {
		if p.Severity == schema.SeverityError {
			config = nil
		}
	}
	return config, validate.Sort(append(problems, d.problems...))
}

// counted writes a number with its noun: "1 error", "2 errors".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// decodeFiles reads and decodes files, several at once, in their order.
func decodeFiles(ctx context.Context, stdin io.Reader, files []string) (*documents, error) {
	type decoded struct {
		source   []byte
		docs     []*schema.Document
		problems []schema.Problem
	}
	results := make([]decoded, len(files))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, file := range files {
		group.Go(func() error {
			source, err := readFile(ctx, stdin, file)
			if err != nil {
				return err
			}
			r := &results[i]
			r.source = source
			r.docs, r.problems = schema.Decode(file, source)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out := &documents{files: files, sources: make(map[string][]byte, len(files))}
	for i, file := range files {
		r := &results[i]
		out.sources[file] = r.source
		out.docs = append(out.docs, r.docs...)
		out.problems = append(out.problems, r.problems...)
	}
	return out, nil
}

// readFile reads one file, or standard input for "-", but no more than what
// makes Decode say that it is too long: what is written while it is read may
// have no end.
func readFile(ctx context.Context, stdin io.Reader, file string) ([]byte, error) {
	data, err := readInterruptibly(ctx, func() ([]byte, error) {
		from := stdin
		if file != "-" {
			opened, err := os.Open(file)
			if err != nil {
				return nil, err
			}
			defer func() { _ = opened.Close() }() // it was only read
			from = opened
		}
		return io.ReadAll(io.LimitReader(from, schema.MaxFileBytes+1))
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", file, cause(err))
	}
	return data, nil
}

// readInterruptibly reads, or gives up when ctx ends: a pipe or terminal may
// never say anything, and one that nobody writes to does not even open. The
// goroutine then ends with the process.
func readInterruptibly(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := read()
		done <- result{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cause is an error without the path that the message names already.
func cause(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// findFiles lists the files that paths name: files as they are, folders with
// all *.yaml and *.yml below them in the order of their paths. What begins with
// a dot is left out of folders: version control and mounted volumes keep
// copies there. A file that is found twice is read once.
func findFiles(paths []string) ([]string, error) {
	f := finder{seen: map[string]bool{}}
	for _, path := range paths {
		if path == "-" {
			f.add("-", "-")
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", path, cause(err))
		}
		if !info.IsDir() {
			if !info.Mode().IsRegular() && !isOpenAlready(path) {
				return nil, &NotAFileError{Path: path, Mode: info.Mode()}
			}
			f.add(realPath(path), filepath.Clean(path))
			continue
		}
		before := len(f.files)
		if err := f.folder(filepath.Clean(path)); err != nil {
			return nil, err
		}
		slices.Sort(f.files[before:])
	}
	if len(f.files) == 0 {
		return nil, fmt.Errorf("no documents: %s holds no *.yaml or *.yml file", strings.Join(paths, ", "))
	}
	return f.files, nil
}

// isOpenAlready tells whether a path names something that the caller has opened
// for us, as a shell does for <(...): it has a writer, so it has an end.
func isOpenAlready(path string) bool {
	path = filepath.Clean(path)
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
}

// NotAFileError says that a path names neither a file nor a folder. A named pipe
// would wait for somebody to write, and a device may have no end.
type NotAFileError struct {
	// Path is what was named, Mode its type.
	Path string
	Mode fs.FileMode
}

func (e *NotAFileError) Error() string {
	kind := "a device"
	switch {
	case e.Mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case e.Mode&fs.ModeSocket != 0:
		kind = "a socket"
	}
	return fmt.Sprintf("cannot read %s: it is %s; name a file or a folder, or - for standard input", e.Path, kind)
}

// finder collects files.
type finder struct {
	files []string
	// seen are the real paths of files and folders: links may make loops.
	seen map[string]bool
}

func (f *finder) add(real, name string) {
	if !f.seen[real] {
		f.seen[real] = true
		f.files = append(f.files, name)
	}
}

// realPath is the path without links; the path itself where that fails.
func realPath(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// folder collects the files of a folder and those below it.
func (f *finder) folder(path string) error {
	real := realPath(path)
	if f.seen[real] {
		return nil
	}
	f.seen[real] = true
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, cause(err))
	}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		here, mode := filepath.Join(path, name), entry.Type()
		realHere := filepath.Join(real, name)
		if mode&fs.ModeSymlink != 0 {
			info, err := os.Stat(here)
			if err != nil {
				if isDocumentName(name) {
					return fmt.Errorf("cannot read %s: %w", here, cause(err))
				}
				continue // a link to nowhere that would not be read anyway
			}
			mode, realHere = info.Mode().Type(), realPath(here)
		}
		switch {
		case mode.IsDir():
			if err := f.folder(here); err != nil {
				return err
			}
		case mode.IsRegular() && isDocumentName(name):
			f.add(realHere, here)
		}
	}
	return nil
}

func isDocumentName(name string) bool {
	extension := filepath.Ext(name)
	return extension == ".yaml" || extension == ".yml"
}

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tapyr/tapyr/examples"
	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/schema"
)

// initFolder is the folder of documents in a working folder: the one that commands look for by themselves.
const initFolder = "tapyr"

// newInitCommand is "tapyr init".
func newInitCommand() *Command {
	return &Command{
		Name:      "init",
		Usage:     "make a working folder from a built-in provider",
		ArgsUsage: "[DIR]",
		ArgsMax:   1,
		Description: "Writes the limits of a vendor's API, an account that takes its credentials from the environment, jobs to begin with, and " +
			"settings into the folder tapyr/ of DIR (default: this one), where all commands look for documents. Nothing that is " +
			"there is overwritten; a second provider goes beside the first.\n\n" +
			"--list shows which providers are built in. Every limit says where its figure was found, and when it was looked up.",
		Examples: []Example{
			{Comment: "a working folder for one's Meraki networks", Line: "tapyr init poller --provider meraki"},
			{Comment: "which providers are built in", Line: "tapyr init --list"},
		},
		Flags: []cli.Flag{
			choiceFlag("provider", "begin with the provider `NAME`", "", examples.Names()...),
			&cli.BoolFlag{Name: "list", Usage: "show which providers are built in"},
			formatFlag("table", "json"),
		},
		Run: runInit,
	}
}

func runInit(call *Call) error {
	name := call.String("provider")
	switch {
	case call.Bool("list") && (name != "" || call.Args().Present()):
		return call.Usagef("--list makes no folder; leave out DIR and --provider")
	case call.Bool("list"):
		return writeBuiltins(call)
	case name == "":
		return call.Usagef("--provider is missing; there are %s (tapyr init --list says more)", join(examples.Names(), "and"))
	}
	b, err := readBuiltin(name)
	if err != nil {
		return err
	}
	dir := "."
	if call.Args().Present() {
		dir = filepath.Clean(call.Args().First())
	}
	f, err := newWorkingFolder(dir, b)
	if err != nil {
		return err
	}
	if err := f.write(); err != nil {
		return err
	}
	return writeInit(call, f)
}

// builtin is a built-in provider, and what a list says of it.
type builtin struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Limits int    `json:"limits"`
	Jobs   int    `json:"jobs"`
	// Credentials are the environment variables that the account reads.
	Credentials []string `json:"credentials"`
	// Checked is the day on which the oldest of the figures was looked up.
	Checked string `json:"checked"`
}

// readBuiltin reads a built-in's documents for what they say of themselves.
func readBuiltin(name string) (*builtin, error) {
	b := &builtin{Name: name}
	for _, file := range examples.DocumentFiles() {
		text, err := fs.ReadFile(examples.Files, path.Join(name, file))
		if err != nil {
			return nil, err
		}
		docs, _ := schema.Decode(file, text)
		for _, doc := range docs {
			switch spec := doc.Spec.(type) {
			case *schema.ProviderSpec:
				b.Title, b.Limits = spec.Title, len(spec.Limits)
				for i := range spec.Limits {
					if s := spec.Limits[i].Source; s != nil && (b.Checked == "" || s.Checked < b.Checked) {
						b.Checked = s.Checked
					}
				}
			case *schema.AccountSpec:
				for _, ref := range spec.Credentials {
					b.Credentials = append(b.Credentials, ref.Env)
				}
			case *schema.JobSpec:
				b.Jobs++
			}
		}
	}
	slices.Sort(b.Credentials)
	return b, nil
}

// writeBuiltins is "tapyr init --list".
func writeBuiltins(call *Call) error {
	var all []*builtin
	for _, name := range examples.Names() {
		b, err := readBuiltin(name)
		if err != nil {
			return err
		}
		all = append(all, b)
	}
	if call.Format() == "json" {
		return call.Out.JSON(map[string]any{"providers": all})
	}
	t := &table{columns: []column{
		{title: "Name"}, {title: "API", fit: fitWrap}, {title: "Limits", right: true}, {title: "Checked"}, {title: "Credentials from", fit: fitCut},
	}}
	for _, b := range all {
		t.rows = append(t.rows, plain(b.Name, b.Title, strconv.Itoa(b.Limits), b.Checked, strings.Join(b.Credentials, " ")))
	}
	return t.writeText(call.Out)
}

// workingFolder is a working folder in the making.
type workingFolder struct {
	dir     string
	builtin *builtin
	// files are the names below dir, with slashes, and what they will hold, in the order in which they are written.
	files []folderFile
	// kept are files that were there and stay as they are.
	kept []string
}

type folderFile struct {
	name, purpose string
	content       []byte
	// grows tells that the content is added to what is there.
	grows bool
}

// newWorkingFolder decides what to write, and refuses where that would overwrite or hide something.
func newWorkingFolder(dir string, b *builtin) (*workingFolder, error) {
	f := &workingFolder{dir: dir, builtin: b}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file: name a folder, which may be new", dir)
	}
	// A ./tapyr.yaml is found before ./tapyr/, so everything here would be written in vain.
	if name := filepath.Join(dir, "tapyr.yaml"); exists(name) {
		return nil, fmt.Errorf("%s exists, and commands read it instead of the folder %s: move it into that folder, or name another DIR", name, filepath.Join(dir, initFolder))
	}
	purposes := map[string]string{
		"provider.yaml": fmt.Sprintf("%s, looked up on %s", counted(b.Limits, "limit"), b.Checked),
		"account.yaml":  "credentials, from " + join(b.Credentials, "and"),
		"jobs.yaml":     fmt.Sprintf("%s to begin with", counted(b.Jobs, "job")),
	}
	for _, file := range examples.DocumentFiles() {
		name := path.Join(initFolder, b.Name, file)
		if here := f.path(name); exists(here) {
			return nil, fmt.Errorf("%s exists and is not overwritten: name another DIR, or move the file away", here)
		}
		if err := f.add(name, purposes[file], path.Join(b.Name, file)); err != nil {
			return nil, err
		}
	}
	settings := path.Join(initFolder, examples.SettingsFile)
	if there := f.settings(); there != "" {
		f.kept = append(f.kept, there)
	} else if err := f.add(settings, "budget, state and status page", examples.SettingsFile); err != nil {
		return nil, err
	}
	return f, f.ignore()
}

func (f *workingFolder) path(name string) string {
	return filepath.Join(f.dir, filepath.FromSlash(name))
}

func (f *workingFolder) add(name, purpose, source string) error {
	text, err := fs.ReadFile(examples.Files, source)
	if err != nil {
		return err
	}
	f.files = append(f.files, folderFile{name: name, purpose: purpose, content: text})
	return nil
}

// settingsKind finds a document of the kind Settings, of which there may be only one.
var settingsKind = regexp.MustCompile(`(?m)^kind:\s*["']?Settings\b`)

// settings is the file that has settings already, "" where there is none.
func (f *workingFolder) settings() string {
	files, err := findFiles([]string{f.path(initFolder)})
	if err != nil {
		return "" // there is no such folder yet, or nothing in it
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && settingsKind.Match(text) {
			return file
		}
	}
	return ""
}

// ignored are what tapyr run leaves in a working folder and git should not take: the state with what SQLite and the owner's lock
// put beside it, what jobs write, and what was learned.
var ignored = []string{"/tapyr.db*", "/out/", "/rate_limit_cache.json"}

// ignore adds what is missing in .gitignore, which people share with other tools.
func (f *workingFolder) ignore() error {
	const name = ".gitignore"
	old, err := os.ReadFile(f.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot read %s: %w", f.path(name), cause(err))
	}
	var missing []string
	for _, line := range ignored {
		if !slices.Contains(strings.Split(string(old), "\n"), line) {
			missing = append(missing, line)
		}
	}
	if len(missing) == 0 {
		f.kept = append(f.kept, f.path(name))
		return nil
	}
	var content bytes.Buffer
	if len(old) > 0 && !bytes.HasSuffix(old, []byte("\n")) {
		content.WriteString("\n")
	}
	content.WriteString("# what tapyr run writes\n" + strings.Join(missing, "\n") + "\n")
	f.files = append(f.files, folderFile{name: name, purpose: "what git should not take", content: content.Bytes(), grows: len(old) > 0})
	return nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// write makes the files, all or none: what was made is taken back where one fails.
func (f *workingFolder) write() (err error) {
	var made []string
	defer func() {
		if err != nil {
			for _, name := range made {
				_ = os.Remove(name) // the first error is the one to report
			}
		}
	}()
	for _, file := range f.files {
		name := f.path(file.name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil { // less the umask
			return fmt.Errorf("cannot create %s: %w", filepath.Dir(name), cause(err))
		}
		flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
		if file.grows {
			flags = os.O_WRONLY | os.O_APPEND
		}
		target, err := os.OpenFile(name, flags, 0o666)
		if err != nil {
			return fmt.Errorf("cannot create %s: %w", name, cause(err))
		}
		if !file.grows {
			made = append(made, name)
		}
		_, err = target.Write(file.content)
		if err = errors.Join(err, target.Close()); err != nil {
			return fmt.Errorf("cannot write %s: %w", name, cause(err))
		}
	}
	return nil
}

// writeInit says what was made, and what to do next.
func writeInit(call *Call, f *workingFolder) error {
	where := f.dir
	if where == "." {
		where = "this folder"
	}
	call.Out.Printf("%s, in %s:\n\n", call.Out.paint(styleGood, plaintext.Printable(f.builtin.Title)), plaintext.Printable(where))
	t := &table{columns: []column{{title: "File", fit: fitCut}, {title: "What it holds", fit: fitWrap}}}
	for _, file := range f.files {
		t.rows = append(t.rows, plain(file.name, file.purpose))
	}
	if err := t.writeText(call.Out); err != nil {
		return err
	}
	for _, name := range f.kept {
		call.Out.Printf("\n%s is left as it was.\n", plaintext.Printable(name))
	}
	call.Out.Printf("\nNext, see what fits, and which requests would be sent:\n\n")
	if f.dir != "." {
		call.Out.Printf("  cd %s\n", shellQuoted(f.dir))
	}
	call.Out.Printf("  tapyr plan\n  tapyr run --dry-run\n")
	return nil
}

// plainWord needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./+:@%,-]+$`)

// shellQuoted writes a word such that a POSIX shell reads it as one.
func shellQuoted(word string) string {
	if plainWord.MatchString(word) && !strings.HasPrefix(word, "-") {
		return word
	}
	if strings.HasPrefix(word, "-") {
		word = "./" + word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

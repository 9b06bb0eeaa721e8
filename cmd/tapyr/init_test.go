package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tapyr/tapyr/examples"
)

// workingFolder is a folder that tapyr runs in, as a process of its own.
type workingFolder struct {
	t       *testing.T
	dir     string
	environ []string
}

// tapyr runs a command, which must exit with 0, and returns what it prints.
func (f *workingFolder) tapyr(words ...string) []byte {
	f.t.Helper()
	command := exec.CommandContext(f.t.Context(), "tapyr", words...)
	command.Dir, command.Env = f.dir, append(os.Environ(), f.environ...)
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		f.t.Fatalf("tapyr %s: %v\n%s%s", strings.Join(words, " "), err, output, stderr.String())
	}
	return output
}

// serve starts a vendor and returns its URL; it ends with the test.
func (f *workingFolder) serve(words ...string) string {
	f.t.Helper()
	command := exec.CommandContext(f.t.Context(), "tapyr", append([]string{"simulate", "serve", "--listen", "127.0.0.1:0"}, words...)...)
	command.Dir = f.dir
	output, err := command.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // it was killed
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		f.t.Fatalf("the vendor says %q (%v)", line, err)
	}
	return strings.TrimSpace(line)
}

// Every built-in gives a folder that has nothing to find fault with, fits, and collects from a vendor that enforces its limits.
func TestInitThenEverything(t *testing.T) {
	for _, name := range examples.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &workingFolder{t: t, dir: t.TempDir()}
			f.tapyr("init", "--provider", name)

			var found struct {
				Findings  []any
				Documents int
			}
			if err := json.Unmarshal(f.tapyr("validate", "--strict", "--format", "json"), &found); err != nil || len(found.Findings) > 0 || found.Documents < 4 {
				t.Errorf("%d documents with the findings %v (%v)", found.Documents, found.Findings, err)
			}
			var plan struct {
				Feasible bool
				Jobs     []struct{ Job, Account string }
			}
			if err := json.Unmarshal(f.tapyr("plan", "--format", "json"), &plan); err != nil || !plan.Feasible || len(plan.Jobs) == 0 {
				t.Fatalf("the plan is %+v (%v)", plan, err)
			}

			account, err := os.ReadFile(filepath.Join(f.dir, "tapyr", name, "account.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			variables := regexp.MustCompile(`\{ env: (\w+) \}`).FindAllStringSubmatch(string(account), -1)
			if len(variables) == 0 {
				t.Errorf("the account takes nothing from the environment:\n%s", account)
			}
			for _, match := range variables {
				f.environ = append(f.environ, match[1]+"=a-key-of-the-test")
			}
			url := f.serve(f.few()...)
			f.tapyr("run", "--once", "--set", fmt.Sprintf("account.%s.baseURL=%s", plan.Jobs[0].Account, url))
			journal := string(f.tapyr("ledger", "export", "--what", "journal"))
			for _, job := range plan.Jobs {
				if !strings.Contains(journal, fmt.Sprintf(`"job":%q`, job.Job)) {
					t.Errorf("job %s sent no request", job.Job)
				}
			}
			// A busy machine may bring two requests closer together than they left, so a 429 or two mean nothing.
			refused := regexp.MustCompile(`"status":[45]\d\d`).FindAllString(journal, -1)
			for _, status := range refused {
				if status != `"status":429` || len(refused) > 2 {
					t.Errorf("the vendor answered with %v", refused)
					break
				}
			}
		})
	}
}

// few keeps inventories small: with a vendor that lets a request through every second, the test is not to wait for a hundred.
func (f *workingFolder) few() (words []string) {
	files, err := filepath.Glob(filepath.Join(f.dir, "tapyr", "*", "jobs.yaml"))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "---\n") {
			if name := regexp.MustCompile(`metadata: \{ name: (\S+) \}`).FindStringSubmatch(document); name != nil && strings.Contains(document, "inventory:") {
				words = append(words, "--fanout", name[1]+"=3")
			}
		}
	}
	return words
}

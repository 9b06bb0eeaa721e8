package daemon_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The example unit says what the daemon does, is one that systemd reads, and leaves it little.
func TestExampleUnit(t *testing.T) {
	text, err := os.ReadFile("../examples/systemd/tapyr.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := string(text)
	for _, want := range []string{"Type=notify\n", "ExecReload=/bin/kill -HUP $MAINPID\n", "DynamicUser=yes\n", "ProtectSystem=strict\n", "StateDirectory=tapyr\n"} {
		if !strings.Contains(unit, want) {
			t.Errorf("the unit has no %s", want)
		}
	}
	stop := regexp.MustCompile(`TimeoutStopSec=(\d+)s`).FindStringSubmatch(unit)
	if stop == nil {
		t.Fatal("the unit has no TimeoutStopSec")
	}
	if seconds, _ := strconv.Atoi(stop[1]); seconds <= 25 {
		t.Errorf("systemd kills after %d seconds, before running requests may finish (20) and counts are written", seconds)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("the rest needs systemd-analyze")
	}
	file := filepath.Join(t.TempDir(), "tapyr.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(unit, "/usr/local/bin/tapyr", "/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), "tapyr.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=15", file).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "Unrecognized") && !strings.Contains(string(out), "unrecognized") {
		t.Errorf("the exposure is above 1.5: %v\n%s", err, out)
	}
}

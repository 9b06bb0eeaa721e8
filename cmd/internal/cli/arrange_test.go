package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestArrangePutsFlagsBehindTheirCommand(t *testing.T) {
	tests := []struct{ words, want string }{
		{"group probe a b", "tapyr group probe -- a b"},
		{"group probe a --format json b", "tapyr group probe --format=json -- a b"},
		{"--format json group probe a", "tapyr group probe --format=json -- a"},
		{"group --format=json probe a", "tapyr group probe --format=json -- a"},
		{"group probe a --quiet", "tapyr --quiet group probe -- a"},
		{"group probe -c x a -c y", "tapyr --config=x --config=y group probe -- a"},
		{"--config x -c y group probe", "tapyr --config=x --config=y group probe --"},
		{"group probe -o out a", "tapyr group probe --output=out -- a"},
		{"group probe - a", "tapyr group probe -- - a"},
		{"group probe -o -", "tapyr group probe --output=- --"},
		{"group probe --strict a", "tapyr group probe --strict -- a"},
		{"group probe --strict=false a", "tapyr group probe --strict=false -- a"},
		{"group probe --header K:V=W", "tapyr group probe --header=K:V=W --"},
		{"group probe --header=", "tapyr group probe --header= --"},
		{"group probe -n 5 -n=6 --n 7", "tapyr group probe --n=5 --n=6 --n=7 --"},
		{"group probe -n -5", "tapyr group probe --n=-5 --"},
		{"group probe a -- --format json -- -x", "tapyr group probe -- a --format json -- -x"},
		{"-- group probe --strict", "tapyr group probe -- --strict"},
		{"group probe group probe", "tapyr group probe -- group probe"},
	}
	for _, test := range tests {
		t.Run(test.words, func(t *testing.T) {
			line, err := arrange(probeTree(nil), strings.Fields(test.words))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(line.words(), " "); got != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestArrangeKeepsWordsWhole(t *testing.T) {
	line, err := arrange(probeTree(nil), []string{"group", "probe", "--header", "Retry-After: 3", "a b", "", "--header", "--x y"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"tapyr", "group", "probe", "--header=Retry-After: 3", "--header=--x y", "--", "a b", ""}
	if diff := cmp.Diff(want, line.words()); diff != "" {
		t.Error(diff)
	}
}

// Where flags stand makes no difference: any way of threading them into the
// commands and arguments gives the line that has them all at the end.
func TestArrangePositionDoesNotMatter(t *testing.T) {
	flagWords := [][]string{
		{"--quiet"},
		{"-c", "x.yaml"},
		{"--config=y.yaml"},
		{"--strict"},
		{"--format", "json"},
		{"-o", "out"},
		{"--header", "A: b"},
		{"-n=3"},
		{"--log-level", "warn"},
		{"--strict=false"},
	}
	rapid.Check(t, func(t *rapid.T) {
		operands := append([]string{"group", "probe"},
			rapid.SliceOfN(rapid.SampledFrom([]string{"a", "-", "group", "file.yaml", "", "x=y"}), 0, 4).Draw(t, "args")...)
		flags := rapid.SliceOfN(rapid.SampledFrom(flagWords), 0, 6).Draw(t, "flags")
		slots := make([]int, len(flags))
		for i := range slots {
			slots[i] = rapid.IntRange(0, len(operands)).Draw(t, "slot")
		}
		// Flags keep their order among themselves: the last of two wins.
		slices.Sort(slots)

		var threaded []string
		next := 0
		for i := 0; i <= len(operands); i++ {
			for next < len(flags) && slots[next] == i {
				threaded = append(threaded, flags[next]...)
				next++
			}
			if i < len(operands) {
				threaded = append(threaded, operands[i])
			}
		}
		atEnd := slices.Clone(operands)
		for _, flag := range flags {
			atEnd = append(atEnd, flag...)
		}
		got, err := arrange(probeTree(nil), threaded)
		if err != nil {
			t.Fatalf("%q: %v", threaded, err)
		}
		want, err := arrange(probeTree(nil), atEnd)
		if err != nil {
			t.Fatalf("%q: %v", atEnd, err)
		}
		if diff := cmp.Diff(want.words(), got.words()); diff != "" {
			t.Fatalf("%q: %s", threaded, diff)
		}
	})
}

// Any words lead to a line or to a usage error, never to a panic, and a line
// that is arranged once stays as it is when arranged again.
func FuzzArrange(f *testing.F) {
	f.Add("group probe a --format json")
	f.Add("-- -")
	f.Add("--=\n-=x\n---\n-o\n--")
	f.Fuzz(func(t *testing.T, text string) {
		line, err := arrange(probeTree(nil), strings.Split(text, "\n"))
		if err != nil {
			var usage *UsageError
			if !errors.As(err, &usage) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if line.help || line.version {
			return // such words are consumed
		}
		again, err := arrange(probeTree(nil), line.words()[1:])
		if err != nil {
			t.Fatalf("%q, arranged again: %v", line.words(), err)
		}
		if diff := cmp.Diff(line.words(), again.words()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestHelpAndVersionOutrank(t *testing.T) {
	for _, words := range []string{"-h", "--help", "group -h", "group probe --help a", "--help group probe", "needy --help"} {
		line, err := arrange(probeTree(nil), strings.Fields(words))
		if err != nil || !line.help {
			t.Errorf("%q: help %v, error %v", words, line, err)
		}
	}
	line, err := arrange(probeTree(nil), []string{"--version"})
	if err != nil || !line.version {
		t.Errorf("version %v, error %v", line, err)
	}
}

package book

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestUnitsPrintAsPythonDecimals(t *testing.T) {
	add := func(a, b string) string { return parsed(t, a).Add(parsed(t, b)).String() }
	for _, c := range [][3]string{
		{"2.50", "1", "3.50"},
		{"0", "0.488", "0.488"},
		{"0.1", "0.2", "0.3"},
		{"1E+1", "0", "10"},
		{"5E-1", "0", "0.5"},
		{"1E+1", "1E+1", "2E+1"},
		{"0.0000001", "0", "1E-7"},
		{"0", "0", "0"},
		{"1.5E+1", "0.000", "15.000"},
		{"99999999999999999999999999999999999999999999999999.5", "0.5", "100000000000000000000000000000000000000000000000000.0"},
	} {
		if got := add(c[0], c[1]); got != c[2] {
			t.Errorf("%s + %s = %s, Python says %s", c[0], c[1], got, c[2])
		}
	}
	// str(Decimal(text)) of Python 3.
	for text, want := range map[string]string{
		"1E+1": "1E+1", "5E-1": "0.5", "0.000001": "0.000001", "0.0000001": "1E-7", "12000": "12000", "1e3": "1E+3", "0.00": "0.00",
		"+1": "1", ".5": "0.5", "5.": "5", "0E-7": "0E-7", "0E+3": "0E+3", "007": "7",
	} {
		if got := parsed(t, text).String(); got != want {
			t.Errorf("%s prints as %s, Python says %s", text, got, want)
		}
	}
}

func parsed(t testing.TB, text string) Units {
	t.Helper()
	u, err := ParseUnits(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestParseUnitsRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ", "-1", "-0", "-0.0", "NaN", "sNaN", "Infinity", "-Infinity", "inf", "1e400", "1e-400", "1e61", "0x10", "1,5", "1 000",
		"1_000", "--1", "1..2", ".", "e5", strings.Repeat("9", 61), strings.Repeat("0", 300), "١",
	} {
		u, err := ParseUnits(text)
		var bad *UnitsError
		if !errors.As(err, &bad) {
			t.Errorf("%q became %s, %v", text, u, err)
		}
	}
	if _, err := RestoreUnits("Infinity"); err == nil {
		t.Error("infinity was restored")
	}
}

// Sums and differences are exact whatever the parts: rationals agree, and what is written can be read.
func TestUnitsAreExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func() (Units, *big.Rat) {
			text := rapid.StringMatching(`[0-9]{1,25}(\.[0-9]{1,25})?(E[+-]?[0-9])?`).Draw(rt, "amount")
			u, err := ParseUnits(text)
			if err != nil {
				rt.Fatal(err)
			}
			r, _ := new(big.Rat).SetString(text)
			return u, r
		}
		sum, want := Units{}, new(big.Rat)
		for range rapid.IntRange(1, 12).Draw(rt, "n") {
			u, r := draw()
			before := u.String()
			if rapid.Bool().Draw(rt, "add") {
				sum = sum.Add(u)
				want.Add(want, r)
			} else {
				sum = sum.Sub(u)
				want.Sub(want, r)
			}
			if u.String() != before {
				rt.Fatalf("%s was changed to %s", before, u)
			}
		}
		got, ok := new(big.Rat).SetString(sum.String())
		if !ok || got.Cmp(want) != 0 || sum.Sign() != want.Sign() {
			rt.Fatalf("sum %s, want %s", sum, want)
		}
		back, err := RestoreUnits(sum.String())
		if err != nil || back.String() != sum.String() || back.Cmp(sum) != 0 {
			rt.Fatalf("%s was restored as %s, %v", sum, back, err)
		}
	})
}

// become tries a step on a fresh event of a state.
func become(s State, step func(*Event) error) (*Event, error) {
	e := &Event{ID: "e", State: s, Waiting: true, Reserved: Units{}}
	return e, step(e)
}

// Each state from each state, by the diagram.
func TestStates(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	steps := map[State]func(*Event) error{
		Accepted:   func(e *Event) error { return e.BecomeAccepted(now) },
		Reserved:   func(e *Event) error { return e.BecomeReserved(now, "r", "c", Units{}, now) },
		Dispatched: func(e *Event) error { return e.BecomeDispatched(now) },
		Settled:    func(e *Event) error { return e.BecomeSettled(now, Units{}) },
		Released:   func(e *Event) error { return e.BecomeReleased(now) },
		Deferred:   func(e *Event) error { return e.BecomeDeferred(now) },
		Expired:    func(e *Event) error { return e.BecomeExpired(now, Minimal) },
		Rejected:   func(e *Event) error { return e.BecomeRejected(now) },
	}
	allowed := map[State][]State{
		"":         {Accepted},
		Accepted:   {Reserved, Deferred, Rejected},
		Reserved:   {Reserved, Dispatched, Settled, Released, Expired},
		Dispatched: {Reserved, Dispatched, Settled, Released, Expired},
		Deferred:   {Reserved, Released, Expired},
		Settled:    nil, Released: nil, Expired: nil, Rejected: nil,
	}
	for from, targets := range allowed {
		for to, step := range steps {
			e, err := become(from, step)
			if slices.Contains(targets, to) {
				if err != nil || e.State != to || !e.UpdatedAt.Equal(now) || e.Waiting {
					t.Errorf("%s to %s: %v, %+v", from, to, err, e)
				}
				continue
			}
			var bad *StateError
			if !errors.As(err, &bad) || bad.State != from || bad.Wanted != to || e.State != from || !e.Waiting {
				t.Errorf("%s to %s: %v, %+v; want a refusal that changes nothing", from, to, err, e)
			} else if !strings.Contains(err.Error(), string(to)) {
				t.Errorf("%q does not name %s", err, to)
			}
		}
		if final := len(targets) == 0 || from == Accepted; from != "" && from.Final() != final {
			t.Errorf("%s: final is %v", from, from.Final())
		}
	}
}

// Outside of become, no code of tapyr assigns a state: not here, not in the machine, not in a store.
func TestOnlyBecomeChangesAState(t *testing.T) {
	files := 0
	for _, folder := range []string{".", "..", "../report", "../reconcile", "../../ledger/sqlite"} {
		names, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			files++
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range stateAssignments(t, name, text) {
				if !strings.HasPrefix(line, "state.go: become") {
					t.Errorf("%s: %s assigns a state", name, line)
				}
			}
		}
	}
	if files < 20 {
		t.Errorf("only %d files were read", files)
	}
	found := stateAssignments(t, "x.go", []byte("package x\nfunc f() { e.A, e.State = 1, 2 }"))
	if len(found) != 1 || found[0] != "x.go: f" {
		t.Errorf("an assignment is seen as %v", found)
	}
}

// stateAssignments are the functions of a file that assign to a field called State.
func stateAssignments(t *testing.T, name string, text []byte) []string {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok {
				return true
			}
			for _, left := range assign.Lhs {
				target, ok := left.(*ast.SelectorExpr)
				if !ok || target.Sel.Name != "State" {
					continue
				}
				if x, ok := target.X.(*ast.Ident); ok && x.Name == "i" { // reconcile's Item, a text
					continue
				}
				found = append(found, filepath.Base(name)+": "+f.Name.Name)
			}
			return true
		})
	}
	return found
}

// The ordered set agrees with a sorted slice.
func TestOrdered(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		set := new(ordered)
		twin := make(map[place]bool)
		for range rapid.IntRange(0, 60).Draw(rt, "steps") {
			p := place{nanos: rapid.Int64Range(0, 3).Draw(rt, "nanos"), seq: rapid.Int64Range(0, 12).Draw(rt, "seq")}
			if rapid.Bool().Draw(rt, "add") {
				set.add(p)
				twin[p] = true
			} else {
				set.remove(p)
				delete(twin, p)
			}
			from := place{nanos: rapid.Int64Range(-1, 3).Draw(rt, "from"), seq: rapid.Int64Range(-1, 12).Draw(rt, "from seq")}
			var want, got []place
			for p := range twin {
				if comparePlaces(p, from) > 0 {
					want = append(want, p)
				}
			}
			slices.SortFunc(want, comparePlaces)
			set.after(from, func(p place) bool { got = append(got, p); return true })
			if !slices.Equal(got, want) {
				rt.Fatalf("behind %v: %v, want %v", from, got, want)
			}
		}
	})
}

// Growing at the end and shrinking at the front, as waiting events do, stays quick and small.
func TestOrderedAsQueue(t *testing.T) {
	set := new(ordered)
	for i := range int64(100_000) {
		set.add(place{seq: i})
		if i >= 10 {
			set.remove(place{seq: i - 10})
		}
		if len(set.places) > 64 || len(set.dead) > 64 {
			t.Fatalf("10 members take %d places and %d marks", len(set.places), len(set.dead))
		}
	}
}

func TestNanos(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 7, time.UTC)
	if !FromNanos(Nanos(at)).Equal(at) || !FromNanos(Nanos(time.Time{})).IsZero() {
		t.Error("times do not come back")
	}
}

func TestStorageErrorSaysTheWayOut(t *testing.T) {
	cause := errors.New("cause")
	for want, e := range map[string]*StorageError{
		"free some space":              {Op: "write", Full: true, Err: cause},
		"another process":              {Op: "write", Busy: true, Err: cause},
		"nothing was admitted or chan": {Op: "write", Err: cause},
	} {
		if !strings.Contains(e.Error(), want) || !errors.Is(e, cause) {
			t.Errorf("%q does not say %q", e, want)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/tapyr/tapyr/ledger/journal"
	"github.com/tapyr/tapyr/replay"
	"github.com/tapyr/tapyr/schema"
	"github.com/tapyr/tapyr/validate"
)

func generate(t *testing.T, args ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := run(args, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestSeed: the same seed makes the same journal, another one another; what is made is read without complaint.
func TestSeed(t *testing.T) {
	args := []string{"-rows", "5000", "-accounts", "10", "-organizations", "20", "-seed"}
	first, second, other := generate(t, append(args, "1")...), generate(t, append(args, "1")...), generate(t, append(args, "2")...)
	if !bytes.Equal(first, second) || bytes.Equal(first, other) {
		t.Error("the seed does not decide")
	}
	for _, name := range []string{"j.jsonl", "j.jsonl.gz", "j.jsonl.zst"} {
		path := filepath.Join(t.TempDir(), name)
		generate(t, "-rows", "5000", "-disorder", "0.1", "-o", path)
		r, err := journal.Open([]string{path}, journal.Options{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = r.Next()
		}
		if s := r.Stats(); !errors.Is(err, io.EOF) || s.Rows != 5000 || s.Duplicates != 0 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		r.Close()
	}
	if per := len(first) / 5000; per < 350 || per > 450 {
		t.Errorf("a row is %d bytes, and should be like those of a real journal: about 400", per)
	}
}

// TestDocuments: the documents are valid, and a replay of the journal knows every name in it.
func TestDocuments(t *testing.T) {
	const accounts, rows = 3, 2000
	size := []string{"-accounts", strconv.Itoa(accounts), "-organizations", "6", "-rows", strconv.Itoa(rows)}
	documents, problems := schema.Decode("documents.yaml", generate(t, append(size, "-documents")...))
	config, more := validate.Check(documents)
	if problems = append(problems, more...); len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	path := filepath.Join(t.TempDir(), "j.jsonl")
	generate(t, append(size, "-o", path)...)
	r, err := journal.Open([]string{path}, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	reports, err := replay.Run(context.Background(), r, replay.Options{Config: config, Files: 1})
	if err != nil {
		t.Fatal(err)
	}
	report := reports[0]
	if report.Rows != rows || report.Unresolved != 0 || len(report.Unknown) != 0 || len(report.Scopes) != accounts {
		t.Errorf("%d rows, %d unresolved, unknown %v, %d scopes", report.Rows, report.Unresolved, report.Unknown, len(report.Scopes))
	}
	for _, s := range report.Scopes {
		for _, w := range s.Windows {
			if w.Max != quota || w.External != 0 || w.Used == 0 {
				t.Errorf("%s: %+v", s.Key, w)
			}
		}
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"-rows", "-1"}, {"-accounts", "0"}, {"-organizations", "1"}, {"-disorder", "2"}, {"-o", filepath.Join(os.DevNull, "x")}} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

package reconcile

import (
	"strings"
	"time"
)

// Seen is a file as a look into a folder saw it.
type Seen struct {
	Name      string
	SizeBytes int64
	Modified  time.Time
}

// Stillness is how long a file should stay as it is before it is read: one that is being written grows, or will.
const Stillness = 5 * time.Second

// Inbox decides which files of a folder are to be read, and when. It knows no clock and no disk.
type Inbox struct {
	stillness time.Duration
	known     map[string]look
}

// look is what is known of a name.
type look struct {
	seen  Seen
	since time.Time // since when it has been so
	done  bool
}

// NewInbox makes an inbox that knows no file. A file is ready once it was the same in two looks that far apart.
func NewInbox(stillness time.Duration) *Inbox {
	return &Inbox{stillness: stillness, known: make(map[string]look)}
}

// Eligible tells whether a name is one of a settled file: *.csv or *.tsv, and not hidden, as files are that are being copied in.
func Eligible(name string) bool {
	lower := strings.ToLower(name)
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(lower, ".csv") || strings.HasSuffix(lower, ".tsv"))
}

// Look compares what a folder holds with the looks before: ready are the files that have not changed for long enough and were not
// read as they are. again, if not zero, is when another look is worth while because some may be ready then. What is gone is
// forgotten.
func (b *Inbox) Look(now time.Time, files []Seen) (ready []Seen, again time.Time) {
	known := make(map[string]look, len(files))
	for _, f := range files {
		if !Eligible(f.Name) {
			continue
		}
		l, ok := b.known[f.Name]
		if !ok || l.seen.SizeBytes != f.SizeBytes || !l.seen.Modified.Equal(f.Modified) {
			l = look{seen: f, since: now}
		}
		known[f.Name] = l
		if l.done {
			continue
		}
		if still := l.since.Add(b.stillness); now.Before(still) {
			if again.IsZero() || still.Before(again) {
				again = still
			}
			continue
		}
		ready = append(ready, f)
	}
	b.known = known
	return ready, again
}

// Done notes that a file was read as it was seen; it is read again once it is another.
func (b *Inbox) Done(f Seen) {
	if l, ok := b.known[f.Name]; ok && l.seen == f {
		l.done = true
		b.known[f.Name] = l
	}
}

package cli

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tapyr/tapyr/replay"
)

// decisionFile takes the decisions of a replay, a line of JSON each. Its keys are a contract: other programs read them.
type decisionFile struct {
	out   *Output
	files []string
	line  []byte
}

// openDecisions opens the file of --decisions; "-" is standard output.
func openDecisions(call *Call, name string, files []string) (*decisionFile, error) {
	if name == "-" && !call.IsSet(outputFlagName) {
		return nil, call.Usagef("--decisions: standard output takes the report; name a file, or send the report to one with -o")
	}
	out, err := call.Env.openOutput(name, false)
	if err != nil {
		return nil, err
	}
	return &decisionFile{out: out, files: files}, nil
}

// write writes one line: row, file (where there are several), ts, granted, at and waitSeconds, or reason, limit, key and retryAt.
func (f *decisionFile) write(d *replay.Decision) error {
	b := f.line[:0]
	b = append(b, `{"row":`...)
	b = strconv.AppendInt(b, d.Number, 10)
	if len(f.files) > 1 {
		b = appendText(append(b, `,"file":`...), f.files[d.File])
	}
	b = appendInstant(append(b, `,"ts":`...), d.TS)
	b = strconv.AppendBool(append(b, `,"granted":`...), d.Granted)
	if d.Granted {
		b = appendInstant(append(b, `,"at":`...), d.At)
		b = append(b, `,"waitSeconds":`...)
		b = strconv.AppendFloat(b, d.At.Sub(d.TS).Seconds(), 'f', -1, 64)
	} else {
		b = appendText(append(b, `,"reason":`...), d.Reason)
		b = appendText(append(b, `,"limit":`...), d.Limit)
		b = appendText(append(b, `,"key":`...), d.Key)
		b = append(b, `,"retryAt":`...)
		if d.RetryAt.IsZero() {
			b = append(b, "null"...)
		} else {
			b = appendInstant(b, d.RetryAt)
		}
	}
	b = append(b, '}', '\n')
	f.line = b
	_, err := f.out.Write(f.line)
	return err
}

// appendText writes a JSON text; a name that is none is null.
func appendText(b []byte, text string) []byte {
	if text == "" {
		return append(b, "null"...)
	}
	quoted, err := jsontext.AppendQuote(b, text)
	if err != nil {
		return append(b, `""`...) // not UTF-8
	}
	return quoted
}

func appendInstant(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// close makes the file appear, unless the replay failed.
func (f *decisionFile) close(failed error) error {
	if failed != nil {
		_ = f.out.Discard() // the first error is the one to report
		return failed
	}
	return f.out.Close()
}

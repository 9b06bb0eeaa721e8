package journal

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// harEntry is what a row needs of an entry of a HAR 1.2 file (http://www.softwareishard.com/blog/har-12-spec/#entries).
type harEntry struct {
	StartedDateTime string  `json:"startedDateTime"`
	Time            float64 `json:"time"` // milliseconds; some browsers write -1 for a request that never ended
	Request         struct {
		Method string `json:"method"`
		URL    string `json:"url"`
	} `json:"request"`
	Response struct {
		Status  float64     `json:"status"`
		Headers []harHeader `json:"headers"`
		Content struct {
			Text     string `json:"text"`
			Encoding string `json:"encoding"`
		} `json:"content"`
	} `json:"response"`
}

type harHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// harOptions: what browsers export is not always JSON by the book.
var harOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// feedHAR reads a HAR file entry by entry: they run to gigabytes, with the bodies.
func feedHAR(text io.Reader, e *emitter, options *Options) error {
	dec := jsontext.NewDecoder(text, harOptions)
	number := int64(0)
	err := enter(dec, '{', "log", func() error {
		return enter(dec, '{', "entries", func() error {
			if kind := dec.PeekKind(); kind != '[' {
				return fmt.Errorf("log.entries is no list")
			}
			if _, err := dec.ReadToken(); err != nil {
				return err
			}
			for dec.PeekKind() != ']' {
				value, err := dec.ReadValue()
				if err != nil {
					return err
				}
				number++
				if err := feedEntry(value, e, options, number); err != nil {
					return err
				}
			}
			_, err := dec.ReadToken()
			return err
		})
	})
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		// What follows cannot be told apart any more; what was read counts.
		return e.bad(number+1, number+1, fmt.Errorf("the HAR file ends here: %w", err))
	}
	return err
}

// enter reads an object and calls do at the value of one member.
func enter(dec *jsontext.Decoder, kind jsontext.Kind, name string, do func() error) error {
	if got := dec.PeekKind(); got != kind {
		if _, err := dec.ReadToken(); err != nil {
			return err
		}
		return fmt.Errorf("no object around %q in the HAR file", name)
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if token.String() == name {
			err = do()
		} else {
			err = dec.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

func feedEntry(value jsontext.Value, e *emitter, options *Options, number int64) error {
	row, at, skip, err := harRow(value, options)
	switch {
	case err != nil:
		return e.bad(number, number, err)
	case skip:
		e.batch.skipped++
		return nil
	default:
		return e.row(&row, at, number, number)
	}
}

func harRow(value jsontext.Value, options *Options) (row Row, at instant, skip bool, err error) {
	var entry harEntry
	if err = json.Unmarshal(value, &entry, harOptions); err != nil {
		return row, at, false, err
	}
	if at, err = parseInstant(entry.StartedDateTime); err != nil {
		return row, at, false, err
	}
	u, err := url.Parse(entry.Request.URL)
	if err != nil {
		return row, at, false, err
	}
	if !locate(&row, u, options) {
		return row, at, true, nil
	}
	status := int64(max(entry.Response.Status, 0)) // 0 or -1: no response
	if err = checkStatus(status); err != nil {
		return row, at, false, err
	}
	row.Method, row.Status = entry.Request.Method, int(status)
	if entry.Time > 0 {
		row.Latency = time.Duration(min(entry.Time*1e6, float64(maxLatency)))
	}
	for _, h := range entry.Response.Headers {
		if options.KeepHeader != nil && !options.KeepHeader(h.Name) {
			continue
		}
		if before, ok := row.Headers[h.Name]; ok {
			h.Value = before + ", " + h.Value
		}
		row.Headers = with(row.Headers, h.Name, h.Value)
	}
	if status >= 400 && entry.Response.Content.Encoding == "" { // errors may be told apart by their text
		row.Body = clipBody(entry.Response.Content.Text)
	}
	return row, at, false, nil
}

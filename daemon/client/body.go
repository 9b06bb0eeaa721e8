package client

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/tapyr/tapyr/expr"
)

// maxDepth is how deep JSON may be nested: no API comes near, and every level costs those who walk it a stack frame.
const maxDepth = 100

// readBody reads a body up to a limit that holds after decompression, so that a small answer cannot become a large one.
func readBody(response *http.Response, limit int64) ([]byte, error) {
	plain, err := decompress(response)
	if err != nil {
		return nil, err
	}
	data, err := readAll(io.LimitReader(plain, limit+1), response.ContentLength)
	var corrupt flate.CorruptInputError
	switch {
	case int64(len(data)) > limit:
		return nil, &BodyError{Why: BodyTooLarge, Limit: limit}
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.As(err, &corrupt):
		return nil, &BodyError{Why: BodyEncoding, Err: err}
	case err != nil:
		return nil, &BodyError{Why: BodyTruncated, Err: err}
	}
	return data, nil
}

// mostBelieved bounds what is set aside for a body because its header says how long it is.
const mostBelieved = 1 << 20

// readAll reads to the end. said is how long the header says that it is, -1 where it does not; a compressed one is longer.
func readAll(from io.Reader, said int64) ([]byte, error) {
	var body bytes.Buffer
	body.Grow(int(min(max(said, 0), mostBelieved)) + bytes.MinRead)
	_, err := body.ReadFrom(from)
	return body.Bytes(), err
}

// decompress undoes what the transport did not: it asks for gzip and undoes that itself, but some servers compress unasked.
func decompress(response *http.Response) (io.Reader, error) {
	var plain io.Reader
	var err error
	// Several header lines are one list (RFC 9110, section 5.3).
	switch encoding := strings.ToLower(strings.TrimSpace(strings.Join(response.Header.Values("Content-Encoding"), ", "))); encoding {
	case "", "identity":
		return response.Body, nil
	case "gzip", "x-gzip":
		plain, err = gzip.NewReader(response.Body)
	case "deflate":
		plain, err = zlib.NewReader(response.Body)
	default:
		return nil, &BodyError{Why: BodyEncoding, Err: fmt.Errorf(
			"the content encoding %q is none of gzip, deflate and identity; gzip alone was asked for: check request.headers and proxies on the way",
			shortened(encoding, mostQuotedBytes))}
	}
	if errors.Is(err, io.EOF) { // an empty body, whatever the header says
		return strings.NewReader(""), nil
	}
	if err != nil {
		return nil, &BodyError{Why: BodyEncoding, Err: err}
	}
	return plain, nil
}

// Decode reads a JSON body as expressions see it; an empty body is nil. The error is a *BodyError.
func Decode(data []byte) (any, error) {
	if len(strings.TrimSpace(string(data[:min(len(data), 64)]))) == 0 && len(strings.TrimSpace(string(data))) == 0 {
		return nil, nil
	}
	if tooDeep(data, maxDepth) {
		return nil, &BodyError{Why: BodyTooDeep, Limit: maxDepth}
	}
	value, err := expr.DecodeJSON(data)
	if err != nil {
		return nil, &BodyError{Why: BodyNotJSON, Err: fmt.Errorf("%w%s", err, looksLike(data))}
	}
	return value, nil
}

// tooDeep tells whether brackets are nested deeper than limit, without building anything.
func tooDeep(data []byte, limit int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > limit {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

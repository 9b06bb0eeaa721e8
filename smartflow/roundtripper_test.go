package smartflow

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// roundTrip is a request as a server sees it.
type roundTrip struct {
	*http.Request
	body string
}

// roundTripper is a server within the process, so that time can be virtual. It
// returns a status, headers and a body.
type roundTripper func(*roundTrip) (int, map[string]string, string)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	rt := &roundTrip{Request: req}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		rt.body = string(body)
	}
	status, headers, body := f(rt)
	resp := &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
	for name, v := range headers {
		resp.Header.Set(name, v)
	}
	return resp, nil
}

func get(t testing.TB, tr http.RoundTripper, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

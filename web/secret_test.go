package web_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tapyr/tapyr/web"
)

// planted has what JSON, HTML and label values write otherwise.
const planted = `s3cr3t<"&'>-of-the-daemon`

func redact(text string) string { return strings.ReplaceAll(text, planted, "[secret]") }

// A secret that got into a snapshot, an error or a series comes out nowhere: page, API, metrics, log, errors.
func TestNoSecretComesOut(t *testing.T) {
	var log bytes.Buffer
	d := secretDaemon(planted)
	d.sick, d.unready, d.refuses = errors.New("sick: "+planted), errors.New("unready: "+planted), errors.New("refused: "+planted)
	series := &fixedSeries{prometheus.MustNewConstMetric(
		prometheus.NewDesc("vendor_thing", "A thing of "+planted, []string{"name"}, nil), prometheus.GaugeValue, 1, "x"+planted)}
	h := web.New(web.Options{
		Daemon: d, Redact: redact, Series: series, Token: func() string { return planted + "-token" }, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	outputs := map[string]string{}
	ask := func(c call) {
		w := c.do(h)
		text := w.Body.String()
		for name, values := range w.Header() {
			text += name + ": " + strings.Join(values, ",") + "\n"
		}
		outputs[c.method+c.path+c.remote+c.header["Authorization"][:min(1, len(c.header))]] = text
	}
	for _, path := range []string{
		"/", "/?q=" + "s3cr", "/healthz", "/readyz", "/metrics", "/api/v1/status", "/api/v1/plan", "/api/v1/scopes", "/api/v1/jobs", "/api/v1/spend",
		"/api/v1/jobs/nobody",
	} {
		ask(call{path: path})
		ask(call{path: path, remote: there})
		ask(call{path: path, remote: there, header: map[string]string{"Authorization": "Bearer " + planted}})
	}
	ask(call{method: http.MethodPost, path: "/api/v1/jobs/meraki-devices/pause"})
	outputs["log"] = log.String()

	if len(outputs["/"]) < 10_000 || !strings.Contains(outputs["/metrics"], "[secret]") || !strings.Contains(outputs["/metrics"], "vendor_thing") ||
		!strings.Contains(outputs["/api/v1/status"], "[secret]") || log.Len() == 0 {
		t.Fatal("the secret was not where the test thinks: it proves nothing")
	}
	for where, text := range outputs {
		// As it is, and as HTML, JSON and label values would write it.
		for _, form := range []string{"s3cr3t", "of-the-daemon"} {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s: …%s…", where, text[max(0, i-80):min(len(text), i+80)])
			}
		}
	}
}

// fixedSeries is a collector of what it is.
type fixedSeries []prometheus.Metric

func (f *fixedSeries) Describe(chan<- *prometheus.Desc) {}

func (f *fixedSeries) Collect(ch chan<- prometheus.Metric) {
	for _, m := range *f {
		ch <- m
	}
}

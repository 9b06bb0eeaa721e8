package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tapyr/tapyr/plaintext"
	"github.com/tapyr/tapyr/plan/planjson"
	"github.com/tapyr/tapyr/spend/report"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

// pageTemplate is parsed once. Everything that a daemon, a document or a provider says goes through its escaping.
var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"style":  func() template.CSS { return template.CSS(pageCSS) }, //nolint:gosec // our own file
	"script": func() template.JS { return template.JS(pageJS) },    //nolint:gosec // our own file
	"badge":  func(l level, words string) cell { return cell{Badge: l, Text: words} },
}).Parse(pageHTML))

// pagePolicy allows the page its one style and its one script, by their hashes, and nothing from elsewhere.
var pagePolicy = "default-src 'none'; style-src '" + hashOf(pageCSS) + "'; script-src '" + hashOf(pageJS) +
	"'; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// hashOf is a source expression of Content Security Policy Level 3, 2.3.1.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

const (
	// minRefreshSeconds and maxRefreshSeconds bound how often a page renews itself.
	minRefreshSeconds, maxRefreshSeconds = 5, 3600
	// maxQueryBytes bounds the filter.
	maxQueryBytes = 200
)

// page serves the status page.
func (s *server) page(w http.ResponseWriter, r *http.Request) {
	snapshot := s.snapshot()
	clean(snapshot, plaintext.Printable) // what a vendor or a document says must not reorder or hide the text around it
	var planned *planjson.Plan
	searching := false
	if snapshot.Plan != nil {
		remedies, ready := s.remedies(r.Context(), snapshot.Plan, remediesForPage)
		searching = !ready
		document := planjson.Of(snapshot.Plan, remedies)
		clean(&document, func(text string) string { return plaintext.Printable(s.Redact(text)) })
		planned = &document
	}
	var reports []*report.Report
	var spendError string
	if s.Spend != nil {
		var err error
		if reports, err = s.reports(r); err != nil {
			spendError = s.Redact(err.Error())
		}
	}
	query, refresh := pageQuery(r.URL.Query())
	view := viewOf(snapshot, reports, planned, strings.ToLower(query))
	view.Plan.Searching = searching
	view.Query, view.Refresh, view.Choices, view.SpendError = query, refresh, refreshChoices(query, refresh), spendError
	if spendError == "" {
		view.Unpublished = s.unpublished(reports)
	}
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, view); err != nil {
		s.Log.Error("the status page could not be written", "problem", s.Redact(err.Error()))
		s.fail(w, http.StatusInternalServerError, "a mistake in tapyr: the page could not be written; the log says why")
		return
	}
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	_, _ = w.Write(body.Bytes())
}

// pageQuery reads the filter and the seconds between renewals; what cannot be is as if it were not there.
func pageQuery(values url.Values) (query string, refresh int) {
	query = strings.TrimSpace(strings.ToValidUTF8(values.Get("q"), ""))
	if len(query) > maxQueryBytes {
		query = strings.ToValidUTF8(query[:maxQueryBytes], "")
	}
	refresh, err := strconv.Atoi(values.Get("refresh"))
	if err != nil || refresh < minRefreshSeconds || refresh > maxRefreshSeconds {
		refresh = 0
	}
	return query, refresh
}

// refreshChoices are links, so that a reader decides whether the page changes under their eyes.
func refreshChoices(query string, refresh int) []refreshChoice {
	var choices []refreshChoice
	for _, c := range []struct {
		text    string
		seconds int
	}{{"off", 0}, {"10 s", 10}, {"60 s", 60}} {
		values := url.Values{}
		if query != "" {
			values.Set("q", query)
		}
		if c.seconds > 0 {
			values.Set("refresh", strconv.Itoa(c.seconds))
		}
		href := "/"
		if len(values) > 0 {
			href += "?" + values.Encode()
		}
		choices = append(choices, refreshChoice{c.text, href, c.seconds == refresh})
	}
	return choices
}

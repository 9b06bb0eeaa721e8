package cli

import (
	"context"
	"strings"
	"testing"
	"unicode"
)

// hostileDocuments have, wherever a text is free, one that would do something: colour the terminal, turn the direction of reading,
// begin an annotation, a table cell, a tag or a formula.
const hostileDocuments = `apiVersion: tapyr/v1alpha1
kind: Provider
metadata: { name: example }
spec:
  title: "\e[31m\u202e<b>title</b>"
  baseURL: https://api.example.com
  limits:
    - { name: daily, kind: quota, max: 10, window: { period: day }, scope: { by: ["var:app"] }, source: { kind: assumed, note: "\e[31m" } }
    - { name: each, kind: quota, max: 1000, window: { period: day }, scope: { by: ["var:app", endpoint, method] } }
---
apiVersion: tapyr/v1alpha1
kind: Account
metadata: { name: main }
spec: { provider: example, vars: { app: "=cmd|' /C calc'\u202e\e[31m\0\u200b<b>x</b>|@all\r\n::error::pwned%0A" } }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: devices }
spec: { account: main, interval: 5m, priority: critical, request: { endpoint: "/a\u202eb/<b>", headers: { X: "\e[31m" } }, metrics: [{ name: m, value: "1.0" }] }
---
apiVersion: tapyr/v1alpha1
kind: Job
metadata: { name: "evil\u202e\e[31m\n::error::pwned" }
spec: { account: "no\e[31m\u202esuch" }
`

// Nothing in documents reaches a terminal, a report, an annotation or a spreadsheet as anything but text.
func TestHostileDocuments(t *testing.T) {
	good, _, _ := strings.Cut(hostileDocuments, "---\napiVersion: tapyr/v1alpha1\nkind: Job\nmetadata: { name: \"evil")
	for _, tt := range []struct {
		text  string
		words string
	}{
		{good, "plan -"},
		{good, "plan - --format markdown"},
		{good, "plan - --format html"},
		{good, "plan - --format csv"},
		{good, "plan - --explain devices"},
		{good, "validate -"},
		{good, "validate - --format github"},
		{good, "validate - --format sarif"},
		{good, "inspect match - --path /x --var app=\x1b[31m\u202e"},
		{good, "inspect match - --path /x --format markdown"},
		{good, "inspect response - --path /x --status 429 --header Retry-After:\x1b[31m\u202e"},
		{good, "run - --dry-run"},
		{good, "simulate run - --duration 1h"},
		{good, "simulate run - --duration 1h --format markdown"},
		{hostileDocuments, "validate -"},
		{hostileDocuments, "validate - --format github"},
		{hostileDocuments, "validate - --format sarif"},
		{hostileDocuments, "plan -"},
		{good, "plan - --explain \x1b[31m\u202e"},
		{good, "plan - --set job.\x1b[31m.interval=\u202e"},
		{good, "\x1b[31m"},
		{good, "plan --\u202e"},
		{good, "plan - --fanout \u202e=x"},
		{good, "plan /nowhere/\x1b[31m\u202e"},
		{good, "validate --rules \x1b[31m"},
	} {
		t.Run(tt.words, func(t *testing.T) {
			w, _ := runOn(tt.text, strings.Fields(tt.words)...)
			if w.stdout.Len()+w.stderr.Len() == 0 {
				t.Fatal("nothing is printed: the test sees nothing")
			}
			for name, text := range map[string]string{"stdout": w.stdout.String(), "stderr": w.stderr.String()} {
				for _, line := range strings.Split(text, "\n") {
					for _, r := range line {
						if !unicode.IsPrint(r) && r != '\t' && !strings.Contains(tt.words, "csv") {
							t.Errorf("%s has %U in %q", name, r, line)
							break
						}
					}
					if strings.HasPrefix(strings.TrimSpace(line), "::error::pwned") || strings.HasPrefix(line, "=") {
						t.Errorf("%s has the line %q", name, line)
					}
					if strings.Contains(line, ",=cmd") || strings.Contains(line, `,"=cmd`) {
						t.Errorf("%s has a formula in %q", name, line)
					}
				}
				markup := strings.Contains(tt.words, "markdown") || strings.Contains(tt.words, "html")
				if markup && (strings.Contains(text, "<b>x") || strings.Contains(text, "/<b>")) {
					t.Errorf("%s has markup:\n%s", name, text)
				}
			}
		})
	}
	// The texts did come out, as texts.
	w := newWorld()
	w.Stdin = strings.NewReader(good)
	Run(context.Background(), &w.Env, []string{"plan", "-", "--format", "markdown"})
	if !strings.Contains(w.stdout.String(), `&lt;b&gt;x&lt;/b&gt;\|&#64;all`) {
		t.Errorf("the key is not there:\n%s", w.stdout.String())
	}
}

package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// browser drives Chromium by its DevTools protocol over a pipe: messages in JSON, each ended by a zero byte.
type browser struct {
	t       *testing.T
	in      io.WriteCloser
	session string // of the page that is driven

	mu      sync.Mutex // guards what follows
	next    int
	answers map[int]chan message
	// requests are the URLs that the page asked for, complaints what its console says: blocked by policy, errors.
	requests   []string
	complaints []string
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// startBrowser starts Chromium with a profile of its own and opens an empty page.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	binary := program(t, "chromium", "chromium")
	toRead, toWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromRead, fromWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	command := exec.CommandContext(ctx, binary, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	command.ExtraFiles = []*os.File{toRead, fromWrite} // 3 is what it reads, 4 what it writes
	command.WaitDelay = 5 * time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = toRead.Close(), fromWrite.Close()
	b := &browser{t: t, in: toWrite, answers: make(map[int]chan message)}
	done := make(chan struct{})
	go func() { defer close(done); b.read(fromRead) }()
	t.Cleanup(func() {
		b.session = ""
		b.try("Browser.close", nil)
		_ = toWrite.Close()
		_ = command.Wait()
		cancel()
		<-done
		_ = fromRead.Close()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// read hands answers to who waits for them, and keeps what the page asks for and complains about.
func (b *browser) read(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			for id, answer := range b.answers {
				close(answer)
				delete(b.answers, id)
			}
			b.mu.Unlock()
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		switch {
		case m.ID != 0 && b.answers[m.ID] != nil:
			b.answers[m.ID] <- m
			delete(b.answers, m.ID)
		case m.Method == "Network.requestWillBeSent":
			var event struct{ Request struct{ URL string } }
			_ = json.Unmarshal(m.Params, &event)
			b.requests = append(b.requests, event.Request.URL)
		case m.Method == "Log.entryAdded", m.Method == "Runtime.exceptionThrown":
			b.complaints = append(b.complaints, string(m.Params))
		}
		b.mu.Unlock()
	}
}

// try sends a command and waits for its answer.
func (b *browser) try(method string, params any) (message, error) {
	b.mu.Lock()
	b.next++
	id := b.next
	answer := make(chan message, 1)
	b.answers[id] = answer
	b.mu.Unlock()
	command := map[string]any{"id": id, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		return message{}, err
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		return message{}, err
	}
	select {
	case m, ok := <-answer:
		if !ok {
			return m, errors.New("the browser has ended")
		}
		if m.Error != nil {
			return m, errors.New(m.Error.Message)
		}
		return m, nil
	case <-time.After(time.Minute):
		return message{}, fmt.Errorf("%s: no answer within a minute", method)
	}
}

func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	m, err := b.try(method, params)
	if err == nil && result != nil {
		err = json.Unmarshal(m.Result, result)
	}
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

// eval is the value of an expression in the page.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	var result struct {
		Result struct{ Value any }
		Error  *struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &result)
	if result.Error != nil {
		b.t.Fatalf("%s: %s %s", expression, result.Error.Text, result.Error.Exception.Description)
	}
	return result.Result.Value
}

// open loads a page and waits until all of it is there.
func (b *browser) open(url string) {
	b.t.Helper()
	var navigated struct{ ErrorText string }
	b.call("Page.navigate", map[string]any{"url": url}, &navigated)
	if navigated.ErrorText != "" {
		b.t.Fatalf("%s: %s", url, navigated.ErrorText)
	}
	b.settled(url)
}

// settled waits for the end of a navigation.
func (b *browser) settled(what string) {
	b.t.Helper()
	wait(b.t, "loading "+what, func() bool {
		m, err := b.try("Runtime.evaluate", map[string]any{"expression": "document.readyState + ' ' + location.href", "returnByValue": true})
		var state struct{ Result struct{ Value string } }
		return err == nil && json.Unmarshal(m.Result, &state) == nil && state.Result.Value == "complete "+what
	})
}

// look sets the size of the window in CSS pixels, and the theme.
func (b *browser) look(width, height int, theme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}}}, nil)
}

// press presses a key.
func (b *browser) press(key string) {
	b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13}
	event := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		event["text"] = "\r"
	}
	b.call("Input.dispatchKeyEvent", event, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

// picture writes all of the page to a file.
func (b *browser) picture(path string) {
	b.t.Helper()
	var shot struct{ Data []byte }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	if err := os.WriteFile(path, shot.Data, 0o666); err != nil {
		b.t.Fatal(err)
	}
}

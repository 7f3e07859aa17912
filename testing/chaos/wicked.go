package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// wickedness returns an answer that package upstream does not give.
type wickedness func(w http.ResponseWriter)

const oversize = 9 << 20

// oversized is more than any checker accepts.
func oversized(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	chunk := bytes.Repeat([]byte(" "), 1<<16)
	for n := 0; n < oversize; n += len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// severed ends the connection in the middle of an answer.
func severed(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte(`{"messages":[{"id":"`))
	panic(http.ErrAbortHandler) // this is how a handler cuts a connection
}

// hostile answers with a body that fits the size that checkers accept, and is made to
// cost its reader as much as possible.
func hostile(contentType string, body []byte) wickedness {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body)
	}
}

const hostileSize = 8<<20 - 1<<10

// hostiles are such answers to a feed's check: deep, wide and both, in each format.
func hostiles() []wickedness {
	fill := func(contentType, before, part, after string) wickedness {
		times := (hostileSize - len(before) - len(after)) / len(part)
		return hostile(contentType, []byte(before+strings.Repeat(part, times)+after))
	}
	return []wickedness{
		fill("application/rss+xml", "<rss>\x01", "<b>", ""),
		fill("application/rss+xml", `<rss version="2.0"><channel>`, "<item/>", "</channel></rss>"),
		fill("application/atom+xml", `<feed xmlns="http://www.w3.org/2005/Atom">`, "<entry/>", "</feed>"),
		fill("application/feed+json", `{"version":"https://jsonfeed.org/version/1.1","items":[`, "{},", "{}]}"),
		fill("application/feed+json", `{"version":"https://jsonfeed.org/version/1.1","items":`, "[", ""),
	}
}

// endlessPrefix begins the ids of accounts whose third party always has more. Nobody
// knows which messages these should have.
const endlessPrefix = "endless-"

const (
	endlessPage    = 64
	endlessMessage = 16 << 10
)

// endless always has another page of large messages.
func endless() wickedness {
	var mu sync.Mutex
	page := 0
	data := strings.Repeat("x", endlessMessage)
	return func(w http.ResponseWriter) {
		mu.Lock()
		page++
		n := page
		mu.Unlock()
		messages := make([]map[string]any, endlessPage)
		for i := range messages {
			messages[i] = map[string]any{"id": fmt.Sprintf("%d-%d", n, i), "type": "message", "data": data}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"messages": messages, "next_cursor": strconv.Itoa(n), "has_more": true})
	}
}

// watchedWriter notices whether an answer is a fault.
type watchedWriter struct {
	http.ResponseWriter
	status  int
	garbage bool
}

// WriteHeader notes the status.
func (w *watchedWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write notes whether a body is no answer of a connector or a feed.
func (w *watchedWriter) Write(p []byte) (int, error) {
	w.garbage = w.garbage || bytes.HasPrefix(p, []byte{0}) || bytes.HasPrefix(p, []byte(`{"error"`))
	return w.ResponseWriter.Write(p)
}

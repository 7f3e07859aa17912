package corpus

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Text is any bytes. In JSON it is a string, or where it is no UTF-8 {"bytes": base64}.
type Text string

type textBytes struct {
	Bytes []byte `json:"bytes"`
}

// MarshalJSON returns the text, with all its bytes.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(textBytes{[]byte(t)})
}

// UnmarshalJSON reads what MarshalJSON returns.
func (t *Text) UnmarshalJSON(text []byte) error {
	var other textBytes
	if json.Unmarshal(text, &other) == nil {
		*t = Text(other.Bytes)
		return nil
	}
	return json.Unmarshal(text, (*string)(t))
}

// Header is one line of a request's header. A name may come several times.
type Header struct {
	Name  string `json:"name"`
	Value Text   `json:"value"`
}

// Request is a request as its bytes are written: nothing in it need be valid.
type Request struct {
	Method string   `json:"method"`
	Target Text     `json:"target"` // path and query, as they stand in the first line
	Header []Header `json:"header,omitempty"`
	Body   Text     `json:"body,omitempty"`
	About  string   `json:"about,omitempty"` // why the request is kept
}

// Clone returns a copy that shares nothing.
func (r Request) Clone() Request {
	r.Header = append([]Header(nil), r.Header...)
	return r
}

// String returns the request as a line of testdata.
func (r Request) String() string {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(line.String(), "\n")
}

// Read reads requests, one a line.
func Read(in io.Reader) ([]Request, error) {
	var all []Request
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("request %d: %w", len(all)+1, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// Parse writes the request as a client would and reads it as net/http's server does. It is
// an error where the server would answer by itself, before any handler.
func (r Request) Parse() (*http.Request, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\n", r.Method, r.Target)
	host, length := "localhost", fmt.Sprint(len(r.Body))
	for _, h := range r.Header {
		switch {
		case strings.EqualFold(h.Name, "Host"):
			host = string(h.Value)
			continue
		case strings.EqualFold(h.Name, "Content-Length"):
			length = string(h.Value)
			continue
		}
		fmt.Fprintf(&text, "%s: %s\r\n", h.Name, h.Value)
	}
	fmt.Fprintf(&text, "Host: %s\r\nContent-Length: %s\r\n\r\n%s", host, length, r.Body)
	parsed, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text.String())))
	if err != nil {
		return nil, err
	}
	parsed.RemoteAddr = "127.0.0.1:1"
	return parsed, nil
}

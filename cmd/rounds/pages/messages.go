package pages

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	messagesShown = 50       // on a page
	messageShort  = 160      // characters of a message's data in one line
	messageFolded = 2 << 10  // bytes of the data under the line
	messageWhole  = 64 << 10 // bytes of the data on its own page
)

// found is a message.
type found struct{ api.Message }

// Ref returns the text that names the message in addresses.
func (f *found) Ref() string { return strconv.Itoa(f.Shard) + ":" + f.Position }

// Written returns when the message was written, according to its position.
func (f *found) Written() time.Time {
	ms, _, _ := strings.Cut(f.Position, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n)
}

// Short returns the data in one line, cut.
func (f *found) Short() string {
	text := unescaped(f.Data[:min(len(f.Data), 8*messageShort)])
	if runes := []rune(text); len(runes) > messageShort {
		return string(runes[:messageShort]) + "…"
	}
	return text
}

// Folded returns the data indented, cut.
func (f *found) Folded() string { return cut(indented(f.Data), messageFolded) }

// IsFolded reports whether Folded is all of the data.
func (f *found) IsFolded() bool { return len(indented(f.Data)) <= messageFolded }

// Shown returns the data indented, for a page of its own.
func (f *found) Shown() string { return cut(indented(f.Data), messageWhole) }

// IsWhole reports whether Shown is all of the data.
func (f *found) IsWhole() bool { return len(indented(f.Data)) <= messageWhole }

// Size returns the length of the data in bytes.
func (f *found) Size() int { return len(f.Data) }

// indented returns JSON over several lines.
func indented(data json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, data, "", "  ") != nil {
		return string(data)
	}
	return unescaped(out.Bytes())
}

// unescaped returns JSON without the escapes that encoding/json adds for HTML, which would make a
// message hard to read. The template escapes the text anyway.
func unescaped(data []byte) string {
	var out strings.Builder
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' || i+1 >= len(data) {
			out.WriteByte(data[i])
			continue
		}
		if i+6 <= len(data) {
			if plain, ok := map[string]byte{`\u003c`: '<', `\u003e`: '>', `\u0026`: '&'}[string(data[i:i+6])]; ok {
				out.WriteByte(plain)
				i += 5
				continue
			}
		}
		out.Write(data[i : i+2])
		i++
	}
	return strings.ToValidUTF8(out.String(), "�")
}

// cut returns the first bytes of a text, in whole characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// messages is what the page of found messages shows.
type messages struct {
	api.MessageList
	Messages []*found `json:"messages"`

	Newest bool   `json:"-"` // the page begins with the newest message, and follows new ones
	Older  string `json:"-"` // addresses of other pages; empty: there are none
	Newer  string `json:"-"`
	Some   bool   `json:"-"` // a filter leaves messages out
	Filter string `json:"-"` // the filter as a query of the API

	Search *messageSearch `json:"-"` // nil: the page needs no search
	Views  *savedViews    `json:"-"`
}

// Blank returns an empty message, from which a script makes rows.
func (m *messages) Blank() *found { return &found{} }

// filtersOfMessages are the fields of the filter.
func filtersOfMessages() []string { return []string{"account", "kind", "type"} }

func messagesPage() *page {
	return &page{name: "messages", path: "/messages", menu: "messages", scripts: []string{"messages.js"}, data: func(v *visit) (any, error) {
		m, q := &messages{}, url.Values{"limit": {strconv.Itoa(messagesShown)}}
		filter := url.Values{}
		for _, name := range filtersOfMessages() {
			if value := v.Query(name); value != "" {
				q.Set(name, value)
				filter.Set(name, value)
			}
		}
		m.Filter, m.Some = filter.Encode(), len(filter) > 0
		searches := false
		for _, name := range searchedMessages() {
			if value := v.Query(name); value != "" {
				filter.Set(name, value)
				searches = true
			}
		}
		m.Views = v.views("messages", filter)
		if searches {
			if err := m.search(v, filter); err != nil {
				return nil, err
			}
			return m, nil
		}
		before, after := v.Query("before"), v.Query("after")
		if after != "" {
			q.Set("after", after)
		} else {
			if m.Newest = before == ""; m.Newest {
				before = "now"
			}
			q.Set("before", before)
		}
		if err := m.look(v, q); err != nil {
			return nil, err
		}
		if after != "" {
			slices.Reverse(m.Messages)
			m.Older = v.With("after", "", "before", after)
			if len(m.Messages) > 0 || m.More {
				m.Newer = v.With("before", "", "after", m.Next)
			}
			return m, nil
		}
		if m.More {
			m.Older = v.With("after", "", "before", m.Next)
		}
		if !m.Newest {
			m.Newer = v.With("before", "", "after", m.End)
		}
		return m, nil
	}}
}

// lookFor is how long a page goes on looking for messages that match. One call of the API looks at some
// thousands only, and messages of one account may be far behind those of others.
const lookFor = time.Second

// look asks for messages until the page is full, there are no more, or the visitor has waited for a while.
func (m *messages) look(v *visit, q url.Values) error {
	for began, first := time.Now(), true; ; first = false {
		var page messages
		if err := v.get(address("/v1/messages", q), &page); err != nil {
			return err
		}
		if first {
			m.End = page.End
		}
		m.Messages, m.Next, m.More = append(m.Messages, page.Messages...), page.Next, page.More
		if !m.More || !m.Some || q.Has("after") || len(m.Messages) >= messagesShown || time.Since(began) >= lookFor {
			return nil
		}
		q.Set("before", m.Next)
		q.Set("limit", strconv.Itoa(messagesShown-len(m.Messages)))
	}
}

// delivered is a message and its state in each consumer group.
type delivered struct{ api.DeliveredMessage }

// Found returns the message.
func (d *delivered) Found() *found { return &found{d.Message} }

// refPattern matches the text that names a message, or a dead letter, in addresses.
var refPattern = regexp.MustCompile(`^[0-9]{1,5}:[0-9]{1,20}-[0-9]{1,20}$`)

// message returns the message that an address names.
func (v *visit) message() (*delivered, error) {
	at := v.Query("at")
	if !refPattern.MatchString(at) {
		return nil, refusal(http.StatusNotFound, v.lang.text("message.none"))
	}
	d := &delivered{}
	return d, v.get("/v1/messages/"+at, d)
}

func messagePage() *page {
	return &page{
		name: "message", path: "/message", menu: "messages",
		data: func(v *visit) (any, error) { return v.message() },
		raw: map[string]func(*visit, http.ResponseWriter){"GET /message/data": func(v *visit, w http.ResponseWriter) {
			d, err := v.message()
			if err != nil {
				v.fail(w, v, err)
				return
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff") // a browser must not guess another type
			_, _ = w.Write([]byte(indented(d.Data)))            // a visitor who has gone needs no answer
		}},
	}
}

package pages

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

// timelineEvent is something that mattered to an account, or several such events as one.
type timelineEvent struct {
	api.TimelineEvent
	Checks int       // how many consecutive finds it stands for
	Since  time.Time // the time of the earliest find
}

// fewAlike is the most consecutive events of messages that are each shown.
const fewAlike = 2

// folded turns many consecutive finds into one event, so that they do not hide the other events.
func folded(events []api.TimelineEvent) []timelineEvent {
	var all []timelineEvent
	for len(events) > 0 {
		finds := slices.IndexFunc(events, func(e api.TimelineEvent) bool { return e.Event != "found" })
		if finds < 0 {
			finds = len(events)
		}
		if finds <= fewAlike {
			all = append(all, timelineEvent{TimelineEvent: events[0]})
			events = events[1:]
			continue
		}
		one := timelineEvent{TimelineEvent: events[0], Checks: finds, Since: events[finds-1].Time}
		for _, e := range events[1:finds] {
			one.Count += e.Count
		}
		all = append(all, one)
		events = events[finds:]
	}
	return all
}

// Class returns how the event is marked: good, bad, warn, or an empty text.
func (e *timelineEvent) Class() string {
	switch e.Event {
	case "cursor_reset":
		if e.Count == 0 { // the check succeeded
			return "warn"
		}
		return "bad"
	case "failed":
		return "bad"
	case "parked":
		if e.Text == "paused" {
			return ""
		}
		return "bad"
	case "found", "recovered":
		return "good"
	case "hindered", "requeued", "probed":
		return "warn"
	}
	return ""
}

// Key returns the key of the sentence for the event. Its arguments are the count and the text.
func (e *timelineEvent) Key() string {
	key := "event." + e.Event
	switch {
	case e.Event == "parked" && e.Text == "paused":
		return "event.paused"
	case e.Event == "resumed" && e.Text != "":
		return key + "." + e.Text
	case e.Event == "nudged" && e.Count == 0:
		return key + ".now"
	}
	return key
}

// Within returns the time within which a check was asked for.
func (e *timelineEvent) Within() time.Duration { return time.Duration(e.Count) * time.Millisecond }

// Shown returns the changed fields, in one line.
func (e *timelineEvent) Shown() string { return strings.Join(e.Fields, ", ") }

// accountMessage is a message that the account's checks found.
type accountMessage struct{ found }

// messageLine is how many characters of a message the page of its account shows.
const messageLine = 120

// Line returns the content of the message in one line.
func (m *accountMessage) Line() string { return short(contentOf(m.Data), messageLine) }

// contentOf returns what people read of the data of a message or a send: its title, its text or the
// like, or else all of the data.
func contentOf(data json.RawMessage) string {
	if text := textOf(data); text != "" {
		return text
	}
	return unescaped(data)
}

// textOf returns the title or the text in the data of a message or a send, or an empty text.
func textOf(data json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) == nil {
		for _, name := range []string{"title", "subject", "text", "content", "name", "summary"} {
			var text string
			if json.Unmarshal(fields[name], &text) == nil && strings.TrimSpace(text) != "" {
				return text
			}
		}
	}
	var within struct {
		Text struct{ Content string } // of WeCom
		// Of Telegram.
		Message struct{ Text string }
		Edited  struct{ Text string } `json:"edited_message"`
	}
	var items []struct { // of WeChat
		Of struct{ Text string } `json:"text_item"`
	}
	_ = json.Unmarshal(data, &within) // fields of another type stay empty
	texts := []string{within.Text.Content, within.Message.Text, within.Edited.Text}
	if json.Unmarshal(fields["item_list"], &items) == nil && len(items) > 0 {
		texts = append(texts, items[0].Of.Text)
	}
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			return text
		}
	}
	return ""
}

// short returns a text in one line of at most the given number of characters.
func short(text string, most int) string {
	// A character has at most four bytes; more of a long text need not be looked at.
	if len(text) > 8*most {
		text = text[:8*most]
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "�")), " ")
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most]) + "…"
	}
	return text
}

const (
	factDepth = 3   // nested objects that are shown field by field
	factsMost = 100 // fields of a config that are shown
	factText  = 400 // characters of one
)

// fact is a field of a config.
type fact struct {
	Name   string // with the names of the objects that it is in
	Value  string
	Secret string // the name of a secret, whose value nobody sees
}

// factsOf returns the fields of a config in their order. Characters that reverse or hide others are
// escaped, so that readers see the true content.
func factsOf(config json.RawMessage) []fact {
	return appendFacts(nil, "", config, factDepth)
}

func appendFacts(facts []fact, name string, value json.RawMessage, depth int) []fact {
	if len(facts) == factsMost {
		return facts
	}
	var secret struct {
		Secret *string `json:"secret"`
	}
	value = bytes.TrimSpace(value)
	d := json.NewDecoder(bytes.NewReader(value))
	if len(value) == 0 || value[0] != '{' || depth == 0 {
		return appendFact(facts, name, value)
	}
	if _, err := d.Token(); err != nil {
		return appendFact(facts, name, value)
	}
	fields := 0
	inner := facts
	for d.More() {
		token, err := d.Token()
		field, ok := token.(string)
		var one json.RawMessage
		if err != nil || !ok || d.Decode(&one) != nil {
			return appendFact(facts, name, value)
		}
		fields++
		at := field
		if name != "" {
			at = name + "." + field
		}
		inner = appendFacts(inner, at, one, depth-1)
	}
	if fields == 1 && json.Unmarshal(value, &secret) == nil && secret.Secret != nil {
		return append(facts, fact{Name: terminal.Text(name), Secret: terminal.Text(short(*secret.Secret, factText))})
	}
	if fields == 0 && name != "" {
		return appendFact(facts, name, value)
	}
	return inner
}

func appendFact(facts []fact, name string, value json.RawMessage) []fact {
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	if name == "" && text == "" {
		return facts
	}
	return append(facts, fact{Name: terminal.Text(name), Value: terminal.Text(short(text, factText))})
}

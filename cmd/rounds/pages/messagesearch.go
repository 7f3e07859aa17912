package pages

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// messageSearch says how far a search of the stored messages is, and how it goes on.
type messageSearch struct {
	api.SearchProgress          // Looked counts what the pages before looked at, too
	Refused            *problem // what is wrong with the form
	Partial            bool     // there is more to look at, and the page is not full
	More               string   // the address of further rows of this page; empty: there are none
}

// searchedMessages are the fields of the filter that need a search. The others are followed live.
func searchedMessages() []string { return []string{"text", "sender", "from", "to"} }

// searchFor is how long a page searches. It goes on by itself, or by a link.
const searchFor = "1s"

// search looks for stored messages, from the newest back.
func (m *messages) search(v *visit, filter url.Values) error {
	m.Search, m.Some = &messageSearch{}, true
	rows := v.restOf(messagesShown)
	q := url.Values{"limit": {strconv.Itoa(rows)}, "wait": {searchFor}}
	for name, values := range filter {
		q[name] = values
	}
	if before := v.Query("before"); before != "" {
		q.Set("before", before)
	}
	var page api.MessageSearch
	err := v.get(address("/v1/messages:search", q), &page)
	if m.Search.Refused = refusedFor(err, http.StatusUnprocessableEntity); m.Search.Refused != nil {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range page.Messages {
		m.Messages = append(m.Messages, &found{page.Messages[i]})
	}
	m.Search.SearchProgress, m.More = page.SearchProgress, page.Next != ""
	if before, err := strconv.Atoi(v.Query("looked")); err == nil && m.Search.Looked > 0 {
		m.Search.Looked += max(0, before)
	}
	if !m.More {
		return nil
	}
	m.Older = v.With("after", "", "before", page.Next, "looked", "", "rest", "")
	if m.Search.Partial = len(m.Messages) < rows; m.Search.Partial {
		looked := strconv.Itoa(m.Search.Looked)
		m.Older = v.With("after", "", "before", page.Next, "looked", looked, "rest", "")
		m.Search.More = v.With("after", "", "before", page.Next, "looked", looked, "rest", strconv.Itoa(rows-len(m.Messages)))
	}
	return nil
}

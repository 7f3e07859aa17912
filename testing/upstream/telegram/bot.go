package telegram

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// firstUpdate is the update_id before a bot's first.
const firstUpdate = int64(1) << 40

// quietWeek is how long a bot must have been without updates for the next update_id to be
// any number.
const quietWeek = 7 * 24 * time.Hour

// UpdateID returns the update_id of a bot's n-th update, counted from 1, of a bot whose ids
// never jumped.
func UpdateID(_ string, n int) string { return strconv.FormatInt(firstUpdate+int64(n), 10) }

// Number returns the number of an update from its JSON, or 0.
func Number(data json.RawMessage) int {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return 0
	}
	for _, raw := range fields {
		var m struct {
			ID int `json:"message_id"`
		}
		if json.Unmarshal(raw, &m) == nil && m.ID != 0 {
			return m.ID
		}
	}
	return 0
}

type update struct {
	id   int64
	at   time.Time
	kind string
	raw  json.RawMessage
}

type bot struct {
	updates []update  // that are kept
	latest  Update    // that was posted
	next    int64     // the id of the next update
	last    time.Time // when the last update came
	posted  int
	webhook string
	allowed []string // the kinds that the last call allowed
	fault   *fault
	sent    []Sent
	edits   []Edit
	polling int // the call that is held, by its number
	calls   int
	stats   Stats
	news    chan struct{} // closed when something changes

	sendFault *fault

	files                    map[string]*file // by file_id
	fileFault, downloadFault *fault
}

// Stats is what a fake knows about a bot.
type Stats struct {
	Posted    int
	Kept      int   // updates that are not confirmed
	Polls     int   // calls of getUpdates
	Conflicts int   // of these, calls that were answered 409
	Webhook   int   // calls of getWebhookInfo
	Next      int64 // the update_id of the next update
	Offset    int64 // of the last call
	Timeout   int   // of the last call, in seconds
}

// AddBot adds a bot with a token, unless there is one.
func (w *Telegram) AddBot(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bots[token] == nil {
		w.bots[token] = &bot{next: firstUpdate + 1, news: make(chan struct{})}
	}
}

// Revoke makes a token void: its calls are answered 401 from then on.
func (w *Telegram) Revoke(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.bots[token]; b != nil {
		b.changed()
	}
	delete(w.bots, token)
}

// SetWebhook sets a bot's webhook; empty: none.
func (w *Telegram) SetWebhook(token, url string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bots[token].webhook = url
	w.bots[token].changed()
}

// Renumber gives a bot's next update that update_id, and the following ones those behind it. It
// stands for a server that was set up anew. What the bot has kept is gone.
func (w *Telegram) Renumber(token string, next int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bots[token]
	b.updates, b.next = nil, next
	b.changed()
}

func (b *bot) changed() {
	close(b.news)
	b.news = make(chan struct{})
}

// PostN sends n messages to a bot and returns the number of the last.
func (w *Telegram) PostN(token string, n int) int {
	last := 0
	for range n {
		last = w.Post(token, "message")
	}
	return last
}

// Post sends an update of a kind, such as message, edited_message, callback_query or
// my_chat_member, and returns its number.
func (w *Telegram) Post(token, kind string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.postContent(w.bots[token], kind, nil)
}

// postContent posts an update whose message has more fields; without them it is a text.
func (w *Telegram) postContent(b *bot, kind string, more map[string]any) int {
	b.posted++
	n, now := b.posted, w.options.Now()
	if !b.last.IsZero() && now.Sub(b.last) >= quietWeek {
		b.next = w.options.Random()
	}
	content := fmt.Sprintf(`"text":"message %d 你好"`, n)
	if more != nil {
		raw, err := json.Marshal(more)
		if err != nil {
			panic(err) // maps and texts can always be marshalled
		}
		content = string(raw[1 : len(raw)-1])
	}
	raw := fmt.Sprintf(`{"update_id":%d,%q:{"message_id":%d,"date":%d,"chat":{"id":-1001234567890123,"type":"supergroup"},`+
		`"from":{"id":7654321098,"is_bot":false,"first_name":"Zoë"},%s}}`, b.next, kind, n, now.Unix(), content)
	b.latest = Update{b.next, now, kind, json.RawMessage(raw)}
	b.updates = append(b.updates, update(b.latest))
	b.next, b.last = b.next+1, now
	b.changed()
	return n
}

// Again has an update of the bot's queue come again: under its update_id, or under another one.
// It must not be confirmed yet.
func (w *Telegram) Again(token string, u Update, another bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bots[token]
	again := update(u)
	if another {
		again.raw = json.RawMessage(strings.Replace(string(u.raw), fmt.Sprintf(`"update_id":%d,`, u.id), fmt.Sprintf(`"update_id":%d,`, b.next), 1))
		again.id = b.next
		b.next++
	}
	again.at = w.options.Now()
	b.updates = append(b.updates, again)
	slices.SortStableFunc(b.updates, func(a, b update) int { return cmp.Compare(a.id, b.id) })
	b.changed()
}

// Update is an update that was posted, for [Telegram.Again].
type Update update

// Last returns the update that was posted last, even if it is confirmed.
func (w *Telegram) Last(token string) Update {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bots[token].latest
}

// Stats returns a bot's numbers.
func (w *Telegram) Stats(token string) Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bots[token]
	if b == nil {
		return Stats{}
	}
	s := b.stats
	s.Posted, s.Kept, s.Next = b.posted, len(b.updates), b.next
	return s
}

package ilink

import (
	"encoding/json"
	"fmt"
	"time"
)

// bot is a WeChat account that a person has bound.
type bot struct {
	id, user, token string
	place           int // among all bots
	posted          []json.RawMessage
	given           int // messages that were handed out, and are not given again
	givenAt         []time.Time
	wrote           time.Time // when its person wrote last
	answers         int       // to the person since then
	sent            []Sent
	typing          []Typing
	idle            bool
	called          time.Time
	holding         int // calls under way
	stats           Stats
	news            chan struct{} // closed when something changes
}

// Stats is what a fake knows about a bot.
type Stats struct {
	Posted  int
	Given   int
	Polls   int    // calls of getupdates
	AtOnce  int    // the most such calls at once
	Starts  int    // calls of notifystart
	Stops   int    // calls of notifystop
	Buf     string // the last cursor that a client sent
	Agent   string // the last bot_agent that a client sent
	Version string // the last iLink-App-ClientVersion that a client sent
}

// Bind gives a person's bot a token. The token before is void.
func (w *Ilink) Bind(user, token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bind(user, token)
}

// Bot is a person's bot.
type Bot struct {
	User, Token   string
	Posted, Given int // messages
}

// Bots returns the bots in the order in which they were bound first.
func (w *Ilink) Bots() []Bot {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]Bot, len(w.owners))
	for _, b := range w.owners {
		all[b.place] = Bot{b.user, b.token, len(b.posted), b.given}
	}
	return all
}

// bind makes a person's bot, or gives an existing bot another token.
func (w *Ilink) bind(user, token string) *bot {
	b := w.owners[user]
	if b == nil {
		b = &bot{id: "bot-of-" + user, user: user, place: len(w.owners), news: make(chan struct{}), called: w.options.Now()}
		w.owners[user] = b
	}
	delete(w.bots, b.token)
	b.token, b.idle = token, false
	w.bots[token] = b
	b.changed()
	return b
}

// changed wakes held calls.
func (b *bot) changed() {
	close(b.news)
	b.news = make(chan struct{})
}

// Idle makes a bot's calls fail with -14 until notifystart is called, as after a night without
// calls.
func (w *Ilink) Idle(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bots[token].idle = true
	w.bots[token].changed()
}

// Void binds the bot to somebody else: its token is void from now on. It returns the new token,
// which is empty if no bot has the old one.
func (w *Ilink) Void(token string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bots[token]
	if b == nil {
		return ""
	}
	w.issued++
	return w.bind(b.user, fmt.Sprintf("token-%d", w.issued)).token
}

// Stats returns a bot's numbers. For an unknown token they are zero.
func (w *Ilink) Stats(token string) Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bots[token]
	if b == nil {
		return Stats{}
	}
	s := b.stats
	s.Posted, s.Given = len(b.posted), b.given
	return s
}

// Known reports whether a token is valid.
func (w *Ilink) Known(token string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bots[token] != nil
}

// GivenAt returns when a bot's n-th message was handed out, or the zero time if it was not.
func (w *Ilink) GivenAt(token string, n int) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bots[token]
	if b == nil || n < 1 || n > len(b.givenAt) {
		return time.Time{}
	}
	return b.givenAt[n-1]
}

// Package telegram is a fake of Telegram's Bot API for tests: getUpdates, sendMessage,
// editMessageText, getFile and its files, getMe, deleteWebhook and getWebhookInfo, with all errors on demand. A call is a GET or a
// POST, and its parameters are JSON, a form or a query.
//
// As the real one, it confirms with the offset of a call: all updates below it are forgotten.
// What was not confirmed comes again, for 24 hours. A negative offset counts from the end of the
// queue, and forgets what is before it. An offset of more than 10 beyond the queue's end, or of
// more than 100,000 before its head, means nothing to the queue: the call gets what is there,
// from the head, and confirms nothing. A call is held for its timeout, until there is an
// update. A second call of the same bot ends the first with a 409, as long as they are of
// different clients; a bot with a webhook answers 409 as well, with another text.
//
// A bot's messages are numbered from 1 and hold the number as message_id; see Number. Their
// update_id is that number plus a base that no 32-bit integer holds. After a week without
// updates the next update_id is any number, higher or lower, and the following ones go on from
// there.
//
// Fields and texts are those of https://core.telegram.org/bots/api (9.2): getUpdates, Update,
// getMe, deleteWebhook, getWebhookInfo, ResponseParameters. The texts of the 409s are those
// that the real one answers. The rules for offsets are those of its server, telegram-bot-api.
package telegram

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

// Options are the settings of a fake. With the zero Options it behaves as the real one.
type Options struct {
	Keep    time.Duration    // for which updates are kept; 0: 24 h
	MaxHold time.Duration    // the longest hold; 0: 50 s
	Now     func() time.Time // nil: time.Now
	Local   bool             // it is a server of one's own that runs with --local
	Random  func() int64     // an update_id after a quiet week; nil: any of 31 bits
}

// Telegram is the fake. It is safe for concurrent use.
type Telegram struct {
	options Options
	routes  *http.ServeMux
	base    string

	mu     sync.Mutex
	bots   map[string]*bot // by token
	sends  int
	healed chan struct{}
}

// New makes a fake, to be used as an http.Handler.
func New(options Options) *Telegram {
	if options.Keep == 0 {
		options.Keep = 24 * time.Hour
	}
	if options.MaxHold == 0 {
		options.MaxHold = 50 * time.Second
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Random == nil {
		options.Random = func() int64 { return 1 + rand.Int64N(1<<31-1) }
	}
	w := &Telegram{options: options, routes: http.NewServeMux(), bots: make(map[string]*bot), healed: make(chan struct{})}
	for name, method := range map[string]http.HandlerFunc{
		"getUpdates": w.getUpdates, "getMe": w.getMe, "deleteWebhook": w.deleteWebhook, "getWebhookInfo": w.getWebhookInfo,
		"sendMessage": w.sendMessage, "editMessageText": w.editMessageText,
		"sendPhoto": w.sendFile("sendPhoto", "photo"), "sendVoice": w.sendFile("sendVoice", "voice"),
		"sendVideo": w.sendFile("sendVideo", "video"), "sendDocument": w.sendFile("sendDocument", "document"),
		"getFile": w.getFile,
	} {
		w.routes.HandleFunc("GET /{bot}/"+name, method)
		w.routes.HandleFunc("POST /{bot}/"+name, method)
	}
	w.routes.HandleFunc("GET /file/{bot}/documents/{file}", w.download)
	return w
}

// ServeHTTP answers one request.
func (w *Telegram) ServeHTTP(rw http.ResponseWriter, r *http.Request) { w.routes.ServeHTTP(rw, r) }

// Serve starts a fake on a free port of 127.0.0.1. The returned function stops it and
// cuts off what is under way.
func Serve(options Options) (*Telegram, func(), error) {
	w := New(options)
	stop, err := serving.Serve("127.0.0.1:0", func(base string) http.Handler {
		w.base = base
		return w
	})
	if err != nil {
		return nil, nil, err
	}
	return w, stop, nil
}

// URL returns where the fake is served, or "" if it was not started by Serve.
func (w *Telegram) URL() string { return w.base }

// RoundTrip answers one request without a network, as an http.RoundTripper in fake time.
// A caller that gives up before the answer gets none.
func (w *Telegram) RoundTrip(r *http.Request) (*http.Response, error) { return serving.RoundTrip(w, r) }

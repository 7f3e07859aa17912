// Package ilink is a fake of iLink, the interface of WeChat's bots (personal accounts): held
// getupdates, notifystart and notifystop, and signing in by a scan, with every status.
//
// It behaves as the real server is known to behave:
//
//   - A call of getupdates is held until there is a message, or until the hold has passed.
//   - A message is given once. Whatever cursor a client comes with, what was handed out
//     before is not given again, even if the answer never arrived.
//   - Two clients of one bot steal each other's messages.
//   - Code -14 means either that notifystart must be called first, or that the token is void
//     because somebody else has scanned for the same person.
//   - message_id is a 64-bit number, and those of this fake are beyond what a float or a
//     signed integer holds.
//
// Files are in a CDN, which is served below /c2c, encrypted with a key that only their message has.
//
// A bot's messages are numbered from 1, whatever their type, and have the number as seq; see
// MessageID.
//
// In the demo, people sign in to it. For tests, package ilinkd serves it and makes it fail on demand.
//
// # What it was compared with
//
// Paths, headers, fields and statuses are the ones that the official client reads and writes, in
// Tencent/openclaw-weixin at 128dc53 and in its npm package @tencent-weixin/openclaw-weixin 2.4.9:
// api/api (getUpdates, parseWeixinApiJson, notifyStart, notifyStop), api/types, auth/login-qr
// (fetchQRCode, pollQRStatus, waitForWeixinLogin) and monitor/monitor. The client of 2.4.9 was run
// against it by hand: getUpdates with its empty, full and refused answers, notifyStart and
// notifyStop, and a whole sign-in with digits, another host and an expired code. What that client
// does not show is a guess, and is marked so here: the texts of errmsg, what notifystart answers
// for a void token, and what becomes of a used code.
package ilink

import (
	"cmp"
	"net/http"
	"sync"
	"time"
)

// DefaultHold is how long the real server holds getupdates and get_qrcode_status.
const DefaultHold = 35 * time.Second

// DefaultCodeLife is how long a code may be scanned.
const DefaultCodeLife = 5 * time.Minute

// Options are the settings of a fake. With the zero Options it behaves as the real server.
type Options struct {
	Hold      time.Duration    // how long calls are held; negative: they end at once; 0: DefaultHold
	NextHold  time.Duration    // sent as longpolling_timeout_ms; 0: not sent
	Latency   time.Duration    // the delay of an answer, after its hold
	Slow      time.Duration    // from the first byte of an answer to its last
	Page      int              // the most messages of an answer; 0: 100
	CodeLife  time.Duration    // of a code to scan; 0: 5 min
	Host      string           // the baseurl at the end of a sign-in; empty: the called one
	IdleAfter time.Duration    // the time without a call after which a bot needs notifystart; 0: never
	Now       func() time.Time // nil: time.Now

	// Link returns the text of a drawn code; nil: the address of a page of WeChat's.
	Link      func(r *http.Request, qrcode string) string
	Full      bool          // getuploadurl answers with upload_full_url, and not with upload_param
	MediaLife time.Duration // after which the CDN forgets files; 0: never
	Replay    int           // how many of the latest messages a call with an empty cursor gets again
}

// Ilink is the fake. It is safe for concurrent use.
type Ilink struct {
	options Options
	routes  *http.ServeMux

	mu     sync.Mutex
	bots   map[string]*bot  // by token; without void tokens
	owners map[string]*bot  // by the person's id
	codes  map[string]*code // by qrcode
	media  map[string]*medium
	// uploads are files that bots may upload, by upload_param.
	uploads map[string]*upload
	issued  int // codes and tokens so far
}

// New makes a fake, to be used as an http.Handler.
func New(options Options) *Ilink {
	options.Hold = cmp.Or(options.Hold, DefaultHold)
	options.Page = cmp.Or(options.Page, 100)
	options.CodeLife = cmp.Or(options.CodeLife, DefaultCodeLife)
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Link == nil {
		options.Link = func(_ *http.Request, qrcode string) string {
			return "https://liteapp.weixin.qq.com/q/" + qrcode + "?bot_type=3"
		}
	}
	w := &Ilink{
		options: options, routes: http.NewServeMux(), bots: make(map[string]*bot), owners: make(map[string]*bot),
		codes: make(map[string]*code), media: make(map[string]*medium), uploads: make(map[string]*upload),
	}
	w.routes.HandleFunc("POST /ilink/bot/getupdates", w.getUpdates)
	w.routes.HandleFunc("POST /ilink/bot/sendmessage", w.sendMessage)
	w.routes.HandleFunc("POST /ilink/bot/getconfig", w.getConfig)
	w.routes.HandleFunc("POST /ilink/bot/sendtyping", w.sendTyping)
	w.routes.HandleFunc("POST /ilink/bot/msg/notifystart", w.notify(false))
	w.routes.HandleFunc("POST /ilink/bot/msg/notifystop", w.notify(true))
	w.routes.HandleFunc("POST /ilink/bot/get_bot_qrcode", w.getCode)
	w.routes.HandleFunc("GET /ilink/bot/get_qrcode_status", w.getStatus)
	w.routes.HandleFunc("POST /ilink/bot/getuploadurl", w.getUploadURL)
	w.routes.HandleFunc("GET /c2c/download", w.download)
	w.routes.HandleFunc("POST /c2c/upload", w.putUpload)
	return w
}

// ServeHTTP answers one request.
func (w *Ilink) ServeHTTP(rw http.ResponseWriter, r *http.Request) { w.routes.ServeHTTP(rw, r) }

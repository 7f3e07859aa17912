package sample

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// FirstToken is the token of the account that WeChat has from the start.
const FirstToken = "demo-weixin-token"

const (
	// heldFor is how long WeChat holds a call.
	heldFor = 35 * time.Second
	// codeLife is how long a code may be scanned.
	codeLife = 5 * time.Minute
	// perPage is the most messages of an answer.
	perPage = 50
	// mostCodes is how many codes are remembered.
	mostCodes = 50
)

// firstMessage is the message_id before the first, which no float has.
const firstMessage = 1<<62 + 1<<53

// weixin is a WeChat with the bot interface that the kind weixin speaks, and phones. Each
// message is given once, whatever it is asked, as the real one does.
type weixin struct {
	mu    sync.Mutex
	bots  []*wechatter
	codes []*code       // the newest last
	news  chan struct{} // closed when something changes
}

// wechatter is a person whose account is bound.
type wechatter struct {
	name, token string
	posted      []json.RawMessage
	given       int
	next        time.Time // when a friend writes, as friends do
}

// code is a code that somebody shows.
type code struct {
	id     string
	until  time.Time
	status string // in the words of the interface
	digits string // that the phone shows
	wrong  int
	told   bool // whoever shows it knows the status
	person string
}

func newWeixin() *weixin {
	w := &weixin{news: make(chan struct{})}
	w.bind("Lin", FirstToken)
	return w
}

// changed wakes the calls that are held. The lock is held.
func (w *weixin) changed() {
	close(w.news)
	w.news = make(chan struct{})
}

// bind has a person's account bound with a token. The one before is void.
func (w *weixin) bind(name, token string) *wechatter {
	b := w.named(name)
	if b == nil {
		b = &wechatter{name: name, next: time.Now().Add(3 * time.Second)}
		w.bots = append(w.bots, b)
	}
	b.token = token
	w.changed()
	return b
}

func (w *weixin) named(name string) *wechatter {
	i := slices.IndexFunc(w.bots, func(b *wechatter) bool { return b.name == name })
	if i < 0 {
		return nil
	}
	return w.bots[i]
}

// greetings are what friends write by themselves.
var greetings = []string{"Are you there?", "你好 😀", "The parcel has come", "明天见", "Shall we meet at six?", "收到，谢谢"}

// write adds a message to an account.
func (w *weixin) write(b *wechatter, text string) {
	n := len(b.posted) + 1
	now := time.Now().UnixMilli()
	message, _ := json.Marshal(map[string]any{ // texts and numbers can be encoded
		"seq": n, "message_id": json.Number(fmt.Sprint(uint64(firstMessage) + uint64(n))), "from_user_id": "friend@im.wechat", "to_user_id": strings.ToLower(b.name) + "@im.bot",
		"create_time_ms": now, "message_type": 1, "message_state": 2, "context_token": fmt.Sprint("context-", n),
		"item_list": []any{map[string]any{"type": 1, "text_item": map[string]string{"text": text}}},
	})
	b.posted = append(b.posted, message)
	w.changed()
}

// friends has those write whose time has come, and returns when the next one does.
func (w *weixin) friends(b *wechatter) time.Duration {
	if !time.Now().Before(b.next) {
		b.next = time.Now().Add(pace(b.name))
		w.write(b, greetings[len(b.posted)%len(greetings)])
	}
	return time.Until(b.next)
}

// ServeHTTP answers a call of the interface. Everything else is a phone's.
func (w *weixin) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var asked struct {
		Buf string `json:"get_updates_buf"`
	}
	if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/ilink/") {
		if err := json.NewDecoder(http.MaxBytesReader(rw, r.Body, 1<<20)).Decode(&asked); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
	}
	switch r.Method + " " + r.URL.Path {
	case "POST /ilink/bot/getupdates":
		answer(rw, w.held(r, func(over bool) any { return w.updates(r, asked.Buf, over) }))
	case "POST /ilink/bot/msg/notifystart", "POST /ilink/bot/msg/notifystop":
		answer(rw, w.held(r, func(bool) any { return w.known(r) }))
	case "POST /ilink/bot/get_bot_qrcode":
		answer(rw, w.newCode(r))
	case "GET /ilink/bot/get_qrcode_status":
		answer(rw, w.held(r, func(over bool) any { return w.status(r, over) }))
	default:
		w.phone(rw, r)
	}
}

// held asks again and again for an answer until there is one, or until the hold is over.
func (w *weixin) held(r *http.Request, ask func(over bool) any) any {
	ends := time.NewTimer(heldFor)
	defer ends.Stop()
	looks := time.NewTicker(time.Second) // friends write by the clock
	defer looks.Stop()
	for over := false; ; {
		if r.Context().Err() != nil {
			return nil // nothing is given to a caller that has gone
		}
		w.mu.Lock()
		news := w.news
		reply := ask(over)
		w.mu.Unlock()
		if reply != nil {
			return reply
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-ends.C:
			over = true
		case <-news:
		case <-looks.C:
		}
	}
}

// answer writes an answer; nil: nobody waits for it.
func answer(rw http.ResponseWriter, reply any) {
	if reply == nil {
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(reply) // a client that has hung up misses nothing
}

// caller returns the account whose token a call has, or nil.
func (w *weixin) caller(r *http.Request) *wechatter {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	i := slices.IndexFunc(w.bots, func(b *wechatter) bool { return b.token == token })
	if i < 0 {
		return nil
	}
	return w.bots[i]
}

// stale is the answer to a token that is void.
var stale = map[string]any{"ret": -14, "errcode": -14, "errmsg": "session timeout"}

func (w *weixin) known(r *http.Request) any {
	if w.caller(r) == nil {
		return stale
	}
	return map[string]any{"ret": 0}
}

// updates returns the messages that were not given yet.
func (w *weixin) updates(r *http.Request, buf string, over bool) any {
	b := w.caller(r)
	if b == nil {
		return stale
	}
	w.friends(b)
	if b.given == len(b.posted) {
		if over {
			return map[string]any{"ret": 0, "msgs": []any{}, "get_updates_buf": buf}
		}
		return nil
	}
	page := b.posted[b.given:min(len(b.posted), b.given+perPage)]
	b.given += len(page)
	return map[string]any{"ret": 0, "msgs": page, "get_updates_buf": base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s/%d", b.name, b.given))}
}

// newCode makes a code. Its text leads to the phone that scans it.
func (w *weixin) newCode(r *http.Request) any {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &code{id: rand.Text(), until: time.Now().Add(codeLife), status: "wait"}
	w.codes = append(w.codes, c)
	w.codes = w.codes[max(0, len(w.codes)-mostCodes):]
	w.changed()
	return map[string]any{"ret": 0, "qrcode": c.id, "qrcode_img_content": "http://" + r.Host + "/phone?code=" + c.id}
}

func (w *weixin) find(id string) *code {
	i := slices.IndexFunc(w.codes, func(c *code) bool { return c.id == id })
	if i < 0 {
		return nil
	}
	return w.codes[i]
}

// status returns what the phone has done with a code.
func (w *weixin) status(r *http.Request, over bool) any {
	c := w.find(r.URL.Query().Get("qrcode"))
	digits := r.URL.Query().Get("verify_code")
	switch {
	case c == nil:
		return map[string]any{"status": "expired"}
	case c.status != "confirmed" && time.Now().After(c.until):
		c.status = "expired"
	case c.status == "need_verifycode" && digits != "":
		c.typed(digits)
		w.changed()
	}
	switch {
	case c.status == "confirmed":
		b := w.bind(c.person, rand.Text())
		c.status = "expired" // it is used
		return map[string]any{"status": "confirmed", "bot_token": b.token, "ilink_bot_id": strings.ToLower(b.name) + "@im.bot", "baseurl": "http://" + r.Host, "ilink_user_id": b.name}
	case over || c.status != "wait" && (c.status != "scaned" || !c.told):
		c.told = c.status == "scaned"
		return map[string]any{"status": c.status}
	}
	return nil
}

// typed judges the digits that were typed in where the code is shown.
func (c *code) typed(digits string) {
	c.wrong++
	switch {
	case digits == c.digits:
		c.status, c.told = "scaned", false
	case c.wrong == 3:
		c.status = "verify_code_blocked"
	}
}

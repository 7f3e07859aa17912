package ilinkd

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

// These are the names of the calls for Fail and Calls.
const (
	GetUpdates  = "getupdates"
	SendMessage = "sendmessage"
	GetConfig   = "getconfig"
	SendTyping  = "sendtyping"
	NotifyStart = "notifystart"
	NotifyStop  = "notifystop"
	GetCode     = "get_bot_qrcode"
	GetStatus   = "get_qrcode_status"
	Download    = "download" // of a file
	GetUpload   = "getuploadurl"
	Upload      = "upload" // of a file
)

// Fault is what a call does instead of its work: the first of its fields that is set.
type Fault struct {
	Times   int           // how many calls fail; 0: all until Heal
	After   time.Duration // the wait before it fails, as at the end of a hold
	Hang    bool          // no answer until Heal
	Reset   bool          // the connection breaks without an answer
	Cut     bool          // the call does its work, and the connection breaks in the middle of the answer
	Drip    bool          // an answer of one byte a second that never ends
	Garbage bool          // an answer that is not JSON
	Body    string        // an answer with this text
	Bytes   int           // an answer of this many bytes
	Endless bool          // an answer that never ends
	Status  int           // an HTTP status, such as the gateway's 524
	Empty   bool          // an empty answer at once, without a hold
	Code    int           // an errcode
}

type fault struct {
	Fault
	left int
}

func (f *fault) next() *Fault {
	if f == nil || f.Times > 0 && f.left == 0 {
		return nil
	}
	f.left--
	return &f.Fault
}

// Fail makes calls of one kind fail, for all bots.
func (w *Server) Fail(call string, f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[call] = &fault{f, f.Times}
}

// Heal ends all faults and releases hanging calls.
func (w *Server) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.faults)
	close(w.healed)
	w.healed = make(chan struct{})
}

func (f *Fault) answer(rw http.ResponseWriter, r *http.Request, healed <-chan struct{}) {
	if f.After > 0 && !wait(r, healed, f.After) {
		return
	}
	switch {
	case f.Hang:
		select {
		case <-healed:
		case <-r.Context().Done():
		}
	case f.Reset:
		panic(http.ErrAbortHandler)
	case f.Drip:
		for wait(r, healed, time.Second) {
			_, _ = rw.Write([]byte(" "))
			if flusher, ok := rw.(http.Flusher); ok {
				flusher.Flush()
			}
		}
	case f.Garbage:
		_, _ = rw.Write([]byte("\x00garbage{<\xff"))
	case f.Body != "":
		_, _ = rw.Write([]byte(f.Body))
	case f.Bytes > 0:
		_, _ = rw.Write([]byte(`{"ret":0,"errmsg":"` + strings.Repeat("x", f.Bytes) + `"}`))
	case f.Endless:
		serving.Endless(rw, r, healed)
	case f.Status != 0:
		rw.WriteHeader(f.Status)
		_, _ = rw.Write([]byte("an error of " + r.URL.String() + " for " + r.Header.Get("Authorization")))
	case f.Empty:
		reply(rw, map[string]any{"ret": 0, "msgs": []any{}})
	default: // a text that repeats the request, as a server might
		reply(rw, map[string]any{"ret": f.Code, "errcode": f.Code, "errmsg": "refused: " + r.Header.Get("Authorization")})
	}
}

// wait reports false if the client is gone, or the fault healed, before d has passed.
func wait(r *http.Request, healed <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-healed:
	case <-r.Context().Done():
	}
	return false
}

func reply(rw http.ResponseWriter, body any) {
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(body)
}

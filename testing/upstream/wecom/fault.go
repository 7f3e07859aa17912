package wecom

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

// The calls, as Fail names them.
const (
	GetToken = "gettoken"
	SyncMsg  = "sync_msg"
	SendMsg  = "send_msg" // and send_msg_on_event
	GetMedia = "media/get"

	UploadMedia = "media/upload"
)

// Fault is what a call does instead of its work: the first of its fields that is set.
type Fault struct {
	Times      int    // for this many calls; 0: until Heal
	Hang       bool   // no answer until Heal
	Reset      bool   // the connection breaks without an answer
	Cut        bool   // of a send or a file: the connection breaks in the middle of the answer
	Endless    bool   // an answer that never ends
	Garbage    bool   // an answer that is no JSON
	Bytes      int    // an answer of this many bytes
	Status     int    // of HTTP
	RetryAfter string // the header's value with Status
	Code       int    // an errcode
}

// fault is a Fault that counts.
type fault struct {
	Fault
	left int // calls that are left of Times
}

func newFault(f Fault) *fault { return &fault{f, f.Times} }

// next returns the fault, unless it was applied often enough.
func (f *fault) next() *Fault {
	if f == nil || f.Times > 0 && f.left == 0 {
		return nil
	}
	f.left--
	return &f.Fault
}

// Fail has a corporation's calls of one kind fail.
func (w *WeCom) Fail(corp, call string, f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corps[corp].faults[call] = newFault(f)
}

// FailAccount has sync_msg of one account fail.
func (w *WeCom) FailAccount(openKfID string, f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accounts[openKfID].fault = newFault(f)
}

// Heal ends all faults and the ban, and releases the calls that hang.
func (w *WeCom) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.corps {
		clear(c.faults)
	}
	for _, a := range w.accounts {
		a.fault = nil
	}
	w.wrong, w.bannedUntil = 0, w.options.Now()
	close(w.healed)
	w.healed = make(chan struct{})
}

// answer applies the fault to a call.
func (f *Fault) answer(rw http.ResponseWriter, r *http.Request, healed <-chan struct{}) {
	switch {
	case f.Hang:
		select {
		case <-healed:
		case <-r.Context().Done():
		}
	case f.Reset:
		panic(http.ErrAbortHandler)
	case f.Garbage:
		_, _ = rw.Write([]byte("\x00garbage{<\xff"))
	case f.Bytes > 0:
		_, _ = rw.Write([]byte(`{"errcode":0,"errmsg":"` + strings.Repeat("x", f.Bytes) + `"}`))
	case f.Endless:
		serving.Endless(rw, r, healed)
	case f.Status != 0:
		if f.RetryAfter != "" {
			rw.Header().Set("Retry-After", f.RetryAfter)
		}
		rw.WriteHeader(f.Status)
		_, _ = rw.Write([]byte("an error of " + r.URL.String()))
	default:
		refuse(rw, r, f.Code)
	}
}

// refuse answers with an errcode. The text repeats the query, as an upstream might: no
// caller may show it.
func refuse(rw http.ResponseWriter, r *http.Request, code int) {
	text := fmt.Sprintf("refused, hint: [1795226313], from ip: 203.0.113.7, more info at https://example.com%s?%s", r.URL.Path, r.URL.RawQuery)
	reply(rw, map[string]any{"errcode": code, "errmsg": text})
}

func reply(rw http.ResponseWriter, body any) {
	rw.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_ = json.NewEncoder(rw).Encode(body)
}

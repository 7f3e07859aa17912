package telegram

import (
	"net/http"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

// Fault is what a call does instead of its work: the first of its fields that is set.
type Fault struct {
	Times      int           // for this many calls; 0: until Heal
	After      time.Duration // before it does that
	Hang       bool          // no answer until Heal
	Reset      bool          // the connection breaks without an answer
	Cut        bool          // of a send or a file: the connection breaks in the middle of the answer
	Endless    bool          // an answer that never ends
	Garbage    bool          // an answer that is no JSON
	Body       string        // an answer with this text
	Bytes      int           // an answer of this many bytes
	Status     int           // of HTTP, without any JSON
	RetryAfter int           // seconds: 429 with parameters.retry_after
	MigrateTo  int64         // 400 with parameters.migrate_to_chat_id, which is not for getUpdates
	Code       int           // ok false with this error_code
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

// Fail has a bot's calls of getUpdates fail.
func (w *Telegram) Fail(token string, f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bots[token].fault = &fault{f, f.Times}
}

// Heal ends all faults and releases the calls that hang.
func (w *Telegram) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bots {
		b.fault, b.sendFault, b.fileFault, b.downloadFault = nil, nil, nil, nil
	}
	close(w.healed)
	w.healed = make(chan struct{})
}

func (f *Fault) answer(rw http.ResponseWriter, r *http.Request, healed <-chan struct{}) {
	if f.After > 0 {
		timer := time.NewTimer(f.After)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-healed:
		case <-r.Context().Done():
			return
		}
	}
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
	case f.Body != "":
		_, _ = rw.Write([]byte(f.Body))
	case f.Bytes > 0:
		_, _ = rw.Write([]byte(`{"ok":true,"result":[],"x":"` + strings.Repeat("x", f.Bytes) + `"}`))
	case f.Endless:
		serving.Endless(rw, r, healed)
	case f.Status != 0:
		rw.WriteHeader(f.Status)
		_, _ = rw.Write([]byte("an error of " + r.URL.String()))
	case f.RetryAfter != 0:
		refuse(rw, 429, "Too Many Requests: retry later", map[string]any{"retry_after": f.RetryAfter})
	case f.MigrateTo != 0:
		refuse(rw, 400, "Bad Request: group chat was upgraded to a supergroup chat", map[string]any{"migrate_to_chat_id": f.MigrateTo})
	default: // a text that repeats what it was sent, as a server might
		refuse(rw, f.Code, "refused: "+r.URL.String(), nil)
	}
}

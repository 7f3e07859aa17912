package graphd

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

// Fault is what a request does instead of its work: the first of its fields that is set.
type Fault struct {
	Step       string // delta, list, value or send; empty: every request
	Times      int    // for this many requests; 0: until Heal
	Takes      bool   // the work is done before that
	Hang       bool   // no answer until Heal
	Reset      bool   // the connection breaks without an answer
	Cut        bool   // the work is done, and the connection breaks in the middle of the answer
	Endless    bool   // an answer that never ends, with Body before its lines of base64
	Body       string // an answer with this text
	Bytes      int    // an answer of this many bytes
	Status     int    // an answer of this status,
	Code       string // with an error of this code; empty: without JSON
	RetryAfter int    // and this many seconds; 0: without the header
}

type fault struct {
	Fault
	left int
}

// Fail has an account's requests fail.
func (g *Graph) Fail(account string, f Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.box(account).fault = &fault{f, f.Times}
}

// Heal ends all faults and releases the requests that hang.
func (g *Graph) Heal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.boxes {
		b.fault = nil
	}
	close(g.healed)
	g.healed = make(chan struct{})
}

// next returns the fault of a step, or nil.
func (f *fault) next(step string) *Fault {
	if f == nil || f.Step != "" && f.Step != step || f.Times > 0 && f.left == 0 {
		return nil
	}
	f.left--
	return &f.Fault
}

// call answers a request of a step for the mailbox of its access token.
func (g *Graph) call(step string, answer func(rw http.ResponseWriter, r *http.Request, b *mailbox)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		var b *mailbox
		for _, one := range g.boxes {
			if r.Header.Get("Authorization") == "Bearer "+one.token() {
				b = one
			}
		}
		if b == nil {
			g.mu.Unlock()
			refuse(rw, r, http.StatusUnauthorized, "InvalidAuthenticationToken")
			return
		}
		b.stats.Requests++
		switch step {
		case "value":
			b.stats.Values++
		case "send":
			b.stats.Sends++
		}
		b.under++
		b.stats.Most = max(b.stats.Most, b.under)
		crowded, f, healed := b.under > mostAtOnce, b.fault.next(step), g.healed
		g.mu.Unlock()
		defer func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			b.under--
		}()
		switch {
		case crowded:
			rw.Header().Set("Retry-After", "1")
			refuse(rw, r, http.StatusTooManyRequests, "ApplicationThrottled")
		case f == nil:
			answer(rw, r, b)
		case f.Cut:
			answer(serving.Cut(rw, func() {}), r, b)
		case f.Takes:
			answer(unheard{http.Header{}}, r, b)
			f.answer(rw, r, healed)
		default:
			f.answer(rw, r, healed)
		}
	}
}

// unheard is a ResponseWriter of an answer that nobody gets.
type unheard struct{ header http.Header }

func (u unheard) Header() http.Header       { return u.header }
func (unheard) WriteHeader(int)             {}
func (unheard) Write(p []byte) (int, error) { return len(p), nil }

func (f *Fault) answer(rw http.ResponseWriter, r *http.Request, healed <-chan struct{}) {
	switch {
	case f.Hang:
		select {
		case <-healed:
		case <-r.Context().Done():
		}
	case f.Reset:
		panic(http.ErrAbortHandler)
	case f.Endless:
		_, _ = rw.Write([]byte(f.Body))
		endless(rw, r, healed)
	case f.Body != "":
		_, _ = rw.Write([]byte(f.Body))
	case f.Bytes > 0:
		_, _ = rw.Write([]byte(`{"value":[],"x":"` + strings.Repeat("x", f.Bytes) + `"}`))
	default:
		if f.RetryAfter > 0 {
			rw.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		if f.Code != "" {
			refuse(rw, r, f.Status, f.Code)
			return
		}
		rw.WriteHeader(f.Status)
		_, _ = rw.Write([]byte("an error of " + r.URL.String() + " with " + r.Header.Get("Authorization")))
	}
}

// endless writes lines of base64 until the client is gone, or until the fault is healed.
func endless(rw http.ResponseWriter, r *http.Request, healed <-chan struct{}) {
	for piece := []byte(strings.Repeat(strings.Repeat("QUJD", 19)+"\r\n", 400)); ; {
		select {
		case <-healed:
			return
		case <-r.Context().Done():
			return
		default:
		}
		if _, err := rw.Write(piece); err != nil {
			return
		}
	}
}

// refuse answers with an error. Its text repeats what was sent, as a server might.
func refuse(rw http.ResponseWriter, r *http.Request, status int, code string) {
	reply(rw, status, map[string]any{"error": map[string]any{
		"code": code, "message": "refused: " + r.URL.String() + " with " + r.Header.Get("Authorization"), "innerError": map[string]any{"request-id": "0"},
	}})
}

func reply(rw http.ResponseWriter, status int, body any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(body)
}

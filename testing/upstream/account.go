package upstream

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

const maxRequest = 1 << 20 // bytes

// account is what an Upstream keeps of one account.
type account struct {
	mu       sync.Mutex
	posted   []int64 // when each message was posted, unix ms
	checks   int
	overlaps int
	running  int
	last     time.Time
	fault    *Fault
	healed   chan struct{} // closed when the faults end; nil without one

	sent      []Sent
	sends     int    // requests to the send_url
	sendFault *Fault // of these

	files     map[int]*File // by the number of their message; nil: forgotten
	fileFault *Fault
}

// message is one message of an account.
type message struct {
	number int
	posted time.Time
}

// check wraps the routes: it counts, and applies the account's fault.
func (u *Upstream) check(serve func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// Only when the body has been read does the server see that a client is gone.
		body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		id := r.PathValue("id")
		a := u.account(id)
		fault, healed := a.begin()
		defer a.end()
		if fault != nil && fault.answer(w, r, healed) {
			return
		}
		serve(w, r, id)
	}
}

func (a *account) begin() (*Fault, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checks++
	a.last = time.Now()
	if a.running > 0 {
		a.overlaps++
	}
	a.running++
	return a.fault.next(), a.healed
}

func (a *account) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
}

// after returns the messages that follow a number, oldest first, and whether there
// are more than most; 0: no limit.
func (a *account) after(number, most int) (found []message, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n := max(number, 0) + 1; n <= len(a.posted); n++ {
		if most > 0 && len(found) == most {
			return found, true
		}
		found = append(found, message{n, time.UnixMilli(a.posted[n-1]).UTC()})
	}
	return found, false
}

// newest returns the newest messages, newest first, and a tag that identifies them.
func (a *account) newest(window int) ([]message, string) {
	a.mu.Lock()
	count := len(a.posted)
	a.mu.Unlock()
	first := 0
	if window > 0 {
		first = max(0, count-window)
	}
	found, _ := a.after(first, 0)
	found = found[:min(len(found), count-first)] // more may have been posted meanwhile
	slices.Reverse(found)
	return found, `"` + strconv.Itoa(count) + `"`
}

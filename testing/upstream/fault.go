package upstream

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
)

// Fault is what an account does wrong. Delay comes first, then Hang. Of the other fields
// the first one set counts; with none the check goes on as usual.
type Fault struct {
	Cut        bool          // of a send or a file: the connection breaks in the middle of the answer
	Endless    bool          // of a file: it never ends
	Times      int           // for this many checks; 0: until Heal
	Delay      time.Duration // answer this much later
	Hang       bool          // answer only after Heal
	Garbage    bool          // answer 200 with neither feed nor JSON
	Bytes      int           // answer 200 with this many spaces
	Body       []byte        // answer 200 with this; see package hostile
	ErrorKind  string        // answer with a connector's error object of this kind
	Status     int           // answer this status; with ErrorKind 0 means 200
	RetryAfter string        // the header's value with Status
}

// Fail sets an account's fault and replaces an earlier one.
func (u *Upstream) Fail(id string, fault Fault) {
	a := u.account(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heal()
	a.fault, a.healed = &fault, make(chan struct{})
}

// Heal ends an account's fault and releases the checks that hang.
func (u *Upstream) Heal(id string) {
	a := u.account(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heal()
}

func (a *account) heal() {
	if a.healed != nil {
		close(a.healed)
	}
	a.fault, a.sendFault, a.fileFault, a.healed = nil, nil, nil, nil
}

// next counts a call down, and returns the fault unless it was applied often enough.
func (f *Fault) next() *Fault {
	if f == nil || f.Times < 0 {
		return nil
	}
	now := *f
	switch f.Times {
	case 0:
	case 1:
		f.Times = -1 // that was the last one
	default:
		f.Times--
	}
	return &now
}

// answer applies the fault to a check. It returns false if the check goes on as usual.
func (f *Fault) answer(w http.ResponseWriter, r *http.Request, healed <-chan struct{}) bool {
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return true
		}
	}
	if f.Hang {
		select {
		case <-healed:
		case <-r.Context().Done():
			return true
		}
	}
	switch {
	case f.Garbage:
		_, _ = w.Write([]byte("\x00garbage{<\xff"))
	case f.Bytes > 0:
		_, _ = w.Write(bytes.Repeat([]byte(" "), f.Bytes))
	case f.Body != nil:
		_, _ = w.Write(f.Body)
	case f.ErrorKind != "":
		f.header(w)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"error": map[string]string{"kind": f.ErrorKind, "code": "injected", "message": "as the test wants it"},
		})
	case f.Status != 0:
		f.header(w)
	default:
		return false
	}
	return true
}

func (f *Fault) header(w http.ResponseWriter) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	if f.Status != 0 {
		w.WriteHeader(f.Status)
	}
}

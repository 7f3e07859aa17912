package upstream

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/testing/upstream/serving"
)

// Sent is a send that an account's connector has taken.
type Sent struct {
	ID, To, Type string
	Data         json.RawMessage
	Attempt      int
	File         string // its bytes; empty: it has none
	Name         string // the file's
}

// Sent returns what an account's connector has taken, in order.
func (u *Upstream) Sent(id string) []Sent {
	a := u.account(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.sent)
}

// FailSends sets what an account's connector does wrong with sends, and ends other faults.
func (u *Upstream) FailSends(id string, fault Fault) {
	a := u.account(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heal()
	a.sendFault, a.healed = &fault, make(chan struct{})
}

// send takes a send, as a connector's send_url does. If Options.Deduplicates, it takes each send_id
// once, and answers a repetition as it answered the first.
func (u *Upstream) send(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil || !u.signed(body, r.Header) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var q struct {
		Version int    `json:"version"`
		SendID  string `json:"send_id"`
		Account struct {
			ID string `json:"id"`
		} `json:"account"`
		To      string          `json:"to"`
		Type    string          `json:"type"`
		Data    json.RawMessage `json:"data"`
		Attempt int             `json:"attempt"`
		File    struct {
			Name string
			Size int
			Data []byte
		} `json:"file"`
	}
	id := r.PathValue("id")
	a := u.account(id)
	a.mu.Lock()
	a.sends++
	fault, healed := a.sendFault.next(), a.healed
	a.mu.Unlock()
	if fault != nil && fault.Cut {
		w = serving.Cut(w, func() {})
	} else if fault != nil && fault.answer(w, r, healed) {
		return
	}
	if json.Unmarshal(body, &q) != nil || q.Version != 1 || q.SendID == "" || q.SendID != r.Header.Get(standardwebhooks.HeaderWebhookID) || q.Account.ID != id || q.To == "" || q.Attempt < 1 || len(q.File.Data) != q.File.Size {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	n := slices.IndexFunc(a.sent, func(s Sent) bool { return s.ID == q.SendID }) + 1
	if n == 0 || !u.options.Deduplicates {
		a.sent = append(a.sent, Sent{q.SendID, q.To, q.Type, q.Data, q.Attempt, string(q.File.Data), q.File.Name})
		n = len(a.sent)
	}
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"id": "sent-" + strconv.Itoa(n)})
}

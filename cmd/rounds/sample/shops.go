package sample

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// refused is the type of messages that Office refuses.
const refused = "order.cancelled"

// found is a message as a connector shows it.
type found struct {
	ID   string    `json:"id"`
	Type string    `json:"type"`
	Time time.Time `json:"time"`
	Data any       `json:"data"`
}

// shop is a connector. It answers slowly, so that each poller always has some accounts.
func (u *Upstream) shop(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, "/")
	var request struct {
		Cursor string `json:"cursor"`
		Limit  int    `json:"limit"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-r.Context().Done():
		return
	case <-time.After(u.slowest * time.Duration(50+choice(id, 51)) / 100):
	}
	read, _ := strconv.Atoi(request.Cursor) // none at first: from the beginning
	messages := []found{}
	for n := read + 1; n <= u.posted(id) && len(messages) < max(1, request.Limit); n++ {
		messages = append(messages, u.happened(id, n))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"messages": messages, "next_cursor": strconv.Itoa(read + len(messages)), "has_more": false})
}

// happened returns the n-th message of a shop.
func (u *Upstream) happened(id string, n int) found {
	m := found{ID: fmt.Sprintf("%s/%d", id, n), Time: u.postedAt(id, n)}
	order := 1000 + choice(m.ID, 9000)
	switch sort := choice(m.ID, 12); {
	case sort == 0:
		m.Type, m.Data = refused, map[string]any{"order": order, "reason": "the customer changed their mind"}
	case sort <= 4:
		m.Type, m.Data = "order.created", map[string]any{"order": order, "items": []map[string]any{{"name": "tea", "count": 1 + sort}}, "currency": "EUR"}
	case sort <= 7:
		m.Type, m.Data = "order.paid", map[string]any{"order": order, "amount": float64(order) / 100, "currency": "EUR"}
	default:
		m.Type, m.Data = "chat.text", map[string]string{"text": fmt.Sprintf("Hello %d from %s", n, id)}
	}
	return m
}

// receive accepts messages that webhooks deliver, except messages of the type refused.
func receive(w http.ResponseWriter, r *http.Request) {
	var message struct {
		Data struct {
			Type string `json:"type"`
		} `json:"data"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&message)
	if err != nil || message.Data.Type == refused {
		http.Error(w, "no such order", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

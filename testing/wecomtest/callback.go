package wecomtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Callback has WeCom announce to the program that an account has messages to fetch.
func (w *World) Callback(ctx context.Context, corp, openKfID string) error {
	query, body, err := w.Fake.Callback(w.crypts[corp], openKfID)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.api+"/v1/callbacks/wecom/"+corp+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "text/xml")
	answer, err := w.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("callback of %s: %s: %s", openKfID, answer.Status, text)
	}
	return nil
}

// Nudge asks for a check of an account now.
func (w *World) Nudge(ctx context.Context, id string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.api+"/v1/accounts/"+id+"/nudge", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := w.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		return fmt.Errorf("nudge of %s: %s", id, answer.Status)
	}
	return nil
}

// Send asks for a text from an account to somebody, which leaves as soon as the third party allows it,
// and returns the send's id.
func (w *World) Send(ctx context.Context, account, key, to, text string) (id string, err error) {
	body, err := json.Marshal(map[string]any{"to": to, "when": "open", "data": map[string]string{"text": text}})
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.api+"/v1/accounts/"+account+"/sends", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	answer, err := w.client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		return "", fmt.Errorf("send of %s: %s", account, answer.Status)
	}
	var send struct {
		ID string `json:"id"`
	}
	err = json.NewDecoder(answer.Body).Decode(&send)
	return send.ID, err
}

// StoreSecret stores a secret that accounts of the kind imap may use at some hosts.
func (w *World) StoreSecret(ctx context.Context, name, value string, hosts ...string) error {
	body, err := json.Marshal(map[string]any{"value": value, "hosts": hosts, "kinds": []string{"imap"}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, w.api+"/v1/secrets/"+name, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := w.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) // for the error only
		return fmt.Errorf("secret %s: %s: %s", name, answer.Status, said)
	}
	return nil
}

// SendState returns what became of a send, such as "accepted".
func (w *World) SendState(ctx context.Context, id string) (string, error) {
	var send struct {
		State string `json:"state"`
	}
	err := w.get(ctx, "/v1/sends/"+id, &send)
	return send.State, err
}

// Parked returns the reasons of the parked accounts.
func (w *World) Parked(ctx context.Context) (map[string]string, error) {
	parked := make(map[string]string)
	for cursor := ""; ; {
		var page struct {
			Parked []struct {
				ID     string `json:"id"`
				Reason string `json:"reason"`
			} `json:"parked"`
			Next string `json:"next"`
		}
		if err := w.get(ctx, "/v1/parked?limit=1000&cursor="+cursor, &page); err != nil {
			return nil, err
		}
		for _, p := range page.Parked {
			parked[p.ID] = p.Reason
		}
		if cursor = page.Next; cursor == "" {
			return parked, nil
		}
	}
}

func (w *World) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.api+path, nil)
	if err != nil {
		return err
	}
	answer, err := w.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// watched reports each sync_msg before it is answered.
func watched(next http.Handler, onSync func(openKfID, token string)) http.Handler {
	if onSync == nil {
		return next
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
			if err != nil {
				return
			}
			var call struct {
				OpenKfID string `json:"open_kfid"`
				Token    string `json:"token"`
			}
			if json.Unmarshal(body, &call) == nil {
				onSync(call.OpenKfID, call.Token)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(rw, r)
	})
}

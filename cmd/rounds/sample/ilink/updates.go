package ilink

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const maxRequest = 1 << 20 // bytes

// codeStale is the errcode for a void token, or for a client that has not announced itself.
const codeStale = -14

type request struct {
	Buf      string `json:"get_updates_buf"`
	BaseInfo struct {
		ChannelVersion string `json:"channel_version"`
		BotAgent       string `json:"bot_agent"`
	} `json:"base_info"`
	LocalTokens []string `json:"local_token_list"`
}

// read reads a POST. The headers must be those that the official client sends.
func read(r *http.Request) (q request, token string, fault string) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil || json.Unmarshal(body, &q) != nil {
		return q, "", "the body is not JSON"
	}
	uin, err := base64.StdEncoding.DecodeString(r.Header.Get("X-WECHAT-UIN"))
	if err == nil {
		_, err = strconv.ParseUint(string(uin), 10, 32)
	}
	version, versionErr := strconv.ParseUint(r.Header.Get("iLink-App-ClientVersion"), 10, 32)
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case r.Header.Get("AuthorizationType") != "ilink_bot_token":
		return q, "", "AuthorizationType"
	case err != nil:
		return q, "", "X-WECHAT-UIN"
	case versionErr != nil || version >= 1<<24:
		return q, "", "iLink-App-ClientVersion"
	case r.Header.Get("Content-Type") != "application/json":
		return q, "", "Content-Type"
	case !bearer && r.Header.Get("Authorization") != "":
		return q, "", "Authorization"
	}
	return q, token, ""
}

// getUpdates holds a call until there is a message, or until the hold has passed.
func (w *Ilink) getUpdates(rw http.ResponseWriter, r *http.Request) {
	q, token, fault := read(r)
	if fault != "" {
		http.Error(rw, fault, http.StatusBadRequest)
		return
	}
	ends := time.NewTimer(max(w.options.Hold, 0))
	defer ends.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.bots[token]
	if first != nil {
		if after := w.options.IdleAfter; after > 0 && w.options.Now().Sub(first.called) > after {
			first.idle = true
		}
		first.stats.Polls++
		first.stats.Buf, first.stats.Agent, first.stats.Version = q.Buf, q.BaseInfo.BotAgent, r.Header.Get("iLink-App-ClientVersion")
		first.holding++
		first.stats.AtOnce = max(first.stats.AtOnce, first.holding)
		defer func() { first.holding--; first.called = w.options.Now() }()
	}
	for over := w.options.Hold < 0; ; {
		b := w.bots[token] // somebody else may have bound it meanwhile
		if b == nil || b.idle {
			w.answer(rw, r, map[string]any{"ret": codeStale, "errcode": codeStale, "errmsg": "session timeout of " + token})
			return
		}
		if q.Buf == "" && w.options.Replay > 0 {
			b.given = max(0, b.given-w.options.Replay)
			q.Buf = bufOf(b, b.given)
		}
		if b.given < len(b.posted) {
			w.give(rw, r, b)
			return
		}
		if over {
			w.answer(rw, r, w.told(map[string]any{"ret": 0, "msgs": []any{}, "get_updates_buf": ""}))
			return
		}
		ended, gone := w.await(r, b.news, ends.C)
		if gone {
			return
		}
		over = over || ended
	}
}

// give hands out the next messages. They count as given whether the answer arrives or not.
func (w *Ilink) give(rw http.ResponseWriter, r *http.Request, b *bot) {
	end := min(len(b.posted), b.given+w.options.Page)
	page := b.posted[b.given:end]
	for b.given < end {
		b.given++
		b.givenAt = append(b.givenAt, w.options.Now())
	}
	w.answer(rw, r, w.told(map[string]any{"ret": 0, "msgs": page, "get_updates_buf": bufOf(b, end)}))
}

func bufOf(b *bot, position int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s/%d", b.id, position))
}

// told adds how long the next call will be held.
func (w *Ilink) told(answer map[string]any) map[string]any {
	if w.options.NextHold > 0 {
		answer["longpolling_timeout_ms"] = w.options.NextHold.Milliseconds()
	}
	return answer
}

// answer writes an answer after the latency, perhaps slowly. The caller holds the lock, which is
// released meanwhile.
func (w *Ilink) answer(rw http.ResponseWriter, r *http.Request, body map[string]any) {
	w.mu.Unlock()
	defer w.mu.Lock()
	if w.options.Latency > 0 && !wait(r, w.options.Latency) {
		return
	}
	if flusher, ok := rw.(http.Flusher); ok && w.options.Slow > 0 {
		flusher.Flush()
		if !wait(r, w.options.Slow) {
			return
		}
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(body)
}

// notify answers notifystart and notifystop.
func (w *Ilink) notify(stop bool) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		_, token, fault := read(r)
		if fault != "" {
			http.Error(rw, fault, http.StatusBadRequest)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		b := w.bots[token]
		switch {
		case b == nil: // a guess: the official client does not read the answer
			w.answer(rw, r, map[string]any{"ret": codeStale, "errmsg": "session timeout of " + token})
			return
		case stop:
			b.stats.Stops++
		default:
			b.stats.Starts++
			b.idle, b.called = false, w.options.Now()
		}
		w.answer(rw, r, map[string]any{"ret": 0})
	}
}

// await holds a call, without the lock, until there is news or the hold ends. It reports
// whether the hold is over, and whether the caller has gone.
func (w *Ilink) await(r *http.Request, news <-chan struct{}, ends <-chan time.Time) (over, gone bool) {
	w.mu.Unlock()
	select {
	case <-news:
	case <-ends:
		over = true
	case <-r.Context().Done():
	}
	w.mu.Lock()
	return over, r.Context().Err() != nil
}

// wait reports false if the client is gone before d has passed.
func wait(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

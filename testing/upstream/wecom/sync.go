package wecom

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const maxRequest = 1 << 20 // bytes

type request struct {
	Cursor      string `json:"cursor"`
	Token       string `json:"token"`
	Limit       int    `json:"limit"`
	VoiceFormat int    `json:"voice_format"`
	OpenKfID    string `json:"open_kfid"`
}

// syncMsg answers with a page, after the latency.
func (w *WeCom) syncMsg(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return
	}
	c, code := w.enter(r.URL.Query().Get("access_token"))
	if code != 0 {
		refuse(rw, r, code)
		return
	}
	defer w.leave(c)
	if w.options.Latency > 0 {
		timer := time.NewTimer(w.options.Latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	var q request
	if json.Unmarshal(body, &q) != nil {
		refuse(rw, r, 40058)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.faultOf(c, q.OpenKfID); f != nil {
		c.stats.Refused++
		healed := w.healed
		w.mu.Unlock()
		defer w.mu.Lock()
		f.answer(rw, r, healed)
		return
	}
	page, code := w.page(c, q)
	if code != 0 {
		c.stats.Refused++
		refuse(rw, r, code)
		return
	}
	reply(rw, page)
}

// enter counts a call that a token allows, unless there are too many.
func (w *WeCom) enter(value string) (*corp, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.options.Now()
	c, code := w.holder(value, now)
	if code != 0 {
		return nil, code
	}
	c.stats.SyncMsg++
	if now.Before(w.bannedUntil) {
		c.stats.Refused++
		return nil, 60020
	}
	if w.options.Concurrency > 0 && c.inside >= w.options.Concurrency {
		c.stats.Refused++
		return nil, 45033
	}
	most := w.options.CallsPerMinute
	if c.most > 0 {
		most = c.most
	}
	if !within(&c.calls, now, most) {
		c.stats.Refused++
		return nil, 45009
	}
	c.stats.MostInMinute = max(c.stats.MostInMinute, len(c.calls))
	c.inside++
	c.stats.AtOnce = max(c.stats.AtOnce, c.inside)
	return c, 0
}

func (w *WeCom) leave(c *corp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.inside--
}

// within notes a call, and reports whether there were at most so many in a minute.
func within(calls *[]time.Time, now time.Time, most int) bool {
	if most < 0 {
		return true
	}
	*calls = slices.DeleteFunc(*calls, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	if len(*calls) >= most {
		return false
	}
	*calls = append(*calls, now)
	return true
}

func (w *WeCom) faultOf(c *corp, openKfID string) *Fault {
	if f := c.faults[SyncMsg].next(); f != nil {
		return f
	}
	if a := w.accounts[openKfID]; a != nil {
		return a.fault.next()
	}
	return nil
}

// page returns what follows a cursor, or an errcode.
func (w *WeCom) page(c *corp, q request) (map[string]any, int) {
	now := w.options.Now()
	a := w.accounts[q.OpenKfID]
	if a == nil || a.corp != c.id {
		return nil, 95000
	}
	from, known := a.position(q.Cursor)
	if !known || q.Limit < 0 || q.Limit > 1000 || q.VoiceFormat < 0 || q.VoiceFormat > 1 {
		return nil, 40058
	}
	if q.Token != "" {
		if until, ok := a.tokens[q.Token]; !ok || !now.Before(until) {
			return nil, 95007
		}
	} else {
		c.stats.WithoutToken++
		if !within(&a.calls, now, w.options.CallsWithoutToken) {
			return nil, 45009
		}
	}
	if q.Limit == 0 {
		q.Limit = 1000
	}
	for from < len(a.posted) && now.Sub(a.posted[from].at) > w.options.Window {
		from++
	}
	end := min(from+q.Limit, len(a.posted))
	if a.blank = w.options.EmptyPages && from > 0 && end > from && !a.blank; a.blank {
		end = from
	}
	list := make([]json.RawMessage, 0, end-from)
	for _, p := range a.posted[from:end] {
		list = append(list, p.raw)
	}
	more := 0
	if end < len(a.posted) {
		more = 1
	}
	return map[string]any{"errcode": 0, "errmsg": "ok", "next_cursor": a.cursor(end), "has_more": more, "msg_list": list}, 0
}

// cursor returns a cursor that names its account, so that another account's cursor is
// refused.
func (a *account) cursor(position int) string { return "cur-" + a.id + "-" + strconv.Itoa(position) }

func (a *account) position(cursor string) (int, bool) {
	if cursor == "" {
		return 0, true
	}
	text, ok := strings.CutPrefix(cursor, "cur-"+a.id+"-")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil && n >= 0 && n <= len(a.posted)
}

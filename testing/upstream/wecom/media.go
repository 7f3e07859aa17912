package wecom

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// mediaLife is how long media are kept.
const mediaLife = 72 * time.Hour

// medium is a file that a customer has sent, or that was uploaded.
type medium struct {
	corp, name string
	kind       string // type of an upload
	data       []byte
	at         time.Time
}

// SendFile has an account's customer send a file as an image, voice, video or file. It returns the
// message's JSON. The name is what media/get says of it.
func (w *WeCom) SendFile(openKfID, msgType, name string, data []byte) json.RawMessage {
	id := rand.Text() + rand.Text()
	n := w.post(openKfID, func(n int, element map[string]any) {
		w.media[id] = &medium{w.accounts[openKfID].corp, name, "", data, w.options.Now()}
		element["msgid"], element["msgtype"] = MessageID(openKfID, n), msgType
		element["origin"], element["external_userid"] = 3, "wm-customer"
		element[msgType] = map[string]any{"n": n, "media_id": id}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accounts[openKfID].posted[n-1].raw
}

// getMedia gives a file, or an error as JSON in its place.
func (w *WeCom) getMedia(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	now := w.options.Now()
	c, code := w.holder(r.URL.Query().Get("access_token"), now)
	m := w.media[r.URL.Query().Get("media_id")]
	var f *Fault
	healed := w.healed
	switch {
	case code != 0:
	case now.Before(w.bannedUntil):
		code = 60020
	default:
		c.stats.GetMedia++
		f = c.faults[GetMedia].next()
		if m == nil || m.corp != c.id || now.Sub(m.at) >= mediaLife {
			code = 40007
		}
	}
	w.mu.Unlock()
	switch {
	case f != nil && f.Cut && m != nil:
		rw.Header().Set("Content-Length", strconv.Itoa(len(m.data)))
		_, _ = rw.Write(m.data[:len(m.data)/2])
		panic(http.ErrAbortHandler)
	case f != nil:
		f.answer(rw, r, healed)
		return
	case code != 0:
		refuse(rw, r, code)
		return
	}
	rw.Header().Set("Content-Type", "application/octet-stream")
	if m.name != "" {
		rw.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": m.name}))
	}
	rw.Header().Set("Content-Length", fmt.Sprint(len(m.data)))
	_, _ = rw.Write(m.data)
}

// upload takes a file as media/upload does, in the field media of a form.
func (w *WeCom) upload(rw http.ResponseWriter, r *http.Request) {
	file, header, err := r.FormFile("media")
	var data []byte
	if err == nil {
		data, err = io.ReadAll(file)
	}
	w.mu.Lock()
	c, code := w.holder(r.URL.Query().Get("access_token"), w.options.Now())
	var f *Fault
	healed, kind := w.healed, r.URL.Query().Get("type")
	switch {
	case code != 0:
	case err != nil || len(data) <= 5 || !slices.Contains([]string{"image", "voice", "video", "file"}, kind):
		code = 40004
	default:
		c.stats.Uploads++
		f = c.faults[UploadMedia].next()
	}
	id := rand.Text()
	if code == 0 && f == nil {
		w.media[id] = &medium{c.id, header.Filename, kind, data, w.options.Now()}
	}
	w.mu.Unlock()
	switch {
	case f != nil:
		f.answer(rw, r, healed)
	case code != 0:
		refuse(rw, r, code)
	default:
		reply(rw, map[string]any{"errcode": 0, "errmsg": "ok", "type": kind, "media_id": id, "created_at": strconv.FormatInt(w.options.Now().Unix(), 10)})
	}
}

// ForgetMedia makes WeCom forget a file.
func (w *WeCom) ForgetMedia(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.media, id)
}

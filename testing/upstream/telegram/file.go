package telegram

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	linkLife  = time.Hour // of what getFile names
	mostBytes = 20 << 20  // of a file that getFile names
)

// file is a file that somebody has sent to a bot.
type file struct {
	id, name string
	data     []byte
	named    time.Time // when getFile named it last
}

// SendFile sends a file to a bot as a photo, document, voice, video, video_note, audio, sticker or
// animation, and returns the update's JSON. A photo comes in three sizes, of which the largest is the
// file.
func (w *Telegram) SendFile(token, kind, name string, data []byte) json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.bots[token]
	f := &file{id: "file-" + rand.Text(), name: name, data: data}
	if b.files == nil {
		b.files = make(map[string]*file)
	}
	b.files[f.id] = f
	object := map[string]any{"file_id": f.id, "file_unique_id": "u" + f.id, "file_size": len(data), "file_name": name, "mime_type": "application/pdf"}
	content := map[string]any{kind: object}
	switch kind {
	case "photo":
		size := func(id string, side int) map[string]any {
			return map[string]any{"file_id": id, "file_unique_id": "u" + id, "width": side, "height": side}
		}
		content[kind] = []any{size("small", 90), size(f.id, 1280), size("medium", 320)}
	case "animation":
		content["document"] = object // as in the real API
	case "sticker":
		object["is_video"] = true
		fallthrough
	case "voice", "video_note":
		delete(object, "file_name")
		delete(object, "mime_type")
	}
	w.postContent(b, "message", content)
	return b.latest.raw
}

// ForgetFiles makes a bot's files unknown.
func (w *Telegram) ForgetFiles(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.bots[token].files)
}

// FailFiles has a bot's files fail: the call of getFile, or the download. Heal ends that too.
func (w *Telegram) FailFiles(token string, download bool, f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if download {
		w.bots[token].downloadFault = &fault{f, f.Times}
	} else {
		w.bots[token].fileFault = &fault{f, f.Times}
	}
}

// getFile names a file's path. With Options.Local it is one of the server's own folders.
func (w *Telegram) getFile(rw http.ResponseWriter, r *http.Request) {
	var q struct {
		ID string `json:"file_id"`
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.find(rw, r)
	if b == nil {
		return
	}
	if f := b.fileFault.next(); f != nil {
		healed := w.healed
		w.mu.Unlock()
		defer w.mu.Lock()
		f.answer(rw, r, healed)
		return
	}
	if json.NewDecoder(http.MaxBytesReader(rw, r.Body, maxRequest)).Decode(&q) != nil {
		refuse(rw, 400, "Bad Request: can't parse", nil)
		return
	}
	f := b.files[q.ID]
	switch {
	case f == nil:
		refuse(rw, 400, "Bad Request: invalid file_id", nil)
		return
	case len(f.data) > mostBytes && !w.options.Local:
		refuse(rw, 400, "Bad Request: file is too big", nil)
		return
	}
	f.named = w.options.Now()
	path := "documents/" + f.id
	if w.options.Local {
		path = "/var/lib/telegram-bot-api/" + strings.TrimPrefix(r.PathValue("bot"), "bot") + "/" + path
	}
	reply(rw, 200, map[string]any{"ok": true, "result": map[string]any{
		"file_id": f.id, "file_unique_id": "u" + f.id, "file_size": len(f.data), "file_path": path,
	}})
}

// download gives a file, for an hour after getFile has named it.
func (w *Telegram) download(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	b := w.bots[strings.TrimPrefix(r.PathValue("bot"), "bot")]
	var f *file
	var failing *Fault
	healed := w.healed
	if b != nil {
		f, failing = b.files[r.PathValue("file")], b.downloadFault.next()
	}
	known := f != nil && w.options.Now().Sub(f.named) <= linkLife
	w.mu.Unlock()
	switch {
	case failing != nil && failing.Cut:
		rw.Header().Set("Content-Length", strconv.Itoa(len(f.data)))
		_, _ = rw.Write(f.data[:len(f.data)/2])
		panic(http.ErrAbortHandler)
	case failing != nil:
		failing.answer(rw, r, healed)
		return
	case !known:
		refuse(rw, 404, fmt.Sprint("Not Found: ", r.URL), nil)
		return
	}
	rw.Header().Set("Content-Type", "application/octet-stream")
	rw.Header().Set("Content-Length", strconv.Itoa(len(f.data)))
	_, _ = rw.Write(f.data)
}

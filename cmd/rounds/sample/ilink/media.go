package ilink

import (
	"bytes"
	"crypto/aes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Spelling is how a message spells the key of its file.
type Spelling string

// The spellings.
const (
	SpelledHex       Spelling = "hex"        // aeskey of an image
	SpelledBase64    Spelling = "base64"     // aes_key, of 16 bytes
	SpelledBase64Hex Spelling = "base64 hex" // aes_key, of 32 hex digits
	Unencrypted      Spelling = "none"       // there is no key, as of some images
)

// File is a file that a person sends.
type File struct {
	Name  string // of a file; other types have none
	Data  []byte
	Spell Spelling // empty: as the official client expects it for the type
	CDN   string   // where download is called, which the message names in full_url; empty: it does not
}

// medium is a file in the CDN.
type medium struct {
	key  []byte // nil: it is not encrypted
	data []byte
	at   time.Time
}

// SendFile sends a file to a bot as a message of a type, image, voice, file or video, and returns its
// number. It returns 0 if no bot has the token.
func (w *Ilink) SendFile(token, kind string, f File) int {
	if f.Spell == "" {
		f.Spell = SpelledBase64Hex
		if kind == "image" {
			f.Spell = SpelledHex
		}
	}
	param, key := "m-"+rand.Text(), make([]byte, 16)
	_, _ = rand.Read(key) // it never fails
	if f.Spell == Unencrypted {
		key = nil
	}
	w.mu.Lock()
	w.media[param] = &medium{key, f.Data, w.options.Now()}
	w.mu.Unlock()
	return w.postItem(token, func(n int, now int64) string { return fileItem(kind, n, now, f, param, key) })
}

// fileItem returns an item with a file.
func fileItem(kind string, n int, now int64, f File, param string, key []byte) string {
	media := map[string]any{"encrypt_query_param": param, "encrypt_type": 1}
	if f.CDN != "" {
		media["full_url"] = f.CDN + "/download?encrypted_query_param=" + param
	}
	within := map[string]any{"media": media}
	switch f.Spell {
	case SpelledHex:
		within["aeskey"] = hex.EncodeToString(key)
	case SpelledBase64:
		media["aes_key"] = base64.StdEncoding.EncodeToString(key)
	case SpelledBase64Hex:
		media["aes_key"] = base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString(key)))
	}
	number := map[string]int{"image": 2, "voice": 3, "file": 4, "video": 5}[kind]
	switch kind {
	case "image":
		within["mid_size"] = paddedSize(len(f.Data))
	case "voice":
		within["encode_type"], within["playtime"] = 6, 2300
	case "file":
		within["file_name"], within["len"] = f.Name, strconv.Itoa(len(f.Data))
	case "video":
		within["video_size"] = paddedSize(len(f.Data))
	}
	text, err := json.Marshal(map[string]any{
		"type": number, "create_time_ms": now, "is_completed": true, "msg_id": json.RawMessage(MessageID("", n)), kind + "_item": within,
	})
	if err != nil {
		panic(err) // maps and texts can always be marshalled
	}
	return string(text)
}

// paddedSize returns how long a file is when it is encrypted.
func paddedSize(size int) int { return (size/aes.BlockSize + 1) * aes.BlockSize }

// download gives a file, encrypted. It forgets files after Options.MediaLife: that it answers 404
// then is a guess.
func (w *Ilink) download(rw http.ResponseWriter, r *http.Request) {
	param := r.URL.Query().Get("encrypted_query_param")
	w.mu.Lock()
	m := w.media[param]
	if life := w.options.MediaLife; m != nil && life > 0 && w.options.Now().Sub(m.at) > life {
		delete(w.media, param)
		m = nil
	}
	w.mu.Unlock()
	if m == nil {
		rw.Header().Set("X-Error-Message", "no such file: "+param)
		http.Error(rw, "no such file: "+r.URL.String(), http.StatusNotFound)
		return
	}
	rw.Header().Set("Content-Type", "application/octet-stream")
	if m.key == nil {
		rw.Header().Set("Content-Length", strconv.Itoa(len(m.data)))
		_, _ = rw.Write(m.data)
		return
	}
	rw.Header().Set("Content-Length", strconv.Itoa(paddedSize(len(m.data))))
	encrypt(m.key, m.data, func(blocks []byte) bool { _, err := rw.Write(blocks); return err == nil })
}

// encrypt encrypts data with AES-128-ECB and the padding of PKCS #7, and gives it away in pieces.
func encrypt(key, data []byte, give func(blocks []byte) bool) {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(fmt.Sprint("ilink: ", err)) // the keys have 16 bytes
	}
	whole := len(data) / aes.BlockSize * aes.BlockSize
	padding := aes.BlockSize - len(data)%aes.BlockSize
	last := append(bytes.Clone(data[whole:]), bytes.Repeat([]byte{byte(padding)}, padding)...)
	piece := make([]byte, 0, 32<<10)
	for at := 0; at <= whole; at += aes.BlockSize {
		from := last
		if at < whole {
			from = data[at : at+aes.BlockSize]
		}
		end := len(piece) + aes.BlockSize
		piece = piece[:end]
		block.Encrypt(piece[end-aes.BlockSize:], from)
		if (end == cap(piece) || at == whole) && !give(piece) {
			return
		}
		if end == cap(piece) {
			piece = piece[:0]
		}
	}
}

// Message returns a bot's message by its number.
func (w *Ilink) Message(token string, n int) json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bots[token].posted[n-1]
}

// ForgetFile makes the CDN forget the files of a message.
func (w *Ilink) ForgetFile(token string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	raw := string(w.bots[token].posted[n-1])
	for param := range w.media {
		if strings.Contains(raw, param) {
			delete(w.media, param)
		}
	}
}

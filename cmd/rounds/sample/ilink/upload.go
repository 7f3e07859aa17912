package ilink

import (
	"bytes"
	"crypto/aes"
	"crypto/md5" //nolint:gosec // the real server asks for it
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
)

// maxUpload is the most bytes of an upload.
const maxUpload = 200 << 20

// upload is a file that a bot may upload.
type upload struct {
	to, name, sum string
	media         int // media_type
	raw, sealed   int // sizes
	key           []byte
}

// getUploadURL says where a bot may upload a file for a person. In upload_full_url it has the address;
// what the real server says in upload_param is not known.
func (w *Ilink) getUploadURL(rw http.ResponseWriter, r *http.Request) {
	var q struct {
		Name   string `json:"filekey"`
		Media  int    `json:"media_type"`
		To     string `json:"to_user_id"`
		Raw    int    `json:"rawsize"`
		Sum    string `json:"rawfilemd5"`
		Sealed int    `json:"filesize"`
		Key    string `json:"aeskey"`
	}
	token, fault := readInto(r, &q)
	key, err := hex.DecodeString(q.Key)
	switch {
	case fault != "":
	case len(q.Name) != 32 || q.To == "" || q.Media < 1 || q.Media > 4:
		fault = "filekey, to_user_id or media_type"
	case err != nil || len(key) != aes.BlockSize:
		fault = "aeskey"
	case q.Raw <= 0 || q.Sealed != paddedSize(q.Raw) || len(q.Sum) != 32:
		fault = "rawsize, filesize or rawfilemd5"
	}
	if fault != "" {
		http.Error(rw, fault, http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.bots[token]; b == nil || b.idle {
		w.answer(rw, r, map[string]any{"ret": codeStale, "errcode": codeStale, "errmsg": "session timeout of " + token})
		return
	}
	param := "u-" + rand.Text()
	w.uploads[param] = &upload{q.To, q.Name, q.Sum, q.Media, q.Raw, q.Sealed, key}
	answer := map[string]any{"ret": 0, "upload_param": param}
	if w.options.Full {
		answer = map[string]any{"ret": 0, "upload_full_url": "http://" + r.Host + "/c2c/upload?encrypted_query_param=" + param + "&filekey=" + q.Name}
	}
	w.answer(rw, r, answer)
}

// putUpload takes an encrypted file, and names it in a header of its answer.
func (w *Ilink) putUpload(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxUpload))
	w.mu.Lock()
	defer w.mu.Unlock()
	param := r.URL.Query().Get("encrypted_query_param")
	u := w.uploads[param]
	var data []byte
	fault := ""
	switch {
	case err != nil:
		fault = "the body broke off"
	case u == nil || r.URL.Query().Get("filekey") != u.name:
		fault = "no such upload: " + param
	case len(body) != u.sealed:
		fault = "not as long as filesize says"
	default:
		if data = decrypt(u.key, body); len(data) != u.raw || hex.EncodeToString(sumOf(data)) != u.sum {
			fault = "not the file that rawsize and rawfilemd5 name"
		}
	}
	if fault != "" {
		rw.Header().Set("X-Error-Message", fault)
		http.Error(rw, fault, http.StatusBadRequest)
		return
	}
	delete(w.uploads, param)
	named := "s-" + rand.Text()
	w.media[named] = &medium{u.key, data, w.options.Now()}
	rw.Header().Set("X-Encrypted-Param", named)
}

func sumOf(data []byte) []byte {
	sum := md5.Sum(data) //nolint:gosec // see the import
	return sum[:]
}

// decrypt decrypts AES-128-ECB with the padding of PKCS #7, or returns nil.
func decrypt(key, data []byte) []byte {
	block, err := aes.NewCipher(key)
	if err != nil || len(data) == 0 || len(data)%aes.BlockSize != 0 {
		return nil
	}
	plain := bytes.Clone(data)
	for at := 0; at < len(plain); at += aes.BlockSize {
		block.Decrypt(plain[at:], plain[at:])
	}
	padding := int(plain[len(plain)-1])
	if padding < 1 || padding > aes.BlockSize || !bytes.HasSuffix(plain, bytes.Repeat([]byte{byte(padding)}, padding)) {
		return nil
	}
	return plain[:len(plain)-padding]
}

// sentMedia is how an item of sendmessage names a file.
type sentMedia struct {
	Media struct {
		Param string `json:"encrypt_query_param"`
		Key   string `json:"aes_key"`
		Type  int    `json:"encrypt_type"`
	} `json:"media"`
	Name string `json:"file_name"`
}

// fileIn returns the bytes of a file that an item names. It returns false if they are not there, or
// cannot be decrypted with the key that the item has.
func (w *Ilink) fileIn(s *sentMedia) ([]byte, bool) {
	m := w.media[s.Media.Param]
	text, err := base64.StdEncoding.DecodeString(s.Media.Key)
	if m == nil || err != nil || s.Media.Type != 1 || !strings.EqualFold(string(text), hex.EncodeToString(m.key)) {
		return nil, false
	}
	return m.data, true
}

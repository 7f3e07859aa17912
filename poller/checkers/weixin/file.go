package weixin

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// defaultCDN is where WeChat's media are, unless a message has their whole address.
const defaultCDN = "https://novac2c.cdn.weixin.qq.com/c2c"

const (
	cdnName      = "WeChat's CDN"
	cdnRedirects = 3
	maxAddress   = 8 << 10 // bytes of a medium's address, or of the parameter that becomes one
)

var _ poller.FileKeeper = (*Checker)(nil)

// medium is a file of an item, as the message tells it.
type medium struct {
	file    poller.File
	fullURL string
	param   string   // encrypt_query_param
	keys    []string // in the order in which they count; none: the file is not encrypted
}

// media is the field of an item that names a file.
type media struct {
	FullURL string `json:"full_url"`
	Param   string `json:"encrypt_query_param"`
	Key     string `json:"aes_key"`
}

// Files returns the images, voices, files and videos of a message, in the order of its items.
func (*Checker) Files(m *poller.Message) []poller.File {
	return message.FilesOf(mediaOf(m), func(m *medium) poller.File { return m.file })
}

// Forgets is true: the CDN forgets media after a time that WeChat does not tell.
func (*Checker) Forgets() bool { return true }

// mediaOf returns the media of a message. Items that cannot be read have none.
func mediaOf(m *poller.Message) (all []medium) {
	var items []json.RawMessage
	if json.Unmarshal(message.Fields(m)["item_list"], &items) != nil {
		return nil
	}
	for _, raw := range items {
		if m, ok := mediumOf(raw); ok {
			all = append(all, m)
		}
		if len(all) == poller.MaxFiles {
			break
		}
	}
	return all
}

// mediumOf reads an item. ok is false if it names no file.
func mediumOf(raw json.RawMessage) (m medium, ok bool) {
	item, _ := strict.Members(raw)
	n, _ := number(item["type"])
	name := itemTypes[n]
	within, _ := strict.Members(item[name+"_item"])
	var at media
	if within["media"] == nil || json.Unmarshal(within["media"], &at) != nil || at.FullURL == "" && at.Param == "" {
		return m, false
	}
	m.fullURL, m.param = at.FullURL, at.Param
	switch name {
	case "image":
		if key, _ := textOf(within["aeskey"]); key != "" {
			m.keys = append(m.keys, key)
		}
	case "voice":
		m.file.Type = voiceType(within["encode_type"])
	case "file":
		m.file.Name, _ = textOf(within["file_name"])
		m.file.Size, _ = number(within["len"]) // of the file itself, unlike the sizes of images and videos
	case "video":
		m.file.Type = "video/mp4"
	default:
		return m, false
	}
	if at.Key != "" {
		m.keys = append(m.keys, at.Key)
	}
	m.file = poller.CleanFile(m.file)
	return m, true
}

// voiceType returns the media type for an encode_type that has one.
func voiceType(raw json.RawMessage) string {
	switch n, _ := number(raw); n {
	case 5:
		return "audio/amr"
	case 6:
		return "audio/silk"
	case 7:
		return "audio/mpeg"
	case 8:
		return "audio/ogg"
	}
	return ""
}

// FetchFile fetches a file from the CDN and decrypts it while it comes. No secret of the account is
// sent there. All its errors are *poller.CheckError, and none has an address or a key.
func (c *Checker) FetchFile(ctx context.Context, r poller.FileRequest) (*poller.FileBody, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return nil, poller.ConfigError(err)
	}
	m, failed := message.FileAt(mediaOf(r.Message), r)
	if failed != nil {
		return nil, failed
	}
	key, encrypted, failed := m.key()
	if failed != nil {
		return nil, failed
	}
	address, failed := m.address(config)
	if failed != nil {
		return nil, failed
	}
	body, err := c.client.File(ctx, cdnName, fetch.Call{URL: address, MaxRedirects: cdnRedirects})
	if err != nil {
		return nil, err
	}
	body.Name, body.Type = "", "" // the CDN knows neither
	if encrypted {
		body.ReadCloser, body.Size = decrypt(body.ReadCloser, key), 0
	}
	return body, nil
}

// address returns where a file is.
func (m *medium) address(at config) (string, *poller.CheckError) {
	if len(m.fullURL) > maxAddress || len(m.param) > maxAddress {
		return "", poller.NoFile("file_url", "the file's address in the message is too long")
	}
	if m.fullURL == "" {
		return at.cdn + "/download?encrypted_query_param=" + url.QueryEscape(m.param), nil
	}
	if !strings.HasPrefix(m.fullURL, "https://") && !fetch.SameOrigin(m.fullURL, at.cdn) && !fetch.SameOrigin(m.fullURL, at.base) {
		return "", poller.NoFile("file_url", "the file's address in the message must begin with https://, or be at the account's cdn_url or base_url")
	}
	return m.fullURL, nil
}

// key returns the key of a file; encrypted is false if it has none, as some images.
func (m *medium) key() (key [keySize]byte, encrypted bool, failed *poller.CheckError) {
	for _, text := range m.keys {
		if key, ok := parseKey(text); ok {
			return key, true, nil
		}
	}
	if len(m.keys) > 0 {
		return key, false, poller.NoFile("file_key", "the file's key in the message is none: it must be 32 hex digits, or the base64 of those or of 16 bytes")
	}
	return key, false, nil
}

// parseKey reads a key in any of its spellings: hex, the base64 of 16 bytes, and the base64 of hex.
func parseKey(text string) (key [keySize]byte, ok bool) {
	if len(text) > 4*keySize {
		return key, false
	}
	if unhex(&key, text) {
		return key, true
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		raw, err := encoding.DecodeString(strings.TrimRight(text, "="))
		switch {
		case err != nil:
		case len(raw) == keySize:
			return [keySize]byte(raw), true
		case unhex(&key, string(raw)):
			return key, true
		}
	}
	return key, false
}

// unhex reads a key in hex.
func unhex(key *[keySize]byte, text string) bool {
	if len(text) != hex.EncodedLen(keySize) {
		return false
	}
	_, err := hex.Decode(key[:], []byte(text))
	return err == nil
}

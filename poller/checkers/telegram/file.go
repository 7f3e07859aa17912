package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	methodFile = "getFile"
	maxFileID  = 1 << 10 // bytes
)

var _ poller.FileKeeper = (*Checker)(nil)

// remote is a file of an update.
type remote struct {
	file poller.File
	id   string // file_id
}

// attachment has the fields of every object that is a file.
type attachment struct {
	ID       string `json:"file_id"`
	UniqueID string `json:"file_unique_id"`
	Name     string `json:"file_name"`
	Type     string `json:"mime_type"`
	Size     int64  `json:"file_size"`
	Width    int64  `json:"width"`
	Height   int64  `json:"height"`
	Animated bool   `json:"is_animated"` // of a sticker
	Video    bool   `json:"is_video"`    // of a sticker
}

// fileFields are the fields of a message that are files, in the order in which Files has them. An
// animation comes as a document too.
func fileFields() []string {
	return []string{"photo", "animation", "document", "video", "video_note", "audio", "voice", "sticker"}
}

// Files returns the files of the message in an update: the largest size of a photo, and documents,
// voices, videos, audios, stickers and animations.
func (*Checker) Files(m *poller.Message) []poller.File {
	return message.FilesOf(remotesOf(m), func(r *remote) poller.File { return r.file })
}

// Forgets is false: a file_id stays valid, and getFile makes a new link each time.
func (*Checker) Forgets() bool { return false }

// remotesOf returns the files of an update. What cannot be read is no file.
func remotesOf(m *poller.Message) (all []remote) {
	content, _ := strict.Members(message.Fields(m)[typeOf(m)])
	known := make(map[string]bool)
	for _, field := range fileFields() {
		a, ok := attachmentOf(field, content[field])
		if !ok || known[a.UniqueID] {
			continue
		}
		if a.UniqueID != "" {
			known[a.UniqueID] = true
		}
		all = append(all, remote{poller.CleanFile(poller.File{Name: a.Name, Type: a.typeOf(field), Size: a.Size}), a.ID})
	}
	return all
}

// typeOf returns the name of an update's content, which is the message's type.
func typeOf(m *poller.Message) string {
	if m == nil {
		return ""
	}
	return m.Type
}

// attachmentOf reads a field of a message. ok is false if it is no file.
func attachmentOf(field string, raw json.RawMessage) (a attachment, ok bool) {
	if len(raw) == 0 {
		return a, false
	}
	if field != "photo" {
		return a, json.Unmarshal(raw, &a) == nil && a.usable()
	}
	var sizes []json.RawMessage
	if json.Unmarshal(raw, &sizes) != nil {
		return a, false
	}
	for _, raw := range sizes {
		var size attachment
		if json.Unmarshal(raw, &size) == nil && size.usable() && (!ok || size.pixels() > a.pixels()) {
			a, ok = size, true
		}
	}
	return a, ok
}

func (a *attachment) usable() bool { return a.ID != "" && len(a.ID) <= maxFileID }

// pixels returns the size of a photo. Sides that no photo has count as none.
func (a *attachment) pixels() int64 {
	if min(a.Width, a.Height) < 0 || max(a.Width, a.Height) > 1<<20 {
		return 0
	}
	return a.Width * a.Height
}

// typeOf returns the media type: what the object says, or what its field always has.
func (a *attachment) typeOf(field string) string {
	switch {
	case a.Type != "":
		return a.Type
	case field == "photo":
		return "image/jpeg"
	case field == "video_note":
		return "video/mp4"
	case field == "sticker" && a.Animated:
		return "application/x-tgsticker"
	case field == "sticker" && a.Video:
		return "video/webm"
	case field == "sticker":
		return "image/webp"
	}
	return ""
}

// FetchFile asks where a file is, and fetches it. Both URLs have the token, and no error has a URL. All
// its errors are *poller.CheckError.
func (c *Checker) FetchFile(ctx context.Context, r poller.FileRequest) (*poller.FileBody, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return nil, poller.ConfigError(err)
	}
	file, failed := message.FileAt(remotesOf(r.Message), r)
	if failed != nil {
		return nil, failed
	}
	use := secrets.ForURL(kind, config.base)
	token, err := c.secrets.Get(ctx, config.token.Name, use)
	if err != nil {
		return nil, secrets.CheckError(err)
	}
	if !tokenPattern.MatchString(token) {
		return nil, &poller.CheckError{Kind: poller.AuthFailed, Final: true, Code: "token", Message: "the secret " + config.token.Name + " is not a bot's token"}
	}
	call := caller{client: c.client, base: config.base, token: token, open: use.Open()}
	path, failed := call.pathOf(ctx, file.id)
	if failed != nil {
		return nil, failed
	}
	body, err := c.client.File(ctx, "Telegram's file server", fetch.Call{URL: call.base + "/file/bot" + token + path, Confined: call.open})
	if gone, ok := errors.AsType[*poller.CheckError](err); ok && gone.Kind == poller.Gone {
		// getFile has just named it. A server of one's own may not serve files at all.
		return nil, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "telegram_path", Message: "Telegram's file server does not have the file that getFile named"}
	}
	if err != nil {
		return nil, err
	}
	body.Name, body.Type = "", "" // the server has names and types of its own
	return body, nil
}

// pathOf asks for the path of a file.
func (c *caller) pathOf(ctx context.Context, id string) (string, *poller.CheckError) {
	a, _, failed := c.post(ctx, methodFile, map[string]string{"file_id": id})
	switch {
	case failed != nil:
		return "", failed
	case !*a.OK && a.Code == http.StatusBadRequest:
		return "", fileError(a.Description)
	case !*a.OK:
		return "", codeError(&a)
	}
	var found struct {
		Path string `json:"file_path"`
	}
	if json.Unmarshal(a.Result, &found) != nil || found.Path == "" {
		return "", protocolError("file_path: missing")
	}
	// A server of one's own that runs with --local names a file in its folders, which have one for each
	// token.
	if _, within, ok := strings.Cut(found.Path, "/"+c.token+"/"); ok {
		found.Path = within
	}
	parts := strings.Split(strings.Trim(found.Path, "/"), "/")
	if slices.ContainsFunc(parts, func(part string) bool { return part == "" || part == "." || part == ".." }) {
		return "", protocolError("file_path: is not a path")
	}
	path := ""
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return path, nil
}

// fileError returns the error for a 400 of getFile. Its description is compared with texts that Telegram
// is known to use.
func fileError(description string) *poller.CheckError {
	switch text := strings.ToLower(description); {
	case strings.Contains(text, "too big"):
		return poller.NoFile("file_too_large", "Telegram gives bots files of at most 20 MB; a Bot API server of one's own gives larger ones")
	case strings.Contains(text, "temporarily unavailable"):
		return &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "telegram_400", Message: "Telegram says that the file's id is wrong, or that the file is not available for now"}
	}
	return poller.NoFile("file_id", "Telegram does not know the file's id: the message was found by another bot, or the file was deleted")
}

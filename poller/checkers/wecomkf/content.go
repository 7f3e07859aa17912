package wecomkf

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
)

const (
	typeText = "text"
	typeLink = "link"
	typeMenu = "menu" // WeCom's msgmenu
)

// link is a link, as WeCom takes it.
type link struct {
	Title   string `json:"title"`
	Desc    string `json:"desc,omitempty"`
	URL     string `json:"url"`
	ThumbID string `json:"thumb_media_id"`
}

var errLink = errors.New("data: must be a link with title (128 bytes at most), url, thumb_media_id and perhaps desc (512 bytes at most)")

func judgeLink(data json.RawMessage) error {
	var l link
	if !decode(data, &l) || l.Title == "" || len(l.Title) > 128 || len(l.Desc) > 512 || !isURL(l.URL) || l.ThumbID == "" || len(l.ThumbID) > 256 {
		return errLink
	}
	return nil
}

// menu is a menu, as WeCom takes it.
type menu struct {
	Head string `json:"head_content,omitempty"`
	List []item `json:"list"`
	Tail string `json:"tail_content,omitempty"`
}

// item is one line of a menu: a reply to click on, a page, or a text.
type item struct {
	Type  string `json:"type"`
	Click *struct {
		ID      string `json:"id,omitempty"`
		Content string `json:"content"`
	} `json:"click,omitempty"`
	View *struct {
		URL     string `json:"url"`
		Content string `json:"content"`
	} `json:"view,omitempty"`
	Text *struct {
		Content   string `json:"content"`
		NoNewline int    `json:"no_newline,omitempty"`
	} `json:"text,omitempty"`
}

var (
	errMenu = errors.New("data: must be a menu with a list of 1 to 10 items, and perhaps head_content and tail_content (1024 bytes each at most)")
	errItem = errors.New("data.list: each item must have a type, click, view or text, and what that has: click a content (128 bytes at most) and perhaps an id (128 bytes at most), view a url and a content (1024 bytes at most), text a content (256 bytes at most)")
)

func judgeMenu(data json.RawMessage) error {
	var m menu
	if !decode(data, &m) || len(m.List) == 0 || len(m.List) > 10 || len(m.Head) > 1024 || len(m.Tail) > 1024 {
		return errMenu
	}
	for _, i := range m.List {
		ok := false
		switch {
		case i.Type == "click" && i.Click != nil && i.View == nil && i.Text == nil:
			ok = i.Click.Content != "" && len(i.Click.Content) <= 128 && len(i.Click.ID) <= 128
		case i.Type == "view" && i.View != nil && i.Click == nil && i.Text == nil:
			ok = isURL(i.View.URL) && i.View.Content != "" && len(i.View.Content) <= 1024
		case i.Type == "text" && i.Text != nil && i.Click == nil && i.View == nil:
			ok = i.Text.Content != "" && len(i.Text.Content) <= 256
		}
		if !ok {
			return errItem
		}
	}
	return nil
}

// decode reads an object that has no other members than to. Its error would quote them.
func decode(data json.RawMessage, to any) bool {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if decoder.Decode(to) != nil {
		return false
	}
	_, err := decoder.Token()
	return errors.Is(err, io.EOF)
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= 2048 && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// contentOf returns what is to be sent, without whom it is for.
func contentOf(r *poller.SendRequest) (map[string]any, error) {
	body := map[string]any{"msgid": r.ID}
	switch r.Type {
	case typeLink:
		if r.Token != "" {
			return nil, errors.New("type: a customer who has entered can be welcomed with a text or a menu only")
		}
		body["msgtype"], body["link"] = "link", r.Data
		return body, judgeLink(r.Data)
	case typeMenu:
		body["msgtype"], body["msgmenu"] = "msgmenu", r.Data
		return body, judgeMenu(r.Data)
	case typeImage, typeVoice, typeVideo, typeFile:
		if r.Token != "" {
			return nil, errors.New("type: a customer who has entered can be welcomed with a text or a menu only")
		}
		body["msgtype"] = r.Type
		_, err := fileRule(r.Type).Read(r.Data, nil)
		return body, err
	}
	text, err := message.Text(r.Data)
	body["msgtype"], body["text"] = "text", map[string]string{"content": text}
	return body, err
}

package moving

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/rounds-dev/rounds/accounts"
)

const (
	feedKind    = "feed"
	folderLabel = "folder"
	titleLabel  = "title"

	slugMost = 60 // bytes of an id before its digest
)

// feed is what the lists know of a feed.
type feed struct {
	url           string
	title, folder string
	user, pass    string
	cookie        string
	labels        map[string]string // besides title and folder
}

// entry returns the feed's account.
func (f *feed) entry(line int) Entry {
	e := Entry{Line: line}
	u, fault := feedURL(f.url)
	if fault != "" {
		e.Faults.Add("url", fault)
		return e
	}
	if u.User != nil && f.user == "" {
		f.user = u.User.Username()
		f.pass, _ = u.User.Password()
	}
	u.User = nil
	address := u.String()
	e.Account = accounts.Account{ID: FeedID(address), Kind: feedKind, Labels: f.labels}
	config := map[string]any{"url": address}
	if f.user != "" {
		name := e.secret("password", f.pass, u.Host)
		config["login"] = map[string]any{"user": f.user, "password": map[string]string{"secret": name}}
	}
	if f.cookie != "" {
		name := e.secret("cookie", f.cookie, u.Host)
		config["headers"] = map[string]any{"Cookie": map[string]string{"secret": name}}
	}
	e.Account.Config = mustJSON(config)
	e.label(titleLabel, f.title)
	e.label(folderLabel, f.folder)
	return e
}

// label sets a label, unless its value is empty.
func (e *Entry) label(name, value string) {
	if value = labelText(value); value == "" {
		return
	}
	if e.Account.Labels == nil {
		e.Account.Labels = make(map[string]string)
	}
	e.Account.Labels[name] = value
}

// secret adds a secret of the entry's account, and returns its name.
func (e *Entry) secret(what, value, host string) string {
	name := what + "-" + digest(e.Account.ID)
	e.Secrets = append(e.Secrets, Secret{Name: name, Value: value, Host: host})
	return name
}

// feedURL reads the address of a feed.
func feedURL(text string) (u *url.URL, fault string) {
	text = strings.TrimSpace(text)
	// Browsers hand feeds to readers as feed:https://… or feed://….
	if rest, ok := strings.CutPrefix(text, "feed:"); ok {
		text = rest
		if strings.HasPrefix(rest, "//") {
			text = "http:" + rest
		}
	}
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, "is missing"
	case err != nil: // the error quotes the address, which may have a credential
		return nil, "is not a URL"
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, "must be an http or https URL"
	}
	u.Fragment, u.RawFragment = "", ""
	return u, ""
}

// FeedID returns the id of the feed at a URL: readable, and without its query.
func FeedID(address string) string {
	readable := address
	if u, err := url.Parse(address); err == nil {
		readable = strings.TrimPrefix(u.Hostname(), "www.") + u.Path
	}
	var slug strings.Builder
	gap := false
	for _, c := range strings.ToLower(readable) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' && slug.Len() > 0 {
			if slug.Len() >= slugMost {
				break
			}
			if gap && slug.Len() > 0 {
				slug.WriteByte('-')
			}
			gap = false
			slug.WriteRune(c)
			continue
		}
		gap = true
	}
	if slug.Len() == 0 {
		return feedKind + "-" + digest(address)
	}
	return slug.String() + "-" + digest(address)
}

// digest returns forty bits of a text's digest.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:5])
}

// mustJSON encodes a value of texts, numbers and maps of them.
func mustJSON(value any) json.RawMessage {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // an address with & stays readable
	if err := encoder.Encode(value); err != nil {
		panic(err) // only other types fail
	}
	return bytes.TrimSpace(text.Bytes())
}

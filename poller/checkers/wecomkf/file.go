package wecomkf

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	mediaLasts = 3 * 24 * time.Hour
	maxMediaID = 1 << 10 // bytes
	// errorBytes is as long as an error of media/get may be, which comes in place of the file.
	errorBytes = 4 << 10
)

var _ poller.FileKeeper = (*Checker)(nil)

// media is the content of a message that is a file.
type media struct {
	ID   string `json:"media_id"`
	Name string `json:"file_name"`
}

// mediaOf returns the file of a message; it has one at most.
func mediaOf(m *poller.Message) []media {
	if m == nil {
		return nil
	}
	switch m.Type {
	case "image", "voice", "video", "file":
		var one media
		if json.Unmarshal(message.Fields(m)[m.Type], &one) == nil && one.ID != "" && len(one.ID) <= maxMediaID {
			return []media{one}
		}
	}
	return nil
}

// Files returns the image, voice, video or file of a message. WeCom has it for three days.
func (*Checker) Files(m *poller.Message) []poller.File {
	all := mediaOf(m)
	if len(all) == 0 {
		return nil
	}
	f := poller.File{Name: all[0].Name}
	if m.Type == "video" {
		f.Type = "video/mp4"
	}
	if !m.Time.IsZero() {
		f.Until = m.Time.Add(mediaLasts)
	}
	return []poller.File{poller.CleanFile(f)}
}

// Forgets is true: WeCom has media for three days.
func (*Checker) Forgets() bool { return true }

// FetchFile fetches a file by its media_id. All its errors are *poller.CheckError.
func (c *Checker) FetchFile(ctx context.Context, r poller.FileRequest) (*poller.FileBody, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return nil, poller.ConfigError(err)
	}
	one, failed := message.FileAt(mediaOf(r.Message), r)
	if failed != nil {
		return nil, failed
	}
	secret, err := c.secrets.Get(ctx, config.secret.Name, secrets.ForURL(kind, config.baseURL))
	if err != nil {
		return nil, secrets.CheckError(err)
	}
	g, err := newGrant(config, secret)
	if err != nil {
		return nil, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "seal", Message: "the access token cannot be sealed", Err: err}
	}
	// A file that comes slowly must not keep checks waiting, so only its beginning counts as a call.
	done, failed := c.crowds.enter(ctx, g.owner())
	if failed != nil {
		return nil, failed
	}
	defer done()
	body, failed := c.media(ctx, g, one.ID)
	if failed != nil {
		return nil, failed
	}
	return body, nil
}

// media asks for a file, and once more with another access token if WeCom refuses that.
func (c *Checker) media(ctx context.Context, g *grant, id string) (*poller.FileBody, *poller.CheckError) {
	for refused := int64(0); ; {
		token, failed := c.broker.Token(ctx, g, refused)
		if failed != nil {
			return nil, failed
		}
		body, code, errmsg, failed := c.mediaOnce(ctx, g, id, token.Value)
		if failed != nil || body != nil {
			return body, failed
		}
		switch code {
		case codeBadMedia, codeNoMedia, codeMediaGone, codeBadArgument:
			return nil, poller.NoFile("wecom_"+strconv.Itoa(code), "WeCom has the file no more: it keeps media for three days")
		case codeBadToken, codeTokenExpired, codeBadSecret, codeBadCorp:
			if refused == 0 && c.broker.Drop(ctx, g, token.Version) {
				refused = token.Version
				continue
			}
		case codeConcurrency:
			c.crowds.lower(g.owner())
		case codeRate:
			return nil, c.pause(ctx, g)
		}
		return nil, g.failure(code, errmsg)
	}
}

// mediaOnce makes one call of media/get. Without a body and an error there is a code.
func (c *Checker) mediaOnce(ctx context.Context, g *grant, id, token string) (body *poller.FileBody, code int, errmsg string, failed *poller.CheckError) {
	query := url.Values{"access_token": {token}, "media_id": {id}}
	response, from, err := c.client.Open(ctx, fetch.Call{URL: g.base + "/cgi-bin/media/get?" + query.Encode(), Confined: g.open})
	switch {
	case err != nil:
		return nil, 0, "", fetch.SharedCheckError(err)
	case from == nil:
		return nil, 0, "", fetch.StatusError("the API", response)
	}
	body = fetch.FileOf(response, from)
	if response.Status == http.StatusOK && response.Header.Get("Content-Disposition") != "" {
		return body, 0, "", nil
	}
	beginning, err := io.ReadAll(io.LimitReader(body, errorBytes))
	if err != nil {
		_ = body.Close()
		return nil, 0, "", poller.Classify(err)
	}
	var a answer
	if _, err := limits.Check(beginning); err == nil && json.Unmarshal(beginning, &a) == nil {
		if code, errmsg, own := a.head(); own && code != codeOK {
			_ = body.Close()
			return nil, code, errmsg, nil
		}
	}
	if response.Status != http.StatusOK {
		_ = body.Close()
		return nil, 0, "", protocolError("is neither a file nor an error")
	}
	body.ReadCloser = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(beginning), body.ReadCloser), body.ReadCloser}
	return body, 0, "", nil
}

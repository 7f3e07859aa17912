package wecomkf

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const (
	typeImage = "image"
	typeVoice = "voice"
	typeVideo = "video"
	typeFile  = "file"
)

// fileTypes are the types of sends that are files, by the names that WeCom has for them.
func fileTypes() []string { return []string{typeImage, typeVoice, typeVideo, typeFile} }

// fileRule is what a send of a type of files may have.
func fileRule(name string) message.FileRule {
	most := map[string]int64{typeImage: 10 << 20, typeVoice: 2 << 20, typeVideo: 10 << 20, typeFile: 20 << 20}
	return message.FileRule{Who: "WeCom", Most: most[name]}
}

// upload uploads a send's file, and returns its media_id. WeCom has it for three days. The error says
// that the send was not made.
func (c *Checker) upload(ctx context.Context, g *grant, r *poller.SendRequest) (string, error) {
	if err := fileRule(r.Type).Fits(r.File); err != nil {
		return "", err
	}
	for refused := int64(0); ; {
		token, failed := c.broker.Token(ctx, g, refused)
		if failed != nil {
			return "", poller.Unsent(failed)
		}
		id, code, errmsg, err := c.uploadOnce(ctx, g, r, token.Value)
		if err != nil {
			return "", poller.Beforehand(err)
		}
		switch code {
		case codeOK:
			return id, nil
		case codeBadToken, codeTokenExpired, codeBadSecret, codeBadCorp:
			if refused == 0 && c.broker.Drop(ctx, g, token.Version) {
				refused = token.Version
				continue
			}
		case codeRate:
			return "", poller.Beforehand(again(c.pause(ctx, g)))
		case codeBusy, codeBadIP, codeConcurrency:
		default:
			return "", refusal(code)
		}
		return "", poller.Beforehand(again(g.failure(code, errmsg)))
	}
}

// uploadOnce makes one call of media/upload.
func (c *Checker) uploadOnce(ctx context.Context, g *grant, r *poller.SendRequest, token string) (id string, code int, errmsg string, err error) {
	body, kind, err := fetch.FileForm(nil, "media", message.FileName(&r.File.File), r.File)
	if err != nil {
		return "", 0, "", poller.Refused("data", "cannot be encoded")
	}
	query := url.Values{"access_token": {token}, "type": {r.Type}}
	response, err := c.client.Do(ctx, fetch.Call{
		Method: http.MethodPost, URL: g.base + "/cgi-bin/media/upload?" + query.Encode(), Stream: body, MaxBody: 1 << 20, Confined: g.open,
		Header: http.Header{"Content-Type": {kind}},
	})
	switch {
	case err != nil:
		return "", 0, "", fetch.StreamError(body, err)
	case response.Status != http.StatusOK:
		return "", 0, "", fetch.SendStatusError("the API", response)
	}
	var a struct {
		answer
		MediaID string `json:"media_id"`
	}
	if _, err := limits.Check(response.Body); err != nil || !utf8.Valid(response.Body) || json.Unmarshal(response.Body, &a) != nil {
		return "", 0, "", protocolError("is not the expected JSON")
	}
	code, errmsg, ok := a.head()
	switch {
	case !ok:
		return "", 0, "", protocolError("errcode: missing")
	case code == codeOK && (a.MediaID == "" || len(a.MediaID) > maxMediaID):
		return "", 0, "", protocolError("media_id: missing")
	}
	return a.MediaID, code, errmsg, nil
}

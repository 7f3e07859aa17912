package weixin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// These calls are for signing in by a scan. Their answers are a stranger's, and bounded.
const (
	codeTime   = 15 * time.Second
	statusTime = hold + 10*time.Second
	maxStatus  = 64 << 10 // bytes of an answer
	maxField   = 2 << 10  // bytes of a field
)

// Code is a code to be scanned.
type Code struct {
	QRCode string // names the code to the server; anybody who has it can ask for the token
	Link   string // the text to draw
}

// Status is what a phone has done with a code.
type Status struct {
	// Status is wait, scaned, need_verifycode, verify_code_blocked, expired,
	// scaned_but_redirect, binded_redirect, confirmed, or an unknown word.
	Status string
	Base   string // where to ask next, after a redirect, or where the account is, once confirmed
	Token  string // once confirmed; a secret
	Bot    string // the account's id at the server, once confirmed
}

// NewCode asks the server for a code. Its errors are *poller.CheckError.
func NewCode(ctx context.Context, client *fetch.Client, base string) (Code, error) {
	ctx, cancel := context.WithTimeout(ctx, codeTime)
	defer cancel()
	c := caller{client: client, config: config{base: base, agent: defaultAgent}}
	header := c.header()
	header.Del("Authorization") // there is no token yet
	fields, failed := c.fields(ctx, fetch.Call{
		Method: http.MethodPost, URL: base + "/ilink/bot/get_bot_qrcode?bot_type=3", Header: header, Body: []byte(`{"local_token_list":[]}`),
	})
	if failed != nil {
		return Code{}, failed
	}
	code := Code{fields["qrcode"], fields["qrcode_img_content"]}
	if code.QRCode == "" || code.Link == "" {
		return Code{}, protocolError("qrcode or qrcode_img_content: missing")
	}
	return code, nil
}

// AskStatus asks what became of a code, at a base that the server may have named. The server holds
// the call for about 35 seconds; if it ends without an answer, the status is wait. digits are the
// digits that the phone shows, if any. Its errors are *poller.CheckError.
func AskStatus(ctx context.Context, client *fetch.Client, base, qrcode, digits string) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	began := time.Now()
	lasting, end := lasting(ctx)
	defer end()
	query := url.Values{"qrcode": {qrcode}}
	if digits != "" {
		query.Set("verify_code", digits)
	}
	c := caller{client: client, config: config{base: base, agent: defaultAgent}}
	header := http.Header{"Ilink-App-Id": {"bot"}, "Ilink-App-Clientversion": {strconv.Itoa(clientVersion)}}
	fields, failed := c.fields(lasting, fetch.Call{URL: base + "/ilink/bot/get_qrcode_status?" + query.Encode(), Header: header})
	switch {
	case failed != nil && failed.Kind == poller.Transient && time.Since(began) > hold/4 && ctx.Err() != context.Canceled:
		return Status{Status: "wait"}, nil // the usual end of a hold
	case failed != nil:
		return Status{}, failed
	}
	s := Status{Status: fields["status"], Token: fields["bot_token"], Bot: fields["ilink_bot_id"]}
	switch s.Status {
	case "":
		return Status{}, protocolError("status: missing")
	case "scaned_but_redirect":
		if s.Base = elsewhere(base, fields["redirect_host"]); s.Base == "" || client.Validate(s.Base) != nil {
			return Status{}, protocolError("redirect_host: is missing or not allowed")
		}
	case "confirmed":
		if s.Base = strings.TrimRight(fields["baseurl"], "/"); s.Base == "" {
			s.Base = base
		}
		u, err := url.Parse(s.Base)
		if err != nil || client.Validate(s.Base) != nil || u.RawQuery != "" || u.Fragment != "" || strings.HasPrefix(base, "https:") && u.Scheme != "https" {
			return Status{}, protocolError("baseurl: is not allowed")
		}
		if s.Token == "" || s.Bot == "" {
			return Status{}, protocolError("bot_token or ilink_bot_id: missing")
		}
	}
	return s, nil
}

// elsewhere returns a base at another host, with the same scheme.
func elsewhere(base, host string) string {
	u, err := url.Parse(base)
	if err != nil || host == "" || strings.ContainsAny(host, "/?#@\\ ") {
		return ""
	}
	return u.Scheme + "://" + host
}

// fields makes a call and returns the strings in the answer's object.
func (c *caller) fields(ctx context.Context, call fetch.Call) (map[string]string, *poller.CheckError) {
	call.MaxBody = maxStatus
	response, err := c.client.Do(ctx, call)
	switch {
	case err != nil:
		return nil, fetch.SharedCheckError(err)
	case response.Status != http.StatusOK:
		return nil, statusError(response)
	}
	var raw map[string]json.RawMessage
	if _, err := limits.Check(response.Body); err != nil || json.Unmarshal(response.Body, &raw) != nil {
		return nil, protocolError("is not the expected JSON")
	}
	if code, ok := number(raw["ret"]); ok && code != 0 {
		return nil, codeError(code)
	}
	fields := make(map[string]string, len(raw))
	for name, value := range raw {
		if text, ok := textOf(value); ok && len(text) <= maxField {
			fields[name] = text
		}
	}
	return fields, nil
}

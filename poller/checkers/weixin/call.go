package weixin

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const (
	pathUpdates = "getupdates" // the call that is held

	maxBody = 8 << 20
	// memory is how many bytes of memory each byte of an answer needs while it is parsed.
	memory = 4
	// finish is how long an answer that has begun may go on after the check was ended. It is shorter
	// than a pool waits for a checker that must stop.
	finish = 700 * time.Millisecond
)

// These name the interface version that this kind speaks: the version of the official client that
// it was compared with. The server may infer from it what a client understands. bot_agent says who
// we are.
const (
	channelVersion = "2.4.9"
	clientVersion  = 2<<16 | 4<<8 | 9
)

type baseInfo struct {
	ChannelVersion string `json:"channel_version"`
	BotAgent       string `json:"bot_agent"`
}

// caller makes calls for one account.
type caller struct {
	client *fetch.Client
	config config
	token  string
	open   bool // the token is sent without TLS
}

// header returns the headers of a POST. No error has the token: the errors of fetch have no
// headers, and the texts of answers are not shown.
func (c *caller) header() http.Header {
	var uin [4]byte
	_, _ = rand.Read(uin[:]) // it never fails
	return http.Header{
		"Content-Type": {"application/json"}, "Authorizationtype": {"ilink_bot_token"}, "Authorization": {"Bearer " + c.token},
		"X-Wechat-Uin": {base64.StdEncoding.EncodeToString([]byte(strconv.FormatUint(uint64(binary.BigEndian.Uint32(uin[:])), 10)))},
		"Ilink-App-Id": {"bot"}, "Ilink-App-Clientversion": {strconv.Itoa(clientVersion)},
	}
}

// post makes a call and returns the body of an answer with status 200.
func (c *caller) post(ctx context.Context, path string, body any) ([]byte, *poller.CheckError) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, poller.CursorError(err)
	}
	response, err := c.client.Do(ctx, fetch.Call{
		Method: http.MethodPost, URL: c.config.base + "/ilink/bot/" + path, Header: c.header(), Body: raw, MaxBody: maxBody, Confined: c.open, Held: path == pathUpdates,
	})
	switch {
	case err != nil:
		return nil, fetch.SharedCheckError(err)
	case response.Status != http.StatusOK:
		return nil, statusError(response)
	}
	return response.Body, nil
}

// notifyStart tells the server that a client is there, and returns its code.
func (c *caller) notifyStart(ctx context.Context) (code int64, failed *poller.CheckError) {
	body, failed := c.post(ctx, "msg/notifystart", map[string]any{"base_info": c.info()})
	if failed != nil {
		return 0, failed
	}
	read, err := parse(body)
	if err != nil {
		return 0, protocolError(err.Error())
	}
	return read.code, nil
}

// getUpdates asks for a page. The answer is read to its end even if ctx is cancelled, once its
// first byte has come.
func (c *caller) getUpdates(ctx context.Context, buf string) (*page, *poller.CheckError) {
	lasting, end := lasting(ctx)
	defer end()
	body, failed := c.post(lasting, pathUpdates, map[string]any{"get_updates_buf": buf, "base_info": c.info()})
	if failed != nil {
		return nil, failed
	}
	release, err := c.client.Reserve(lasting, memory*int64(len(body)))
	if err != nil {
		return nil, fetch.SharedCheckError(err)
	}
	defer release()
	read, err := parse(body)
	if err != nil {
		return nil, protocolError(err.Error())
	}
	return read, nil
}

func (c *caller) info() baseInfo { return baseInfo{channelVersion, c.config.agent} }

// lasting returns a context that ends with ctx, or a moment later if the first byte of an answer
// has come.
func lasting(ctx context.Context) (context.Context, func()) {
	began := make(chan struct{})
	traced := httptrace.WithClientTrace(context.WithoutCancel(ctx), &httptrace.ClientTrace{GotFirstResponseByte: sync.OnceFunc(func() { close(began) })})
	inner, cancel := context.WithCancelCause(traced)
	if deadline, ok := ctx.Deadline(); ok {
		var stop context.CancelFunc
		inner, stop = context.WithDeadline(inner, deadline)
		before := cancel
		cancel = func(cause error) { before(cause); stop() }
	}
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return // the deadline is inner's own
		}
		select {
		case <-began:
			timer := time.NewTimer(finish)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-inner.Done():
			}
		default:
		}
		cancel(context.Cause(ctx))
	})
	return inner, func() { stop(); cancel(context.Canceled) }
}

// statusError returns the error for a status other than 200, which comes from a gateway.
func statusError(response *fetch.Response) *poller.CheckError {
	e := fetch.StatusError("the server", response)
	if response.Status == http.StatusUnauthorized {
		e.Kind, e.Scope, e.Message = poller.AuthFailed, poller.ScopeAccount, "the server refuses the token: scan again, with rounds weixin login ID or on the account's page"
	}
	return e
}

// codeStale is the code for a client that has not announced itself, and for a void token.
const codeStale = -14

// codeError returns the error for a code other than 0. The texts are our own, because an errmsg may
// repeat what we sent.
func codeError(code int64) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "weixin_" + strconv.FormatInt(code, 10), Message: "the server answered with an error"}
	if code == codeStale {
		e.Kind, e.Final, e.Message = poller.AuthFailed, true, "bound elsewhere or signed out: scan again, with rounds weixin login ID or on the account's page"
	}
	return e
}

func protocolError(text string) *poller.CheckError {
	return fetch.ProtocolError("the server's", text)
}

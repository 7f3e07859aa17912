// Package weixin checks personal WeChat accounts by the bot interface that WeChat calls iLink.
// It is the kind "weixin".
//
// The config has
//
//	token      {"secret": "NAME"}, the token from the sign-in; required
//	base_url   the account's server, as the sign-in named it, if not
//	           https://ilinkai.weixin.qq.com; the token is sent there
//	cdn_url    where files are, if not https://novac2c.cdn.weixin.qq.com/c2c and a message does
//	           not say it; the token is not sent there
//	bot_agent  how we name ourselves: Name/Version tokens, ASCII, at most 256 bytes;
//	           rounds/1 if missing
//	after_loss what to do after a page may have been lost: continue (the default), or replay
//
// A check is one call of getupdates, which the server holds for about 35 seconds until
// something comes. The server may name another hold for the next call, which is obeyed.
//
// A message is an element of msgs. Its data is the element's unchanged JSON, which has the
// context_token that a reply must carry. Its id is the message_id, digit by digit, because no float
// holds a 64-bit number. If the element has none, the id is "sha256:" and the digest of its JSON.
// Its type is the type of its first item: text, image, voice, file or video, "item.N" for any other
// number, and "none" without items. Messages that a bot has sent have "bot." before their type. Its
// time is create_time_ms.
//
// # The server gives each message once
//
// Whatever the cursor of a call, the server does not give again what it has handed out. So the pool
// holds on to a page in hand until Redis has it; see poller.Once. A page that the server had handed
// out can be lost in three ways: the replica died before Redis had it, the connection broke in the
// middle of the answer, or a replica that was stopped had read only a part of the answer 0.7
// seconds later. Everything readable in an answer is stored: even a malformed element becomes a
// message.
//
// # Given again
//
// Yet a message may come again, about a second or half an hour later, under a new cursor, with
// another seq, and sometimes without its message_id. So an account remembers its messages, see
// poller.Rememberer. A message is identified by its message_id, and by its content: from_user_id,
// create_time_ms and item_list, without the addresses and keys of media. A message with an id is
// also remembered by its content, because it may come again without its id.
//
// There are reports that an empty cursor makes the server give recent messages once more. With
// after_loss replay, the call after a page may have been lost asks with an empty cursor, and what
// the account remembers is not written again. It is off until a real server has shown that it does
// so, and that it gives no more than an account remembers.
//
// A trial by hand fetches no messages, because they would be gone. It only calls
// notifystart.
//
// # Code -14
//
// It has two meanings: the server wants to be told that a client is there, or the account was bound
// elsewhere or signed out. So the check calls notifystart and repeats its call once, at once. If
// the code comes again, the account is parked as auth: somebody has to scan again.
//
// # Sends
//
// A text is one sendmessage with the context_token of the person's window, and the send's id as
// client_id. It is accepted if the server gives it a message_id. A typing notice is one sendtyping,
// with a ticket that getconfig gives for a day. Each replica has tickets of its own.
//
// An image, a video or a file is encrypted under a new key and goes to the CDN, where getuploadurl
// says, and then one sendmessage names it. It has no caption, because a call takes one item.
//
// # Files
//
// Images, voices, files and videos are encrypted with AES-128-ECB, whose key stands in the message: an
// image's as aeskey in hex, others' as aes_key, which is the base64 of 16 bytes or of 32 hex digits.
// Each field may have each spelling. A file without a key is not encrypted. WeChat does not tell how
// long its CDN has a file.
//
// # What is not called
//
// notifystop is never called, neither at a shutdown nor when an account is paused, changed or
// deleted. When one replica stops, another goes on at once, and nobody knows which of the two calls
// reaches the server last: a late notifystop would end the other replica's session. A paused
// account should find the messages of the pause when it is resumed, and nobody knows what becomes
// of messages of a client that has said goodbye. The server knows clients that just stay away, from
// every phone without a network, and notifystart brings them back. A person who wants to end a
// binding for good does so in WeChat, which makes the token void.
//
// local_token_list, the list of tokens that a client already has, is sent empty by NewCode. With
// tokens in it, the server answers binded_redirect to a person who is already bound, and gives no
// token. Here a person scans to get one: because the account is parked and its token in doubt, or
// for an account of their own, which need not know of others. Only the token that is asked for
// leaves the service, and none goes to a server to which it is not bound. If a person scans twice,
// only the later account works: the other is parked as auth and says so.
//
// Two clients of one account steal each other's messages. An account must therefore be
// registered once, and with nobody else.
package weixin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// Kind is the kind's name in records.
const Kind = "weixin"

// hold is how long the server holds a call, unless it has named another hold.
const hold = 35 * time.Second

// maxHold is the longest hold that we believe the server.
const maxHold = 10 * time.Minute

// Checker checks personal WeChat accounts. It is safe for concurrent use.
type Checker struct {
	*form
	client  *fetch.Client
	secrets secrets.Source
	tickets tickets
}

var (
	_ poller.Checker = (*Checker)(nil)
	_ poller.Holder  = (*Checker)(nil)
	_ poller.Once    = (*Checker)(nil)

	_ poller.Rememberer = (*Checker)(nil)
)

// New returns a checker that calls through client and finds the configs' secrets in secrets.
func New(client *fetch.Client, secrets secrets.Source) *Checker {
	return &Checker{form: newForm(client), client: client, secrets: secrets}
}

// Kind is "weixin".
func (*Checker) Kind() string { return Kind }

// RateKey returns the host, because nothing is known about limits except that they are the
// server's.
func (c *Checker) RateKey(raw json.RawMessage) string {
	config, _ := c.form.Read(raw)
	return config.host
}

// Hold returns how long the server holds a call.
func (*Checker) Hold(json.RawMessage) time.Duration { return hold }

// GivenOnce is true: the server does not give a message again.
func (*Checker) GivenOnce() bool { return true }

// Remembers is the usual: the server may give a message again.
func (*Checker) Remembers(json.RawMessage) poller.Remember { return poller.UsualRemember() }

// Check asks for one page. All its errors are *poller.CheckError.
func (c *Checker) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return poller.Result{}, poller.ConfigError(err)
	}
	buf, err := decodeCursor(r.Cursor)
	if err != nil {
		return poller.Result{}, poller.CursorError(err)
	}
	use := secrets.ForURL(Kind, config.base)
	token, err := c.secrets.Get(ctx, config.token.Name, use)
	if err != nil {
		return poller.Result{}, secrets.CheckError(err)
	}
	if config.replay && r.MayHaveLost {
		buf = ""
	}
	late := lateness(ctx, r.Hold)
	call := caller{client: c.client, config: config, token: token, open: use.Open()}
	if r.Trial {
		return call.trial(ctx)
	}
	page, failed := call.getUpdates(ctx, buf)
	if failed == nil && page.code == codeStale {
		if _, failed = call.notifyStart(ctx); failed == nil {
			if late() {
				return poller.Result{HasMore: true}, nil // the call could outlast the check
			}
			page, failed = call.getUpdates(ctx, buf)
		}
	}
	switch {
	case failed != nil:
		return poller.Result{}, failed
	case page.code != 0:
		return poller.Result{}, codeError(page.code)
	}
	return page.result(buf), nil
}

// lateness returns a function that reports whether a check has lasted so long that a call which is
// held from then on could outlast it: half of its time besides the hold is over.
func lateness(ctx context.Context, hold time.Duration) (late func() bool) {
	deadline, ok := ctx.Deadline()
	margin := (time.Until(deadline) - hold) / 2
	return func() bool { return ok && time.Until(deadline) < hold+margin }
}

// trial shows whether the server knows the token, without fetching anything.
func (c *caller) trial(ctx context.Context) (poller.Result, error) {
	code, failed := c.notifyStart(ctx)
	switch {
	case failed != nil:
		return poller.Result{}, failed
	case code != 0:
		return poller.Result{}, codeError(code)
	}
	return poller.Result{Warnings: []poller.Warning{{Code: "not_fetched",
		Message: "messages are fetched by calls that may be held, and a trial holds none: the server gives each message once, and it would be gone"}}}, nil
}

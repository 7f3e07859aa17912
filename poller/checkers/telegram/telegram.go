// Package telegram checks Telegram's bots with getUpdates. It is the kind "telegram".
//
// The config has
//
//	token            {"secret": "NAME"}, the bot's token; required
//	allowed_updates  the kinds of updates that are wanted, as an array or as a text with commas
//	                 between them; as Telegram remembers them if missing
//	base_url         where the API is, if not https://api.telegram.org: the token is sent
//	                 there, in the path
//
// A check is one call of getUpdates. Telegram holds it for as long as we ask, at most 50
// seconds, until something comes.
//
// A message is an update. Its data is the update's unchanged JSON. Its id is the update_id. Its
// type is the name of the update's other field, such as message, edited_message or callback_query,
// and its time is that field's edit_date or date.
//
// A trial by hand gets one page, because asking for the next one would confirm updates that nobody
// stores.
//
// The cursor has the next offset. Asking with an offset confirms all updates below it, and Telegram
// forgets them. So the call after the one that found an update confirms it, and only once Redis has
// it, and so its log if Redis is within the process. Telegram sends unconfirmed updates again, for
// 24 hours. A process that dies, at whatever moment, and comes back within that time loses none.
// Updates that Redis has accepted and then loses are lost.
//
// After a week without updates Telegram chooses the next update_id at random. If it is lower than
// the offset, Telegram answers from the head of its queue, and the cursor goes on from there. The
// JSON tells a repeated update from a new one. The cursor belongs to one bot at one base_url. With
// another bot or base_url the check begins at the head of the queue, because the offset could
// confirm updates that nobody has seen.
//
// An account also remembers its updates, see poller.Rememberer: by what they contain, with their
// update_id only if they have no date. So an update that comes again under another update_id is
// not written again, and a new one whose update_id was used before is.
//
// A void token (401, 404) parks the account as auth at once. A 409 means that a webhook is set, or
// that another program polls the same bot: getWebhookInfo tells which. The wait of a 429 is obeyed
// in full. A migrate_to_chat_id is about sending and has no meaning here; an error that has one
// counts as any other. The token is in the URL, and is in no error and no log.
//
// A send is one sendMessage or editMessageText. Telegram knows no ids of ours.
package telegram

import (
	"context"
	"encoding/json"
	"regexp"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// kind is the kind's name in records.
const kind = "telegram"

// hold is the longest that Telegram holds a call.
const hold = 50 * time.Second

// Checker checks bots. It is safe for concurrent use.
type Checker struct {
	*form
	client  *fetch.Client
	secrets secrets.Source
}

var (
	_ poller.Checker   = (*Checker)(nil)
	_ poller.Holder    = (*Checker)(nil)
	_ poller.Retainer  = (*Checker)(nil)
	_ poller.Confirmer = (*Checker)(nil)

	_ poller.Rememberer = (*Checker)(nil)
)

// New returns a checker that calls through client and finds the configs' secrets in secrets.
func New(client *fetch.Client, secrets secrets.Source) *Checker {
	return &Checker{newForm(client), client, secrets}
}

// Kind is "telegram".
func (*Checker) Kind() string { return kind }

// RateKey returns the API's host. Telegram limits each bot by itself, but if the host is away, all
// bots are.
func (c *Checker) RateKey(raw json.RawMessage) string {
	config, _ := c.form.Read(raw)
	return config.host
}

// Hold returns how long Telegram is asked to hold a call.
func (*Checker) Hold(json.RawMessage) time.Duration { return hold }

// Retention returns how long Telegram retains unconfirmed updates.
func (*Checker) Retention(json.RawMessage) time.Duration { return 24 * time.Hour }

// Remembers is the usual. The cursor knows few updates, and forgets them with the bot's next queue.
func (*Checker) Remembers(json.RawMessage) poller.Remember { return poller.UsualRemember() }

// Confirms is true: a call with an offset makes Telegram forget all updates below it.
func (*Checker) Confirms() bool { return true }

// tokenPattern allows only characters of tokens, so that a token cannot change the URL's path.
var tokenPattern = regexp.MustCompile(`^[0-9]{1,20}:[A-Za-z0-9_-]{1,128}$`)

// Check asks for one page. All its errors are *poller.CheckError.
func (c *Checker) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return poller.Result{}, poller.ConfigError(err)
	}
	at, err := decodeCursor(r.Cursor)
	if err != nil {
		return poller.Result{}, poller.CursorError(err)
	}
	use := secrets.ForURL(kind, config.base)
	token, err := c.secrets.Get(ctx, config.token.Name, use)
	if err != nil {
		return poller.Result{}, secrets.CheckError(err)
	}
	if !tokenPattern.MatchString(token) {
		return poller.Result{}, &poller.CheckError{Kind: poller.AuthFailed, Final: true, Code: "token", Message: "the secret " + config.token.Name + " is not a bot's token"}
	}
	call := caller{client: c.client, base: config.base, token: token, open: use.Open()}
	at = at.of(queueOf(config.base, token))
	q := request{Offset: at.Offset, Limit: message.Limit(r.Limit, maxLimit), Timeout: int(min(r.Hold, hold) / time.Second), Allowed: config.allowed}
	updates, failed := call.getUpdates(ctx, q)
	if failed != nil {
		return poller.Result{}, failed
	}
	result, err := updates.result(at, q.Limit)
	result.HasMore = result.HasMore && !r.Trial // to ask for more would confirm this page
	return result, err
}

// maxLimit is the most updates that Telegram returns on a page.
const maxLimit = 100

// Package graph checks mailboxes with Microsoft Graph: the kind "graph". It is for mailboxes of
// Microsoft 365 and Outlook.com that cannot be read over IMAP.
//
// The config has
//
//	oauth     {"secret": "NAME"}, what a sign-in has stored, see package oauth; required
//	folder    inbox by default: the id of a folder, or one of Graph's names, such as junkemail
//	from      the address that the account sends from, with or without a name; without, it cannot send
//	base_url  where Graph is, if not https://graph.microsoft.com: one of the national clouds
//
// A check asks for the changes of the folder (message: delta), and reads each new message as it
// came (message: $value). Nothing in the mailbox changes. What a message has is the same as of the
// kind imap: see email.Data. Of a flag, only $seen, $flagged and $draft are known.
//
// A message's id is Graph's immutable id, which stays if the message moves within the mailbox. Its
// time is its receivedDateTime.
//
// # Cursor
//
// The cursor has the state token of the last answer. A first check begins with the folder's newest
// 4,000 messages, and pages through them in Graph's order: messages of one page are sorted, pages
// are not. A message that is moved into the folder is found if it was received after those.
//
// If Graph has forgotten the token (410, after some weeks), the check begins anew, one hour before
// the newest message that a finished round had found, and reports CursorReset. The account remembers
// its messages, see poller.Rememberer, so none of them is written twice.
//
// # Failures
//
// A refused access token is dropped, and the check tries once more with a new one. A 403 is an auth
// error as well. Graph allows each app four requests at once and 10,000 in ten minutes at each mailbox;
// a check makes three at once. The wait of a 429 or 503 is obeyed. Links lead to no other host. Errors
// have none of Graph's own texts, because they may repeat what was sent.
//
// # Files
//
// A mail's files are its attachments, and the mail itself if it has more than 128 KiB. Graph gives
// a mail as a whole, and the file is found in it while it comes.
//
// # Sends
//
// A send is one mail, perhaps with a file attached, handed over as MIME (user: sendMail). Its Message-ID is
// made of the send's id, as of the kind imap. Graph takes it with 202, and puts it into Sent Items. A
// refusal is certain only if Graph itself says so: after a 5xx, or without an answer, nobody knows. A mail
// whose end is unknown is looked for in Sent Items. Graph takes 4 MB, in which a file of 2 MiB has room.
//
// The API is described at https://learn.microsoft.com/graph/api/message-delta and in the OpenAPI
// description openApiDocs/v1.0/Mail.yml of https://github.com/microsoftgraph/msgraph-sdk-powershell.
package graph

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/oauth"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// Kind is the kind's name in records.
const Kind = "graph"

// Tokens has the access tokens of accounts that are signed in. *oauth.Tokens does.
type Tokens interface {
	// Token returns a token for an account whose sign-in is stored under a name; with refused, another
	// one than that.
	Token(ctx context.Context, account, name string, use secrets.Use, refused *oauth.Access) (*oauth.Access, *poller.CheckError)
	// Drop removes a token that was refused, and reports whether another may be available.
	Drop(ctx context.Context, a *oauth.Access) bool
}

// Checker checks mailboxes. It is safe for concurrent use.
type Checker struct {
	*form
	client *fetch.Client
	tokens Tokens
}

var _ Tokens = (*oauth.Tokens)(nil)

var (
	_ poller.Checker          = (*Checker)(nil)
	_ poller.FileKeeper       = (*Checker)(nil)
	_ poller.Rememberer       = (*Checker)(nil)
	_ poller.SelectiveLimiter = (*Checker)(nil)
)

// New returns a checker that calls through client, with the access tokens of tokens.
func New(client *fetch.Client, tokens Tokens) *Checker {
	return &Checker{newForm(client), client, tokens}
}

// Kind is "graph".
func (*Checker) Kind() string { return Kind }

// RateKey returns Graph's host and the name of the sign-in, because Graph limits each mailbox.
func (c *Checker) RateKey(raw json.RawMessage) string {
	config, err := c.form.Read(raw)
	if err != nil {
		return ""
	}
	return config.host + "/" + config.oauth.Name
}

// DefaultLimit keeps a mailbox below what Graph allows, if each check makes as many requests as it may.
func (*Checker) DefaultLimit() string { return "rate=30/m burst=10 concurrency=1" }

// LimitsByDefault reports whether a mailbox is at Microsoft.
func (c *Checker) LimitsByDefault(rateKey string) bool {
	host, _, _ := strings.Cut(rateKey, "/")
	return c.client.PublicHost(host)
}

// Remembers is the usual. A message may move out of the folder and back, and a check that begins anew
// finds the latest messages again.
func (*Checker) Remembers(json.RawMessage) poller.Remember { return poller.UsualRemember() }

// Check asks for one page. All its errors are *poller.CheckError.
func (c *Checker) Check(ctx context.Context, r poller.Request) (result poller.Result, err error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return poller.Result{}, poller.ConfigError(err)
	}
	at, err := decodeCursor(r.Cursor)
	if err != nil {
		return poller.Result{}, poller.CursorError(err)
	}
	failed := c.signedIn(ctx, r.Account, config, func(m *mailbox) (failed *poller.CheckError) {
		result, failed = m.check(ctx, at, pageSize(r.Limit, r.Attempt))
		return failed
	})
	if failed != nil {
		return poller.Result{}, failed
	}
	return result, nil
}

// pageSize returns how many messages to ask for. After failures it is fewer, so that a mailbox whose
// messages take long gets somewhere.
func pageSize(limit, attempt int) int {
	size := maxPage
	if limit > 0 {
		size = min(limit, size)
	}
	return max(1, size>>min(max(0, attempt-1), 4))
}

// Files returns the attachments of a mail, and the whole mail if not all of it was read.
func (*Checker) Files(m *poller.Message) []poller.File { return email.FilesOf(m) }

// Forgets is false: a mailbox has its mails until somebody deletes them.
func (*Checker) Forgets() bool { return false }

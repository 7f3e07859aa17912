package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
)

const (
	// firstMost is how many of a folder's newest messages a first check begins with. Graph gives at
	// most 5,000 of those that a filter selects.
	firstMost = 4000

	maxPage  = 25  // messages on a page
	mostRows = 250 // of an answer; more than were asked for are read all the same, up to this
	atOnce   = 3   // requests; Graph allows four at each mailbox
	fields   = "receivedDateTime,isRead,isDraft,flag"

	// A page of more than a few messages waits for memory.
	fewMessages = 4
	heldMessage = 256 << 10
)

// limits are the limits of an answer.
type limits struct {
	strict.Limits
	bytes int64
}

// pageLimits are the limits of a page of changes.
func pageLimits() limits {
	return limits{strict.Limits{Depth: 16, Values: 32 * mostRows, Within: 16}, 2 << 20}
}

// changes is a page of changes.
type changes struct {
	Value []row  `json:"value"`
	Next  string `json:"@odata.nextLink"`
	Delta string `json:"@odata.deltaLink"`
}

// row is a message of a page.
type row struct {
	ID       string          `json:"id"`
	Removed  json.RawMessage `json:"@removed"`
	Received string          `json:"receivedDateTime"`
	// MessageID is with angle brackets. It is there only if it was asked for.
	MessageID string `json:"internetMessageId"`
	Read      bool   `json:"isRead"`
	Draft     bool   `json:"isDraft"`
	Flag      struct {
		Status string `json:"flagStatus"`
	} `json:"flag"`
}

// at returns when the message was received; zero: unknown.
func (r *row) at() time.Time {
	at, err := time.Parse(time.RFC3339, r.Received)
	if err != nil {
		return time.Time{}
	}
	return message.Usable(at)
}

// check asks for a page, and reads its messages.
func (m *mailbox) check(ctx context.Context, before cursor, size int) (poller.Result, *poller.CheckError) {
	at := before
	var result poller.Result
	var page changes
	fresh := at.Of != folderOf(m.config)
	if fresh {
		result.CursorReset = at.Of != ""
		at = cursor{}
	} else {
		refused, failed := m.changes(ctx, m.next(at), size, &page)
		if refused != nil && refused.reset {
			result.CursorReset, fresh = true, true
		} else if failed != nil {
			return poller.Result{}, failed
		}
	}
	if fresh {
		first, failed := m.first(ctx, at.since(time.Now()))
		if failed != nil {
			return poller.Result{}, failed
		}
		page, at = changes{}, cursor{Of: folderOf(m.config), Seen: at.Seen}
		if _, failed := m.changes(ctx, first, size, &page); failed != nil {
			return poller.Result{}, failed
		}
	}
	if failed := m.messages(ctx, page.Value, &result); failed != nil {
		return poller.Result{}, failed
	}
	after, failed := m.after(at, &page)
	if failed != nil {
		return poller.Result{}, failed
	}
	if result.HasMore = after.Skip != ""; after != before {
		result.Cursor = after.encode()
	}
	return result, nil
}

// delta is the path of a folder's changes.
func (m *mailbox) delta() string {
	return "/mailFolders/" + url.PathEscape(m.config.folder) + "/messages/delta"
}

// next returns the path and the query that go on from a cursor.
func (m *mailbox) next(at cursor) string {
	if at.Skip != "" {
		return m.delta() + "?$skiptoken=" + url.QueryEscape(at.Skip)
	}
	return m.delta() + "?$deltatoken=" + url.QueryEscape(at.Delta)
}

// first returns the path and the query that begin with messages received since a time, or with the
// newest ones if there are too many.
func (m *mailbox) first(ctx context.Context, since time.Time) (string, *poller.CheckError) {
	var oldest changes
	path := fmt.Sprintf("/mailFolders/%s/messages?$select=receivedDateTime&$orderby=receivedDateTime%%20desc&$top=1&$skip=%d", url.PathEscape(m.config.folder), firstMost-1)
	if refused, failed := m.get(ctx, m.call(path), pageLimits(), &oldest); failed != nil {
		return "", m.ofFolder(refused, failed)
	}
	if len(oldest.Value) > 0 {
		if at := oldest.Value[0].at(); at.After(since) {
			since = at
		}
	}
	path = m.delta() + "?changeType=created&$select=" + fields
	if !since.IsZero() {
		path += "&$filter=receivedDateTime%20ge%20" + since.UTC().Format("2006-01-02T15:04:05Z")
	}
	return path, nil
}

// changes asks for a page of changes.
func (m *mailbox) changes(ctx context.Context, path string, size int, page *changes) (*refusal, *poller.CheckError) {
	refused, failed := m.get(ctx, m.call(path, fmt.Sprintf("odata.maxpagesize=%d", size)), pageLimits(), page)
	if failed != nil {
		return refused, m.ofFolder(refused, failed)
	}
	if len(page.Value) > mostRows {
		return nil, fetch.ProtocolError(whose, fmt.Sprintf("has more than %d messages", mostRows))
	}
	return nil, nil
}

// ofFolder returns the error of a request for a folder.
func (m *mailbox) ofFolder(refused *refusal, failed *poller.CheckError) *poller.CheckError {
	if refused != nil && (refused.code == noItem || refused.code == noFolder || refused.code == noFolderID) {
		return &poller.CheckError{Kind: poller.ConfigInvalid, Scope: poller.ScopeAccount, Code: "graph_folder", Message: "config.folder: the mailbox has no such folder"}
	}
	return failed
}

// after returns the cursor after a page.
func (m *mailbox) after(at cursor, page *changes) (cursor, *poller.CheckError) {
	after := cursor{Of: at.Of, Seen: at.Seen, Newest: at.Newest}
	now := time.Now().Unix()
	for i := range page.Value {
		if r := &page.Value[i]; r.Removed == nil {
			after.Newest = max(after.Newest, min(r.at().Unix(), now)) // an imported message may have any time
		}
	}
	var ok bool
	if page.Next != "" {
		after.Skip, ok = m.stateToken(page.Next, "$skiptoken")
	} else {
		after.Delta, ok = m.stateToken(page.Delta, "$deltatoken")
		after.Seen, after.Newest = max(after.Seen, after.Newest), 0
	}
	if !ok {
		return cursor{}, fetch.ProtocolError(whose, "@odata.nextLink or @odata.deltaLink: is no link to Graph with a state token")
	}
	return after, nil
}

// stateToken returns the state token of a link. A link to another host is never followed.
func (m *mailbox) stateToken(link, name string) (string, bool) {
	u, err := url.Parse(link)
	if err != nil || !fetch.SameOrigin(link, m.config.base) {
		return "", false
	}
	var tokens []string
	for key, values := range u.Query() {
		if strings.EqualFold(key, name) {
			tokens = append(tokens, values...)
		}
	}
	if len(tokens) != 1 || tokens[0] == "" || len(tokens[0]) > maxToken {
		return "", false
	}
	return tokens[0], true
}

// read is a message that was read.
type read struct {
	row  *row
	data *email.Data // nil: it was deleted meanwhile
}

// messages reads the messages of a page into a result.
func (m *mailbox) messages(ctx context.Context, rows []row, result *poller.Result) *poller.CheckError {
	var all []read
	for i := range rows {
		r := &rows[i]
		switch {
		case r.ID == "":
			return fetch.ProtocolError(whose, "value[].id: missing")
		case r.Removed == nil && !slices.ContainsFunc(all, func(other read) bool { return other.row.ID == r.ID }):
			all = append(all, read{row: r})
		}
	}
	if len(all) > fewMessages {
		if err := m.client.Hold(ctx, int64(len(all))*heldMessage); err != nil {
			return fetch.SharedCheckError(err)
		}
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range all {
		group.Go(func() error {
			var failed *poller.CheckError
			if all[i].data, failed = m.read(within, all[i].row.ID); failed != nil {
				return failed
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		if failed, ok := errors.AsType[*poller.CheckError](err); ok {
			return failed
		}
	}
	slices.SortStableFunc(all, func(a, b read) int { return a.row.at().Compare(b.row.at()) })
	var damaged email.Damages
	for _, r := range all {
		if r.data == nil {
			continue
		}
		for flag, set := range map[string]bool{"$seen": r.row.Read, "$draft": r.row.Draft, "$flagged": r.row.Flag.Status == "flagged"} {
			if set {
				r.data.AddFlag(flag)
			}
		}
		slices.Sort(r.data.Flags)
		damaged.Add(r.row.ID, r.data.Damage)
		result.Messages = append(result.Messages, poller.Message{ID: r.row.ID, Type: "mail", Time: r.row.at(), Data: r.data.Encode()})
	}
	result.Warnings = damaged.Warnings()
	return nil
}

// value is the call for a message as it came.
func (m *mailbox) value(id string) fetch.Call {
	return m.call("/messages/" + url.PathEscape(id) + "/$value")
}

// read reads the beginning of a message. The data is nil if there is no such message any more.
func (m *mailbox) read(ctx context.Context, id string) (*email.Data, *poller.CheckError) {
	response, body, err := m.client.Open(ctx, m.value(id))
	if err != nil {
		return nil, fetch.SharedCheckError(err)
	}
	if body == nil {
		refused := refusalOf(response)
		switch {
		case response.Status == http.StatusNotFound && refused.code == noItem:
			return nil, nil
		case refused.code == noMIME:
			return &email.Data{Damaged: true, Damage: "Graph cannot give it as a mail"}, nil
		case refused.code != "" && refused.Scope == poller.ScopeRateKey && refused.Kind == poller.Transient:
			refused.Scope = poller.ScopeAccount // of this message, as far as anybody knows
		}
		return nil, refused.CheckError
	}
	defer func() { _ = body.Close() }()
	if response.Status != http.StatusOK {
		return nil, fetch.ProtocolError(whose, fmt.Sprintf("its status is %d, and a message has 200", response.Status))
	}
	raw, err := io.ReadAll(io.LimitReader(body, email.MaxRaw+1))
	if err != nil {
		return nil, fetch.SharedCheckError(err)
	}
	size := int64(len(raw))
	if size > email.MaxRaw {
		raw, size = raw[:email.MaxRaw], body.Size
	}
	return email.Parse(raw, size), nil
}

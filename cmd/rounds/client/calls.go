package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// get returns what the API has at a path.
func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return ask[T](ctx, c, http.MethodGet, path, nil)
}

// post makes the API do something, and returns the result.
func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	return ask[T](ctx, c, http.MethodPost, path, body)
}

func ask[T any](ctx context.Context, c *Client, method, path string, body any) (answer T, err error) {
	err = c.call(ctx, method, path, body, &answer)
	return answer, err
}

// auditTimeout bounds one call of an audit, which covers at least a whole shard.
const auditTimeout = 30 * time.Minute

// Audit checks the conservation law from a cursor on, as far as one call goes; an empty
// cursor begins. With repair it repairs its findings.
func (c *Client) Audit(ctx context.Context, repair bool, cursor string) (api.Audit, error) {
	method, path := http.MethodGet, "/v1/audit"
	if repair {
		method, path = http.MethodPost, "/v1/audit:repair"
	}
	if cursor != "" {
		path += "?cursor=" + url.QueryEscape(cursor)
	}
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	var done api.Audit
	answer, err := c.send(ctx, method, path, http.Header{"Accept": {"application/json"}}, nil)
	if err != nil {
		return done, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&done); err != nil {
		return done, fmt.Errorf("%w: %w", errCutOff, err)
	}
	return done, nil
}

// DeadQuery chooses dead letters. The zero DeadQuery chooses all.
type DeadQuery struct {
	Group  string
	Cursor string // the previous page's Next; empty: the first page
	Limit  int    // 0: as many as the API chooses
}

// Dead returns a page of dead letters.
func (c *Client) Dead(ctx context.Context, q DeadQuery) (api.DeadList, error) {
	return get[api.DeadList](ctx, c, pagePath("/v1/dead", q.Cursor, q.Limit, "group", q.Group))
}

// ReplayDead replays dead letters, as far as one call goes.
func (c *Client) ReplayDead(ctx context.Context, r api.ReplayRequest) (api.Replayed, error) {
	return post[api.Replayed](ctx, c, "/v1/dead:replay", r)
}

// DropDead drops dead letters, as far as one call goes.
func (c *Client) DropDead(ctx context.Context, r api.DropRequest) (api.Dropped, error) {
	return post[api.Dropped](ctx, c, "/v1/dead:drop", r)
}

// Groups returns the consumer groups.
func (c *Client) Groups(ctx context.Context) (api.GroupList, error) {
	return get[api.GroupList](ctx, c, "/v1/groups")
}

// RemoveGroup removes a consumer group.
func (c *Client) RemoveGroup(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, namedPath("/v1/groups/", name), nil, nil)
}

// Webhooks returns the webhook endpoints.
func (c *Client) Webhooks(ctx context.Context) (api.WebhookList, error) {
	return get[api.WebhookList](ctx, c, "/v1/webhooks")
}

// EnableWebhook lets a webhook endpoint get messages again.
func (c *Client) EnableWebhook(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPost, namedPath("/v1/webhooks/", name)+"/enable", nil, nil)
}

// Webhook returns a webhook endpoint with its waiting messages.
func (c *Client) Webhook(ctx context.Context, name string) (api.Webhook, error) {
	return get[api.Webhook](ctx, c, namedPath("/v1/webhooks/", name))
}

// WebhookTypes returns the types of endpoints that may be added.
func (c *Client) WebhookTypes(ctx context.Context) (api.WebhookTypeList, error) {
	return get[api.WebhookTypeList](ctx, c, "/v1/webhooks:types")
}

// AddWebhook adds a webhook endpoint, and fails if there is one of the name. fields are an object.
func (c *Client) AddWebhook(ctx context.Context, name string, fields any) (api.WebhookStored, error) {
	var stored api.WebhookStored
	_, err := c.callWith(ctx, http.MethodPut, namedPath("/v1/webhooks/", name), http.Header{"If-None-Match": {"*"}}, fields, &stored)
	return stored, err
}

// SetWebhook replaces a webhook endpoint that still has a revision.
func (c *Client) SetWebhook(ctx context.Context, name string, revision int64, fields any) (api.WebhookStored, error) {
	var stored api.WebhookStored
	_, err := c.callWith(ctx, http.MethodPut, namedPath("/v1/webhooks/", name), http.Header{"If-Match": {`"` + strconv.FormatInt(revision, 10) + `"`}}, fields, &stored)
	return stored, err
}

// RemoveWebhook removes a webhook endpoint that was added. Its position may stay.
func (c *Client) RemoveWebhook(ctx context.Context, name string, keep bool) (api.WebhookRemoved, error) {
	path := namedPath("/v1/webhooks/", name)
	if keep {
		path = queryPath(path, "keep_position", "true")
	}
	var removed api.WebhookRemoved
	err := c.call(ctx, http.MethodDelete, path, nil, &removed)
	return removed, err
}

// TestWebhook has a test event sent to a webhook endpoint.
func (c *Client) TestWebhook(ctx context.Context, name string) (api.WebhookTested, error) {
	return ask[api.WebhookTested](ctx, c, http.MethodPost, namedPath("/v1/webhooks/", name)+"/test", nil)
}

// RetryWebhook makes the processes try the waiting messages of a webhook endpoint now.
func (c *Client) RetryWebhook(ctx context.Context, name string, r api.WebhookRetryRequest) (api.WebhookRetried, error) {
	return post[api.WebhookRetried](ctx, c, namedPath("/v1/webhooks/", name)+"/retry", r)
}

// SkipWebhook turns waiting messages of a webhook endpoint into dead letters.
func (c *Client) SkipWebhook(ctx context.Context, name string, r api.WebhookSkipRequest) (api.WebhookSkipped, error) {
	return post[api.WebhookSkipped](ctx, c, namedPath("/v1/webhooks/", name)+"/skip", r)
}

// Whoami returns who the API takes the caller for.
func (c *Client) Whoami(ctx context.Context) (api.Caller, error) {
	return get[api.Caller](ctx, c, "/v1/whoami")
}

// Keys returns all keys, without their texts.
func (c *Client) Keys(ctx context.Context) (api.KeyList, error) {
	return get[api.KeyList](ctx, c, "/v1/keys")
}

// CreateKey makes a key. Nothing but the reply ever has its text.
func (c *Client) CreateKey(ctx context.Context, r api.KeyRequest) (api.NewKey, error) {
	return post[api.NewKey](ctx, c, "/v1/keys", r)
}

// RevokeKey revokes the key that has a name.
func (c *Client) RevokeKey(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/v1/keys/"+url.PathEscape(name), nil, nil)
}

// Maintenance returns the maintenance windows that have not ended.
func (c *Client) Maintenance(ctx context.Context) (api.MaintenanceList, error) {
	return get[api.MaintenanceList](ctx, c, "/v1/maintenance")
}

// PutMaintenance stores a maintenance window under a name.
func (c *Client) PutMaintenance(ctx context.Context, name string, r api.MaintenanceRequest) (api.MaintenanceWindow, error) {
	return ask[api.MaintenanceWindow](ctx, c, http.MethodPut, namedPath("/v1/maintenance/", name), r)
}

// EndMaintenance ends the maintenance window that has a name.
func (c *Client) EndMaintenance(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, namedPath("/v1/maintenance/", name), nil, nil)
}

// Views returns the saved views.
func (c *Client) Views(ctx context.Context) (api.SavedViewList, error) {
	return get[api.SavedViewList](ctx, c, "/v1/views")
}

// PutView saves a view under a name.
func (c *Client) PutView(ctx context.Context, name string, r api.SavedViewRequest) (api.SavedView, error) {
	return ask[api.SavedView](ctx, c, http.MethodPut, namedPath("/v1/views/", name), r)
}

// RemoveView removes the saved view that has a name.
func (c *Client) RemoveView(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, namedPath("/v1/views/", name), nil, nil)
}

// Kinds returns the kinds of accounts that the API knows, with the fields of their configs.
func (c *Client) Kinds(ctx context.Context) (api.KindList, error) {
	return get[api.KindList](ctx, c, "/v1/kinds")
}

const loginsPath = "/v1/weixin/logins"

// BeginLogin begins to sign a WeChat account in.
func (c *Client) BeginLogin(ctx context.Context, r api.LoginRequest) (api.Login, error) {
	return post[api.Login](ctx, c, loginsPath, r)
}

// FollowLogin waits until the phone has done something, for at most about 45 seconds.
func (c *Client) FollowLogin(ctx context.Context, login string) (api.Login, error) {
	return get[api.Login](ctx, c, namedPath(loginsPath+"/", login))
}

// TypeLogin passes on the digits that the phone shows.
func (c *Client) TypeLogin(ctx context.Context, login, digits string) (api.Login, error) {
	return post[api.Login](ctx, c, namedPath(loginsPath+"/", login)+"/code", map[string]string{"digits": digits})
}

// AbandonLogin ends a sign-in.
func (c *Client) AbandonLogin(ctx context.Context, login string) error {
	return c.call(ctx, http.MethodDelete, namedPath(loginsPath+"/", login), nil, nil)
}

const mailLoginsPath = "/v1/mail/logins"

// BeginMailLogin begins to sign a mailbox in at its provider.
func (c *Client) BeginMailLogin(ctx context.Context, r api.MailLoginRequest) (api.MailLogin, error) {
	return post[api.MailLogin](ctx, c, mailLoginsPath, r)
}

// FollowMailLogin waits until a sign-in is over, for at most about 45 seconds.
func (c *Client) FollowMailLogin(ctx context.Context, login string) (api.MailLogin, error) {
	return get[api.MailLogin](ctx, c, namedPath(mailLoginsPath+"/", login))
}

// CompleteMailLogin passes on what the browser brings back.
func (c *Client) CompleteMailLogin(ctx context.Context, login string, code api.MailLoginCode) (api.MailLogin, error) {
	return post[api.MailLogin](ctx, c, namedPath(mailLoginsPath+"/", login)+"/code", code)
}

// AbandonMailLogin ends the sign-in of a mailbox.
func (c *Client) AbandonMailLogin(ctx context.Context, login string) error {
	return c.call(ctx, http.MethodDelete, namedPath(mailLoginsPath+"/", login), nil, nil)
}

// ParkedQuery chooses parked accounts. The zero ParkedQuery chooses all.
type ParkedQuery struct {
	Kind   string
	Reason string // the beginning of the reason
	Cursor string // the previous page's Next; empty: the first page
	Limit  int    // 0: as many as the API chooses
}

// Schedule returns when an account is checked next, and why at that time.
func (c *Client) Schedule(ctx context.Context, id string) (api.Schedule, error) {
	return get[api.Schedule](ctx, c, accountPath(id)+"/schedule")
}

// Parked returns a page of parked accounts.
func (c *Client) Parked(ctx context.Context, q ParkedQuery) (api.ParkedList, error) {
	return get[api.ParkedList](ctx, c, pagePath("/v1/parked", q.Cursor, q.Limit, "kind", q.Kind, "reason", q.Reason))
}

// Revive resumes parked accounts, as far as one call goes.
func (c *Client) Revive(ctx context.Context, r api.ReviveRequest) (api.Revived, error) {
	return post[api.Revived](ctx, c, "/v1/parked:revive", r)
}

// ProblemsQuery chooses groups of failing accounts. The zero ProblemsQuery chooses all.
type ProblemsQuery struct {
	States []string // failing, newly, never_succeeded, parked
	Kinds  []string
	Hosts  []string
	Causes []string // names or codes
}

// Problems returns what the monitor on duty found out about accounts that are checked in vain.
func (c *Client) Problems(ctx context.Context, q ProblemsQuery) (api.Problems, error) {
	var pairs []string
	for _, field := range []struct {
		name   string
		values []string
	}{{"state", q.States}, {"kind", q.Kinds}, {"host", q.Hosts}, {"cause", q.Causes}} {
		for _, value := range field.values {
			pairs = append(pairs, field.name, value)
		}
	}
	return get[api.Problems](ctx, c, queryPath("/v1/problems", pairs...))
}

// Reload makes the process that serves the API read its settings again.
func (c *Client) Reload(ctx context.Context) (api.Reloaded, error) {
	return post[api.Reloaded](ctx, c, "/v1/reload", nil)
}

// Resharding returns how far a change of the number of shards has got.
func (c *Client) Resharding(ctx context.Context) (api.Resharding, error) {
	return get[api.Resharding](ctx, c, "/v1/reshard")
}

// Reshard begins a change of the number of shards.
func (c *Client) Reshard(ctx context.Context, r api.ReshardRequest) (api.Resharding, error) {
	return post[api.Resharding](ctx, c, "/v1/reshard", r)
}

// AbortResharding aborts a change of the number of shards.
func (c *Client) AbortResharding(ctx context.Context) (api.Resharding, error) {
	return post[api.Resharding](ctx, c, "/v1/reshard:abort", nil)
}

// FinishResharding removes the old shards after a change.
func (c *Client) FinishResharding(ctx context.Context) (api.Resharding, error) {
	return post[api.Resharding](ctx, c, "/v1/reshard:finish", nil)
}

// Secrets returns a page of stored secrets, without their values. An empty cursor is the first
// page. limit 0: as many as the API chooses.
func (c *Client) Secrets(ctx context.Context, cursor string, limit int) (api.SecretList, error) {
	return get[api.SecretList](ctx, c, pagePath("/v1/secrets", cursor, limit))
}

// SetSecret stores a secret, and replaces any secret of that name.
func (c *Client) SetSecret(ctx context.Context, name string, r api.SecretRequest) (api.Secret, error) {
	return ask[api.Secret](ctx, c, http.MethodPut, namedPath("/v1/secrets/", name), r)
}

// RemoveSecret deletes a stored secret.
func (c *Client) RemoveSecret(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, namedPath("/v1/secrets/", name), nil, nil)
}

// Stats returns how the service is doing.
func (c *Client) Stats(ctx context.Context) (api.Stats, error) {
	return get[api.Stats](ctx, c, "/v1/stats")
}

// Law returns what is known about whether every account is in exactly one place.
func (c *Client) Law(ctx context.Context) (concern.Law, error) {
	return get[concern.Law](ctx, c, "/v1/law")
}

// AcknowledgeConcern says that somebody has seen the concerns of a code.
func (c *Client) AcknowledgeConcern(ctx context.Context, code string, r api.AcknowledgeRequest) error {
	return c.call(ctx, http.MethodPost, namedPath("/v1/concerns/", code)+"/acknowledge", r, nil)
}

// SilenceConcern has the concerns of a code trouble nobody for a while.
func (c *Client) SilenceConcern(ctx context.Context, code string, r api.SilenceRequest) error {
	return c.call(ctx, http.MethodPost, namedPath("/v1/concerns/", code)+"/silence", r, nil)
}

// UnsilenceConcern ends what was said about the concerns of a code.
func (c *Client) UnsilenceConcern(ctx context.Context, code string, r api.UnsilenceRequest) error {
	return c.call(ctx, http.MethodPost, namedPath("/v1/concerns/", code)+"/unsilence", r, nil)
}

// Concerns returns what is wrong now.
func (c *Client) Concerns(ctx context.Context) (concern.Concerns, error) {
	return get[concern.Concerns](ctx, c, "/v1/concerns")
}

// Sessions returns who is signed in.
func (c *Client) Sessions(ctx context.Context) (api.SessionList, error) {
	return get[api.SessionList](ctx, c, "/v1/sessions")
}

// EndSession signs somebody out.
func (c *Client) EndSession(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, namedPath("/v1/sessions/", id), nil, nil)
}

// Backups returns what is known about the last backups.
func (c *Client) Backups(ctx context.Context) (concern.Backups, error) {
	return get[concern.Backups](ctx, c, "/v1/backup:last")
}

// BackupVerified says that the last backup was read again and found whole.
func (c *Client) BackupVerified(ctx context.Context, sha256 string) error {
	return c.call(ctx, http.MethodPost, "/v1/backup:verified", api.BackupVerified{SHA256: sha256}, nil)
}

// System returns what the service runs on and with which settings. A caller needs the right to see
// the whole service.
func (c *Client) System(ctx context.Context) (api.System, error) {
	return get[api.System](ctx, c, "/v1/system")
}

// TrailQuery chooses entries of the trail. The zero TrailQuery chooses all.
type TrailQuery struct {
	Account string        // only entries that name it
	By      string        // only entries of this principal
	Since   time.Duration // the greatest age; 0: any age
	Cursor  string        // the previous page's Next; empty: the first page
	Limit   int           // 0: as many as the API chooses
}

// Trail returns a page of entries: who changed what.
func (c *Client) Trail(ctx context.Context, q TrailQuery) (api.TrailPage, error) {
	since := ""
	if q.Since > 0 {
		since = q.Since.String()
	}
	return get[api.TrailPage](ctx, c, pagePath("/v1/trail", q.Cursor, q.Limit, "account", q.Account, "by", q.By, "since", since))
}

// AccountTimeline returns what mattered to an account lately.
func (c *Client) AccountTimeline(ctx context.Context, id string, limit int) (api.TimelinePage, error) {
	return get[api.TimelinePage](ctx, c, pagePath(accountPath(id)+"/timeline", "", limit))
}

// WebhookAttempts returns the latest attempts at a webhook endpoint, failures first.
func (c *Client) WebhookAttempts(ctx context.Context, name string) (api.WebhookAttempts, error) {
	return get[api.WebhookAttempts](ctx, c, namedPath("/v1/webhooks/", name)+"/attempts")
}

// AccountChecks returns the latest checks of an account, and asks pollers to report them.
func (c *Client) AccountChecks(ctx context.Context, id string) (api.AccountChecks, error) {
	return get[api.AccountChecks](ctx, c, accountPath(id)+"/checks")
}

// AccountVersions returns a page of earlier versions of an account's record.
func (c *Client) AccountVersions(ctx context.Context, id, cursor string, limit int) (api.AccountVersions, error) {
	return get[api.AccountVersions](ctx, c, pagePath(accountPath(id)+"/versions", cursor, limit))
}

// RestoreAccount gives an account an earlier version of its record back, or says what that would
// change. If etag is not empty, the record must have it, or the error has the status 412.
func (c *Client) RestoreAccount(ctx context.Context, id, etag string, r api.RestoreRequest) (done api.Restored, tag string, err error) {
	header := http.Header{}
	if etag != "" {
		header.Set("If-Match", etag)
	}
	got, err := c.change(ctx, http.MethodPost, accountPath(id)+"/restore", header, r, &done)
	return done, got.Get("ETag"), err
}

// AccountTrail returns the latest entries that name an account.
func (c *Client) AccountTrail(ctx context.Context, id string, limit int) (api.TrailPage, error) {
	return get[api.TrailPage](ctx, c, pagePath(accountPath(id)+"/trail", "", limit))
}

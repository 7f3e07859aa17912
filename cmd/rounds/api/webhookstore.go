package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/endpoint"
	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// ownKey begins the name of the secret with the signing key that was made for an endpoint. The
// endpoint's name follows.
const ownKey = "webhook_"

// EndpointType is a type of endpoints that may be added.
type EndpointType struct {
	strict.Kind      // its name, and the fields of its form
	Keyed       bool // its endpoints sign, with keys in the field secrets
	Default     bool // an endpoint that names no type has this one
}

// JudgedEndpoint is what an endpoint's own fields mean.
type JudgedEndpoint struct {
	Type    string
	Hosts   []string // where it delivers, each as HOST:PORT; none: nowhere by name
	Secrets []EndpointSecret
}

// EndpointSecret is a secret to which an endpoint refers.
type EndpointSecret struct {
	Field string // such as secrets[0]
	Name  string
}

// WebhookFields is an endpoint to store: the fields that the file has, and how it begins.
type WebhookFields struct {
	Name        string            `json:"name,omitempty" doc:"May only repeat the name."`
	Type        string            `json:"type,omitempty" default:"webhook" example:"kafka" doc:"Which kind of destination it is: webhook, kafka, nats, postgres, or one of the program's own; GET /v1/webhooks:types has their fields. Types that write files are only declared in the file."`
	URL         string            `json:"url,omitempty" example:"https://crm.example.com/hook" doc:"Of a webhook: where each message is posted. Addresses that accounts may not reach are refused."`
	Secrets     []WebhookSecret   `json:"secrets,omitempty" doc:"Of a webhook, and of other types that sign: the signing keys, as names of the service's own secrets, which are bound to its hosts. Left out: a key is made, stored sealed, and shown in this reply alone."`
	Kinds       []string          `json:"kinds,omitempty" doc:"The kinds of accounts whose messages it gets; left out: all."`
	Types       []string          `json:"types,omitempty" doc:"The types of messages that it gets; left out: all."`
	Labels      map[string]string `json:"labels,omitempty" doc:"Only messages of accounts that have all of these labels at the time."`
	When        string            `json:"when,omitempty" example:"kind == \"feed\" && (data?.priority ?? 0) > 3" doc:"A condition in the language of expr-lang, on account, kind, type, id, event, time, labels and data; at most 1000 bytes. A message to which it cannot be applied is a dead letter."`
	Events      bool              `json:"events,omitempty" doc:"It also gets what becomes of sends."`
	Format      string            `json:"format,omitempty" enum:"cloudevents,cloudevents-binary" doc:"cloudevents: as CloudEvents 1.0 in JSON; cloudevents-binary: with their attributes as headers; left out: as the guide shows."`
	Ordered     bool              `json:"ordered,omitempty" doc:"Of a webhook: messages of an account wait behind one that fails."`
	Timeout     string            `json:"timeout,omitempty" example:"15s" doc:"Of a webhook: for one attempt, 1s to 30s."`
	Concurrency int               `json:"concurrency,omitempty" minimum:"1" maximum:"256" doc:"Of a webhook: attempts at once in a process."`
	Headers     json.RawMessage   `json:"headers,omitempty" doc:"Of a webhook: further headers, each a text or {\"secret\": \"NAME\"}."`

	Brokers   []string `json:"brokers,omitempty" example:"[\"kafka-1.example.com:9092\"]" doc:"Of kafka: the brokers to begin with, each as HOST or HOST:PORT. Addresses that accounts may not reach are refused, also those that brokers name."`
	Servers   []string `json:"servers,omitempty" example:"[\"db.example.com:5432\"]" doc:"Of nats and postgres: the servers, each as HOST or HOST:PORT. Addresses that accounts may not reach are refused, also those that servers name."`
	Topic     string   `json:"topic,omitempty" doc:"Of kafka."`
	Positions string   `json:"positions,omitempty" doc:"Of kafka: another topic, which makes records exactly once."`
	MaxBytes  int      `json:"max_bytes,omitempty" doc:"Of kafka: the largest message."`
	Stream    string   `json:"stream,omitempty" doc:"Of nats."`
	Subject   string   `json:"subject,omitempty" doc:"Of nats."`
	Database  string   `json:"database,omitempty" doc:"Of postgres."`
	Table     string   `json:"table,omitempty" doc:"Of postgres: NAME or SCHEMA.NAME, which is created if it is missing."`

	TLS         bool           `json:"tls,omitempty" doc:"Of kafka, nats and postgres: TLS, with the servers' certificates verified. Towards the public internet it must be true."`
	CA          *WebhookSecret `json:"ca_certificate,omitempty" doc:"The certificates that sign the servers', in PEM; left out: the system's."`
	Certificate *WebhookSecret `json:"client_certificate,omitempty" doc:"A certificate of ours and its key, in PEM."`
	SASL        string         `json:"sasl,omitempty" enum:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" doc:"Of kafka: how the user signs in."`
	User        string         `json:"user,omitempty" doc:"Of kafka, nats and postgres: who signs in."`
	Password    *WebhookSecret `json:"password,omitempty" doc:"The user's."`
	Token       *WebhookSecret `json:"token,omitempty" doc:"Of nats, in place of a user."`
	Credentials *WebhookSecret `json:"credentials,omitempty" doc:"Of nats, in place of a user: a JWT and a seed, as a file that nsc makes."`

	From   string `json:"from,omitempty" enum:"now,start" default:"now" doc:"Where a new endpoint begins: with the next message, or with the oldest stored one. If its group is still there from before, it goes on where the group is."`
	NewKey bool   `json:"new_key,omitempty" doc:"Of an endpoint that signs and has no secrets: make another signing key in place of the one that was made for it. Messages are signed with it within a few seconds."`
}

// WebhookSecret names a secret.
type WebhookSecret struct {
	Secret string `json:"secret" doc:"The name of one of the service's own secrets, without service."`
}

// WebhookType is a type of endpoints that may be added, and what a form for it needs.
type WebhookType struct {
	Name   string         `json:"name"`
	Keyed  bool           `json:"keyed,omitempty" doc:"Its endpoints sign, with the keys in their field secrets. For one without that field a key is made."`
	Fields []strict.Field `json:"fields,omitempty" doc:"The type's own fields, in the order in which people fill them in; left out if it declares none. Secrets are the service's own."`
}

// WebhookTypeList are the types of endpoints that may be added.
type WebhookTypeList struct {
	Types []WebhookType `json:"types" nullable:"false"`
}

// WebhookStored is an endpoint that was stored.
type WebhookStored struct {
	Webhook
	SigningKey string `json:"signing_key,omitempty" doc:"The signing key that was made for it. It is never shown again."`
}

// WebhookRemoved is the result of a removal.
type WebhookRemoved struct {
	PositionForgotten bool `json:"position_forgotten" doc:"Its consumer group is gone: an endpoint of this name begins anew. false: the group stays, because that was asked for, or because a process was still delivering, or a declared endpoint has the name."`
}

// WebhookTested is how a test ended.
type WebhookTested struct {
	Outcome string    `json:"outcome" enum:"delivered,failed,rejected,unreachable,throttled,disabled,unready,unusable,canceled" doc:"delivered: the endpoint has taken the event. unready: nothing was sent, and error says why."`
	Status  int       `json:"status,omitempty" doc:"The status of its answer; left out if there was none."`
	Error   string    `json:"error,omitempty" doc:"What went wrong."`
	At      time.Time `json:"at" doc:"By Redis' clock."`
}

// webhookStoreRoutes adds the routes that add, change, remove and test endpoints.
func (s *Server) webhookStoreRoutes(api huma.API) {
	answer(s, api, "test webhook", huma.Operation{
		OperationID: "test-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/test", Tags: []string{"delivery"},
		Summary: "Send a test event to a webhook endpoint",
		Description: "One of the processes that deliver to it sends one event of the type endpoint.test, as it sends any other, and the reply says how that ended. " +
			"It is sent once, whatever the endpoint's filter and breaker, and changes nothing. 409 if no process delivers to it. 503 if nobody says within 40 s how it ended.",
		Errors: []int{401, 404, 409, 503},
	}, s.testWebhook)
	answer(s, api, "list types of endpoints", huma.Operation{
		OperationID: "list-webhook-types", Method: http.MethodGet, Path: "/v1/webhooks:types", Tags: []string{"delivery"},
		Summary: "List the types of endpoints that may be added", Description: "The types that this process knows, with their own fields for a form.",
		Errors: []int{401, 503},
	}, func(context.Context, *struct{}) (WebhookTypeList, error) {
		list := WebhookTypeList{Types: make([]WebhookType, len(s.options.EndpointTypes))}
		for i, one := range s.options.EndpointTypes {
			list.Types[i] = WebhookType{Name: one.Name, Keyed: one.Keyed, Fields: one.Fields}
		}
		return list, nil
	})
	if s.options.JudgeEndpoint == nil {
		return
	}
	put := takesBody(huma.Operation{
		OperationID: "put-webhook", Method: http.MethodPut, Path: "/v1/webhooks/{name}", Tags: []string{"delivery"},
		Summary: "Add a webhook endpoint, or change it",
		Description: "201 if it is new, 200 if one was replaced as a whole. Processes with the role delivery take it within a few seconds. It has no secrets, only names of the service's own secrets that are bound to its hosts; " +
			"for a webhook without secrets, or another endpoint that signs, a signing key is made, bound to its hosts, and shown in this reply alone. 409 if the file of a process declares an endpoint of this name, if there are 500, or if a key must be made and the service has none to seal it with. " +
			"Processes of a version without stored endpoints do not deliver to it.",
		Errors: []int{400, 401, 409, 412, 413, 422, 503},
	})
	register(s, api, "put webhook", put, s.putWebhook)
	answer(s, api, "remove webhook", huma.Operation{
		OperationID: "remove-webhook", Method: http.MethodDelete, Path: "/v1/webhooks/{name}", Tags: []string{"delivery"},
		Summary: "Remove a webhook endpoint that was added",
		Description: "Processes stop delivering within a few seconds. Its position is forgotten with its group, and messages that it has not got are not delivered to it any more; with keep_position the group stays, and an endpoint that is added under this name goes on there. " +
			"Dead letters stay. The signing key that was made for it is deleted, unless the position stays. A declared endpoint is removed from the file instead: 409.",
		Errors: []int{401, 404, 409, 503},
	}, s.removeWebhook)
}

type putWebhookRequest struct {
	WebhookName
	IfMatch     string `header:"If-Match" example:"\"7\"" doc:"Change the endpoint only if this is its revision, in quotes. Otherwise 412."`
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"*: add it only if there is none. Otherwise 412."`
	RawBody     []byte `contentType:"application/json"`
}

// seen returns which state of the endpoint the request is for.
func (r *putWebhookRequest) seen() (endpoint.Seen, error) {
	if r.IfNoneMatch != "" {
		return endpoint.Absent, nil
	}
	text := strings.TrimSpace(r.IfMatch)
	if text == "" {
		return endpoint.Any, nil
	}
	revision, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 64)
	if err != nil || revision < 1 {
		return 0, newErrorReply(http.StatusBadRequest, "the request cannot be read",
			&huma.ErrorDetail{Location: "header.If-Match", Message: `must be the revision that GET returns, in quotes, such as "7"`})
	}
	return endpoint.Seen(revision), nil
}

type putWebhookReply struct {
	Status int
	Body   WebhookStored
}

func (s *Server) putWebhook(ctx context.Context, r *putWebhookRequest) (*putWebhookReply, error) {
	seen, err := r.seen()
	if err != nil {
		return nil, err
	}
	before, err := endpoint.Of(s.options.Ring).Get(ctx, r.Name)
	isNew := errors.Is(err, endpoint.ErrNone)
	if err != nil && !isNew {
		return nil, err
	}
	if seen == endpoint.Absent && !isNew || seen > 0 && before.Revision != int64(seen) {
		return nil, endpoint.ErrChanged
	}
	if seen == endpoint.Any { // what was read a moment ago: the signing key depends on it
		seen = endpoint.Seen(before.Revision)
	}
	asked, err := s.readWebhook(r.Name, r.RawBody)
	if err != nil {
		return nil, err
	}
	if err := s.boundSecrets(ctx, &asked, isNew); err != nil {
		return nil, err
	}
	if err := s.messages.MayStoreWebhook(ctx, r.Name); err != nil {
		return nil, err
	}
	if asked.makesKey && s.sealer() == nil {
		return nil, noSealer()
	}
	now, err := s.options.Ring.Now(ctx, 0)
	if err != nil {
		return nil, err
	}
	caller, _ := access.From(ctx)
	e := endpoint.Endpoint{Name: r.Name, Fields: asked.fields, Start: before.Start, By: caller.Name, Set: now.UTC().Truncate(time.Millisecond)}
	if isNew {
		e.Start = circulate.StreamStart
		if asked.from != "start" {
			e.Start = fmt.Sprintf("%d-0", now.UnixMilli())
		}
	}
	if _, err = endpoint.Of(s.options.Ring).Put(ctx, e, seen); err != nil {
		return nil, err
	}
	// The key comes second: a request that comes too late must not replace the key of another one. Without
	// a key nothing is sent, and repeating the request makes one.
	var signing string
	if asked.makesKey {
		trail.Of(ctx).Fields([]string{"signing key"})
		if signing, err = s.makeSigningKey(ctx, &asked); err != nil {
			return nil, err
		}
	}
	s.options.Log.InfoContext(ctx, "a webhook endpoint was stored", "endpoint", e.Name, "type", asked.judged.Type, "hosts", asked.judged.Hosts, "new", isNew, "by", cmp.Or(caller.Name, "-"))
	w, err := s.messages.Webhook(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	reply := &putWebhookReply{Status: http.StatusOK, Body: WebhookStored{Webhook: s.webhookFor(ctx, &w, true), SigningKey: signing}}
	if isNew {
		reply.Status = http.StatusCreated
	}
	return reply, nil
}

// askedWebhook is an endpoint that somebody wants to store.
type askedWebhook struct {
	name     string
	fields   json.RawMessage
	judged   JudgedEndpoint
	from     string
	newKey   bool
	ownKey   bool // it has no secrets of its own, and needs a signing key that is made for it
	makesKey bool // the key must be made now
}

// readWebhook reads the body of a request. The error has every fault.
func (s *Server) readWebhook(name string, body []byte) (askedWebhook, error) {
	a := askedWebhook{name: name}
	fields, err := strict.Object(body)
	if err != nil {
		return a, err
	}
	var faults accounts.Faults
	take := func(field, must string, into any) {
		if raw, ok := fields[field]; ok && json.Unmarshal(raw, into) != nil {
			faults.Add(field, must)
		}
		delete(fields, field)
	}
	own := name
	take("name", "must be a string", &own)
	if own != name {
		faults.Add("name", "must be the name in the path, or left out")
	}
	take("from", "must be now or start", &a.from)
	if a.from != "" && a.from != "now" && a.from != "start" {
		faults.Add("from", "must be now or start")
	}
	take("new_key", "must be true or false", &a.newKey)
	var kind string
	if raw, ok := fields["type"]; ok {
		_ = json.Unmarshal(raw, &kind) // who judges it says what is wrong
	}
	if _, has := fields["secrets"]; !has && s.keyed(kind) {
		a.ownKey = true
		fields["secrets"], _ = json.Marshal([]WebhookSecret{{ownKey + name}}) // a struct of strings can always be encoded
	}
	var refs []WebhookSecret // as a reply had them
	if json.Unmarshal(fields["secrets"], &refs) == nil && len(refs) == 1 && refs[0].Secret == ownKey+name {
		a.ownKey = true
	}
	if a.newKey && !a.ownKey {
		faults.Add("new_key", "is only for an endpoint that signs and has no secrets: its signing key is made for it")
	}
	fields["name"], _ = json.Marshal(name)
	if a.fields, err = json.Marshal(fields); err != nil {
		return a, err
	}
	if len(a.fields) > endpoint.MaxText {
		faults.Add("url", fmt.Sprintf("and all other fields must have at most %d bytes together", endpoint.MaxText))
	}
	a.judged, err = s.options.JudgeEndpoint(a.fields)
	if judged, ok := errors.AsType[accounts.Faults](err); ok {
		faults = append(faults, judged...)
	} else if err != nil {
		return a, err
	} else if a.ownKey && len(a.judged.Hosts) == 0 {
		faults.Add("secrets", "missing: a key is made only for an endpoint with hosts, to which it is bound")
	}
	if len(faults) > 0 {
		return a, faulty(faults)
	}
	return a, nil
}

// keyed reports whether endpoints of a type sign.
func (s *Server) keyed(of string) bool {
	return slices.ContainsFunc(s.options.EndpointTypes, func(t EndpointType) bool {
		return t.Keyed && (t.Name == of || of == "" && t.Default)
	})
}

// boundSecrets refuses stored secrets that are not bound to the endpoint's host, and decides whether a
// signing key is made. A secret that is not stored may be in a file of the processes that deliver.
func (s *Server) boundSecrets(ctx context.Context, a *askedWebhook, isNew bool) error {
	var faults accounts.Faults
	a.makesKey = a.ownKey && (isNew || a.newKey)
	for _, use := range a.judged.Secrets {
		_, stored, there, err := secret.Of(s.options.Ring).Get(ctx, secret.ServicePrefix+use.Name)
		if err != nil && !errors.Is(err, secret.ErrRecord) {
			return err
		}
		fits := there && len(stored.Hosts) > 0 && stored.AllowsKind(a.judged.Type) &&
			!slices.ContainsFunc(a.judged.Hosts, func(host string) bool { return !stored.AllowsHost(host) })
		switch {
		case a.ownKey && use.Name == ownKey+a.name:
			a.makesKey = a.makesKey || !fits
		case there && !fits:
			faults.Add(use.Field, fmt.Sprintf("is a secret that is not bound to %s, or not for the kind %s: store %s%s with this host", strings.Join(a.judged.Hosts, ", "), a.judged.Type, secret.ServicePrefix, use.Name))
		}
	}
	if len(faults) > 0 {
		return faulty(faults)
	}
	return nil
}

// makeSigningKey makes and stores the signing key of an endpoint, bound to its hosts and its type.
func (s *Server) makeSigningKey(ctx context.Context, a *askedWebhook) (string, error) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // it never fails
	text := "whsec_" + base64.StdEncoding.EncodeToString(raw)
	binding, err := secret.Binding{Hosts: a.judged.Hosts, Kinds: []string{a.judged.Type}}.Normalized()
	if err != nil {
		return "", invalid("body.secrets", "missing; no signing key can be bound to the endpoint's hosts: "+err.Error())
	}
	_, _, err = s.store(ctx, secret.ServicePrefix+ownKey+a.name, text, binding)
	return text, err
}

func (s *Server) removeWebhook(ctx context.Context, r *struct {
	WebhookName
	Keep bool `query:"keep_position" doc:"Its consumer group stays, with its position."`
}) (WebhookRemoved, error) {
	ctx, end := s.lasting(ctx)
	defer end()
	forgotten, err := s.messages.RemoveWebhook(ctx, r.Name, r.Keep)
	if err != nil {
		return WebhookRemoved{}, err
	}
	if !r.Keep {
		if _, err := secret.Of(s.options.Ring).Remove(ctx, secret.ServicePrefix+ownKey+r.Name); err != nil {
			return WebhookRemoved{}, err
		}
	}
	return WebhookRemoved{PositionForgotten: forgotten}, nil
}

func (s *Server) testWebhook(ctx context.Context, r *WebhookName) (WebhookTested, error) {
	ctx, end := s.lasting(ctx)
	defer end()
	done, err := s.messages.TestWebhook(ctx, r.Name)
	if errors.Is(err, message.ErrTestUnanswered) {
		trail.Of(ctx).End(trail.Unknown)
	}
	return testedOf(&done), err
}

func testedOf(t *message.Tested) WebhookTested {
	return WebhookTested{Outcome: t.Outcome, Status: t.Status, Error: t.Why, At: inUTC(t.At)}
}

// shownToAll are the fields of an endpoint that everybody sees who may see the endpoint, but the URL only in part.
var shownToAll = []string{
	"name", "type", "url", "kinds", "types", "labels", "when", "events", "format", "ordered", "timeout", "concurrency",
	"brokers", "servers", "topic", "positions", "max_bytes", "stream", "subject", "database", "table", "tls",
}

// storedOf adds to a reply what is stored of an endpoint. Only who may change it sees its whole URL and
// its headers, which may be secrets of others.
func storedOf(out *Webhook, e *endpoint.Endpoint, all bool) {
	out.Revision, out.StoredAt, out.StoredBy = e.Revision, inUTC(e.Set), e.By
	var fields map[string]json.RawMessage
	if json.Unmarshal(e.Fields, &fields) != nil {
		return
	}
	if !all {
		for name := range fields {
			if !slices.Contains(shownToAll, name) {
				delete(fields, name)
			}
		}
		var address string
		_ = json.Unmarshal(fields["url"], &address) // another value is left out
		delete(fields, "url")
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			fields["url"], _ = json.Marshal(u.Scheme + "://" + u.Host + "/")
		}
	}
	out.Fields, _ = json.Marshal(fields) // which were JSON
}

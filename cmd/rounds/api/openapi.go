package api

import (
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
	"github.com/rounds-dev/rounds/cmd/rounds/moving"
)

const introduction = `rounds keeps checking accounts for new messages. This API manages the accounts and returns the messages that were found.

Errors are problem+json and name every fault of a request at once, in Chinese if Accept-Language asks for that. Times are RFC 3339 in UTC, by Redis' clock. 503 usually means that Redis is away: repeat the request after Retry-After.`

// describe completes the description of the routes and returns it. It adds what huma cannot know
// about its routes, and the routes that huma does not serve.
func (s *Server) describe(api huma.API, t terms) *huma.OpenAPI {
	doc := api.OpenAPI()
	doc.Info.Description = introduction
	doc.Tags = []*huma.Tag{
		{Name: "accounts", Description: "The accounts that are checked."},
		{Name: "circulation", Description: "When accounts are checked, and whether."},
		{Name: "transfer", Description: "Many accounts at once, as lines of JSON."},
		{Name: "messages", Description: "The messages that were found."},
		{Name: "sends", Description: "What is sent in the name of accounts."},
		{Name: "delivery", Description: "Consumer groups, webhook endpoints and dead letters."},
		{Name: "access", Description: "Who may do what."},
		{Name: "service", Description: "The state of the service."},
	}
	doc.Info.License = &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"}
	doc.Servers = []*huma.Server{{URL: "/", Description: "The server of this description."}}
	doc.Security = []map[string][]string{{}} // open to everybody who can reach it, which is only this machine
	if s.closedTo(t) {
		doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
			"token":   {Type: "http", Scheme: "bearer"},
			"session": {Type: "apiKey", In: "cookie", Name: "rounds_session", Description: "The session of a person who signed in at /signin; off loopback its name begins with __Host-."},
		}
		doc.Security = []map[string][]string{{"token": {}}, {"session": {}}}
	}
	schemas := describer{doc.Components.Schemas}

	accountsPath, accountPath := doc.Paths["/v1/accounts"], doc.Paths["/v1/accounts/{id}"]
	schemas.setBody(accountsPath.Post, reflect.TypeFor[Record](), true)
	schemas.setBody(accountPath.Put, reflect.TypeFor[Record](), true)
	withoutID := *schemas.schemas.SchemaFromRef(accountPath.Put.RequestBody.Content["application/json"].Schema.Ref)
	withoutID.Required = []string{"kind"} // the path has the id
	accountPath.Put.RequestBody.Content["application/json"].Schema = &withoutID
	schemas.setBody(accountPath.Patch, reflect.TypeFor[RecordPatch](), true)
	patch := accountPath.Patch.RequestBody.Content
	patch["application/merge-patch+json"] = patch["application/json"]
	schemas.setBody(doc.Paths["/v1/accounts/{id}/nudge"].Post, reflect.TypeFor[NudgeRequest](), false)
	schemas.setBody(doc.Paths["/v1/accounts/{id}/resume"].Post, reflect.TypeFor[ResumeRequest](), false)
	schemas.setBody(doc.Paths["/v1/accounts/{id}/sends"].Post, reflect.TypeFor[SendRequest](), true)
	schemas.setBody(doc.Paths["/v1/sends/{id}/retry"].Post, reflect.TypeFor[SendRetryRequest](), false)
	schemas.setBody(doc.Paths["/v1/sends/{id}/resolve"].Post, reflect.TypeFor[SendResolveRequest](), true)
	schemas.setBody(doc.Paths["/v1/parked:revive"].Post, reflect.TypeFor[ReviveRequest](), true)
	schemas.setBody(doc.Paths["/v1/dead:replay"].Post, reflect.TypeFor[ReplayRequest](), true)
	schemas.setBody(doc.Paths["/v1/dead:drop"].Post, reflect.TypeFor[DropRequest](), true)
	schemas.setBody(doc.Paths["/v1/webhooks/{name}/retry"].Post, reflect.TypeFor[WebhookRetryRequest](), false)
	schemas.setBody(doc.Paths["/v1/webhooks/{name}/skip"].Post, reflect.TypeFor[WebhookSkipRequest](), false)
	if put := doc.Paths["/v1/webhooks/{name}"].Put; put != nil {
		schemas.setBody(put, reflect.TypeFor[WebhookFields](), true)
	}
	schemas.setBody(doc.Paths["/v1/groups/{name}/read"].Post, reflect.TypeFor[GroupReadRequest](), true)
	if path := doc.Paths["/v1/weixin/logins"]; path != nil {
		schemas.setBody(path.Post, reflect.TypeFor[LoginRequest](), true)
		schemas.setBody(doc.Paths["/v1/weixin/logins/{login}/code"].Post, reflect.TypeFor[LoginDigits](), true)
	}
	if path := doc.Paths["/v1/mail/logins"]; path != nil {
		schemas.setBody(path.Post, reflect.TypeFor[MailLoginRequest](), true)
		schemas.setBody(doc.Paths["/v1/mail/logins/{login}/code"].Post, reflect.TypeFor[MailLoginCode](), true)
	}
	if path := doc.Paths["/v1/accounts:check"]; path != nil {
		schemas.setBody(path.Post, reflect.TypeFor[CheckRequest](), true)
	}
	created := *accountPath.Put.Responses["200"]
	accountPath.Put.Responses["200"].Description = "The account existed."
	created.Description = "The account is new."
	accountPath.Put.Responses["201"] = &created

	doc.AddOperation(schemas.importing())
	doc.AddOperation(schemas.exporting())
	doc.AddOperation(schemas.backup())
	for _, action := range accounts.Actions() {
		doc.AddOperation(schemas.bulk(action))
	}
	doc.AddOperation(schemas.messages())
	doc.AddOperation(schemas.search())
	if s.options.Files != nil {
		doc.AddOperation(schemas.file())
		doc.AddOperation(schemas.thumbnail())
		doc.AddOperation(schemas.deadFile())
		doc.AddOperation(schemas.stored())
		doc.AddOperation(schemas.sendFile())
		doc.AddOperation(schemas.sendThumbnail())
		doc.AddOperation(schemas.linked())
		doc.AddOperation(schemas.upload())
	}
	doc.AddOperation(schemas.probe("/healthz", "Whether the process serves", "Always ok, whatever Redis does.", nil))
	doc.AddOperation(schemas.probe("/readyz", "Whether Redis can be used", "", []int{http.StatusServiceUnavailable}))
	if s.options.Metrics != nil {
		doc.AddOperation(schemas.plain("/metrics", "get-metrics", "Metrics for Prometheus", "text/plain"))
	}
	for _, o := range schemas.sessionOperations() {
		doc.AddOperation(o)
	}
	if t.callbacks != nil {
		for _, o := range schemas.callbackOperations() {
			doc.AddOperation(o)
		}
	}
	if s.options.Hubs != nil {
		for _, o := range schemas.hubOperations() {
			doc.AddOperation(o)
		}
	}
	doc.AddOperation(schemas.plain("/openapi.json", "get-openapi", "This description", "application/json"))
	schemas.describeRights(doc)
	for _, schema := range schemas.schemas.Map() {
		if set := schema.Properties["set"]; set != nil {
			// oapi-codegen gives each type that may have further fields the methods Get and Set.
			set.Extensions = map[string]any{"x-go-name": "SetAt"}
		}
	}
	return doc
}

// describer makes descriptions that refer to the schemas of Go types.
type describer struct {
	schemas huma.Registry
}

func (d describer) media(t reflect.Type) *huma.MediaType {
	return &huma.MediaType{Schema: d.schemas.Schema(t, true, t.Name())}
}

// lines returns the reply of a route that answers in lines of JSON.
func lines(media *huma.MediaType) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {Description: "Lines of JSON", Content: map[string]*huma.MediaType{"application/x-ndjson": media}}}
}

func (d describer) setBody(o *huma.Operation, t reflect.Type, required bool) {
	o.RequestBody.Required = required
	o.RequestBody.Content = map[string]*huma.MediaType{"application/json": d.media(t)}
}

// problems adds the replies of failed requests.
func (d describer) problems(o *huma.Operation, statuses ...int) *huma.Operation {
	media := d.media(reflect.TypeFor[huma.ErrorModel]())
	for _, status := range statuses {
		o.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{"application/problem+json": media},
		}
	}
	return o
}

func (d describer) importing() *huma.Operation {
	var formats []any
	for _, format := range moving.Formats() {
		formats = append(formats, string(format))
	}
	anyText := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	answers := &huma.MediaType{Schema: &huma.Schema{OneOf: []*huma.Schema{
		d.media(reflect.TypeFor[BadLine]()).Schema, d.media(reflect.TypeFor[ImportEnd]()).Schema,
	}}}
	return d.problems(&huma.Operation{
		OperationID: "import-accounts", Method: http.MethodPost, Path: "/v1/accounts:import", Tags: []string{"transfer"},
		Summary: "Register or change many accounts",
		Description: "One record a line, at most 256 KiB each, any number of them. New and changed accounts are due at their next phase slot, so that they do not all start together. " +
			"Of several lines with the same id the last one wins. If the account is new, a record that was exported with its state brings the state along.\n\n" +
			"The reply begins at once. It has a line for each bad line and for each line that repeats an id, and a summary as the last line. Read it while you send. " +
			"If the last line has an error, or is missing, the import stopped. Importing everything again is safe.\n\n" +
			"Lists of other programs are recognised by their beginning: OPML, the feeds of Miniflux (GET /v1/feeds), a backup of Uptime Kuma, and CSV whose first line names the columns. A feed gets an id that is computed from its URL. " +
			"A list that is one document has at most 16 MiB and 100000 entries, and nothing of it counts if it cannot be read. Passwords in a list are stored as secrets if the caller may store secrets; otherwise their lines are left out.",
		Parameters: []*huma.Param{{Name: "from", In: "query", Description: "Where new accounts begin. backfill: with everything that their third parties still have. now: with messages from now on; older ones are dropped.",
			Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"backfill", "now"}, Default: "backfill"}},
			{Name: "format", In: "query", Description: "What comes, if it must not be recognised.",
				Schema: &huma.Schema{Type: huma.TypeString, Enum: formats}},
			{Name: "dry_run", In: "query", Description: "true: nothing is written. Each line counts as if the others were not there.",
				Schema: &huma.Schema{Type: huma.TypeBoolean, Default: false}}},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/x-ndjson": d.media(reflect.TypeFor[Record]()), "text/x-opml": anyText, "application/json": {}, "text/csv": anyText}},
		Responses:   lines(answers),
	}, http.StatusUnauthorized, http.StatusUnprocessableEntity, http.StatusServiceUnavailable)
}

func (d describer) exporting() *huma.Operation {
	return d.problems(&huma.Operation{
		OperationID: "export-accounts", Method: http.MethodGet, Path: "/v1/accounts:export", Tags: []string{"transfer"},
		Summary: "The records of accounts",
		Description: "Of all accounts, or of the accounts that the parameters select: one record a line, in the form of an import. If it fails half way, the connection is cut.\n\n" +
			"As OPML: the feeds among them, at most 100000, in the folders that their label folder names. The header Rounds-Left-Out counts the others.",
		Parameters: selecting(&huma.Param{Name: "format", In: "query", Description: "records, or opml for feed readers.",
			Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"records", "opml"}, Default: "records"}}, &huma.Param{Name: "with_state", In: "query", Description: "true: each record also has a field state, with cursor, failures, what its cadence remembers and why it is parked. An import uses it for new accounts.",
			Schema: &huma.Schema{Type: huma.TypeBoolean, Default: false}}),
		Responses: lines(d.media(reflect.TypeFor[Record]())),
	}, http.StatusUnauthorized, http.StatusUnprocessableEntity, http.StatusServiceUnavailable)
}

func (d describer) backup() *huma.Operation {
	return d.problems(&huma.Operation{
		OperationID: "get-backup", Method: http.MethodGet, Path: "/v1/backup", Tags: []string{"transfer"},
		Summary:     "A backup of everything",
		Description: "The accounts with everything that is known about them, the messages, the consumer groups, the dead letters, the keys' digests and the disabled webhooks, in the form of rounds restore: lines of JSON between a header and a trailer with a checksum. If it fails half way, the connection is cut, and there is no trailer.",
		Parameters: []*huma.Param{{Name: "with_secrets", In: "query", Description: "true: also the stored secrets, still sealed, and the credentials, sealed for the same key. 409 if the process has no key to seal with.",
			Schema: &huma.Schema{Type: huma.TypeBoolean, Default: false}}},
		Responses: lines(&huma.MediaType{Schema: &huma.Schema{Type: huma.TypeObject}}),
	}, http.StatusUnauthorized, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusServiceUnavailable)
}

func (d describer) messages() *huma.Operation {
	least, most := 1.0, float64(message.MaxLimit)
	return d.problems(&huma.Operation{
		OperationID: "get-messages", Method: http.MethodGet, Path: "/v1/messages", Tags: []string{"messages"},
		Summary: "Found messages",
		Description: "A page of messages, in the order in which they were written; with before, the newest first. With Accept: text/event-stream, all messages as they come: each event's data is a message, and its id is the after with which to go on, " +
			"which Last-Event-ID does by itself. account, kind and type leave out other messages, on pages and among events.",
		Parameters: []*huma.Param{
			{Name: "after", In: "query", Schema: &huma.Schema{Type: huma.TypeString}, Description: "start, or left out: from the oldest stored message. now: only new messages. Otherwise the previous page's next."},
			{Name: "before", In: "query", Schema: &huma.Schema{Type: huma.TypeString}, Description: "In place of after. now: the newest messages. Otherwise the previous page's next, which leads to older ones, or any after, which leads to the messages before it."},
			{Name: "account", In: "query", Schema: &huma.Schema{Type: huma.TypeString}, Description: "Only messages of the account with this id."},
			{Name: "kind", In: "query", Schema: &huma.Schema{Type: huma.TypeString}, Description: "Only messages of accounts of this kind."},
			{Name: "type", In: "query", Schema: &huma.Schema{Type: huma.TypeString}, Description: "Only messages of this type."},
			{Name: "limit", In: "query", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Default: message.Limit}, Description: "The most messages on the page."},
			{Name: "Last-Event-ID", In: "header", Schema: &huma.Schema{Type: huma.TypeString}, Description: "For events: where to go on, in place of after."},
		},
		Responses: map[string]*huma.Response{"200": {
			Description: "OK", Content: map[string]*huma.MediaType{
				"application/json":  d.media(reflect.TypeFor[MessageList]()),
				"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString, Description: "Events, each with a Message as its data."}},
			},
		}},
	}, http.StatusUnauthorized, http.StatusUnprocessableEntity, http.StatusServiceUnavailable)
}

func (d describer) search() *huma.Operation {
	least, most := 1.0, float64(message.MaxLimit)
	text := func(name, description string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Schema: &huma.Schema{Type: huma.TypeString}, Description: description}
	}
	return d.problems(&huma.Operation{
		OperationID: "search-messages", Method: http.MethodGet, Path: "/v1/messages:search", Tags: []string{"messages"},
		Summary: "Search the stored messages",
		Description: "Looks through all stored messages, the newest first, until a page is full; a process makes at most 4 searches at once. " +
			"With Accept: text/event-stream each event is a message that was found, beside events progress and, at last, end, whose data is how far the search is. Ending the request ends the search.",
		Parameters: []*huma.Param{
			text("text", "Only messages with this part in a text of their data. Keys are not looked at. Capitals and small letters are the same."),
			text("sender", "Only messages whose sender has this part: the peer for whom an answer would be, or a text of the data under from, author or sender."),
			text("account", "Only messages of the account with this id."),
			text("kind", "Only messages of accounts of this kind."),
			text("type", "Only messages of this type."),
			text("from", "Only messages that were written since: a time, or how long ago, such as 24h, by Redis' clock."),
			text("to", "Only messages that were written before, likewise."),
			text("before", "The previous page's next."),
			{Name: "limit", In: "query", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Default: message.Limit}, Description: "The most messages on the page."},
			text("wait", "How long to look at most, without events: at most 10s; left out: 2s. The page may then be short, even empty, and have a next."),
			{Name: "Last-Event-ID", In: "header", Schema: &huma.Schema{Type: huma.TypeString}, Description: "For events: where to go on, in place of before."},
		},
		Responses: map[string]*huma.Response{"200": {
			Description: "OK", Content: map[string]*huma.MediaType{
				"application/json":  d.media(reflect.TypeFor[MessageSearch]()),
				"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString, Description: "Events: a Message without a name, and progress and end with looked, of, reached and next."}},
			},
		}},
	}, http.StatusUnauthorized, http.StatusUnprocessableEntity, http.StatusServiceUnavailable)
}

func (d describer) probe(path, summary, description string, problems []int) *huma.Operation {
	o := d.problems(&huma.Operation{
		OperationID: "get-" + path[1:], Method: http.MethodGet, Path: path, Tags: []string{"service"},
		Summary: summary, Description: description,
		Security: []map[string][]string{{}}, // open to all
		Responses: map[string]*huma.Response{"200": {
			Description: "OK", Content: map[string]*huma.MediaType{"application/json": d.media(reflect.TypeFor[Health]())},
		}},
	}, problems...)
	// net/http itself answers this one, in plain text. It judges nothing else that a caller may do
	// wrong.
	o.Responses[strconv.Itoa(http.StatusRequestHeaderFieldsTooLarge)] = &huma.Response{Description: "The request's header is too large."}
	return o
}

// plain describes a guarded route that answers with one type.
func (d describer) plain(path, id, summary, contentType string) *huma.Operation {
	return d.problems(&huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Tags: []string{"service"}, Summary: summary,
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{contentType: {}}}},
	}, http.StatusUnauthorized)
}

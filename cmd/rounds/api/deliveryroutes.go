package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// deliveryRoutes adds the routes of single messages, consumer groups, webhooks and dead letters.
func (s *Server) deliveryRoutes(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "get-message", Method: http.MethodGet, Path: "/v1/messages/{ref}", Tags: []string{"messages"},
		Summary:     "Get a message, and its state in each consumer group",
		Description: "A message that is read and not acknowledged is pending, and one that a group could not handle is dead. A key that is bound to labels gets only the message.",
		Errors:      []int{401, 404, 422, 503},
	}, s.getMessage)
	huma.Register(api, huma.Operation{
		OperationID: "list-groups", Method: http.MethodGet, Path: "/v1/groups", Tags: []string{"delivery"},
		Summary: "List consumer groups and how far they have read", Errors: []int{401, 503},
	}, s.listGroups)
	huma.Register(api, huma.Operation{
		OperationID: "delete-group", Method: http.MethodDelete, Path: "/v1/groups/{name}", Tags: []string{"delivery"},
		Summary: "Remove a consumer group", Description: "With its position and its pending messages. Its dead letters stay. 409 while its consumers are running.",
		Errors: []int{401, 404, 409, 503},
	}, s.deleteGroup)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "read-group", Method: http.MethodPost, Path: "/v1/groups/{name}/read", Tags: []string{"delivery"},
		Summary: "Read messages as a consumer of a group",
		Description: "A round: it acknowledges the messages that the consumer has handled, and returns more. A consumer has one round at a time, and must begin the next within 15 s. " +
			"Messages that it has not acknowledged by then are delivered again, to it or to another consumer. Messages of an account come in order. " +
			"Repeating a round whose reply was lost is safe.",
		Errors: []int{400, 401, 404, 413, 422, 503},
	}), s.readGroup)

	huma.Register(api, huma.Operation{
		OperationID: "list-webhooks", Method: http.MethodGet, Path: "/v1/webhooks", Tags: []string{"delivery"},
		Summary: "List webhook endpoints", Description: "Endpoints that messages were delivered to, and disabled ones: how far each has got, its last answer, and its waiting messages.", Errors: []int{401, 503},
	}, s.listWebhooks)
	huma.Register(api, huma.Operation{
		OperationID: "get-webhook", Method: http.MethodGet, Path: "/v1/webhooks/{name}", Tags: []string{"delivery"},
		Summary: "Get a webhook endpoint", Description: "With the messages that wait to be tried again, the first of each account.", Errors: []int{401, 404, 503},
	}, s.getWebhook)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "retry-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/retry", Tags: []string{"delivery"},
		Summary: "Retry the waiting messages of a webhook endpoint now",
		Description: "All processes that deliver to it do so within a second or two, even if its breaker is open or it asked for a pause. " +
			"Messages of an account keep their order, and a failed try counts like any other. 409 if the endpoint is disabled, or no process delivers to it. The body may be left out.",
		Errors: []int{400, 401, 404, 409, 413, 422, 503},
	}), s.retryWebhook)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "skip-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/skip", Tags: []string{"delivery"},
		Summary: "Skip waiting messages of a webhook endpoint",
		Description: "The first waiting message of an account, or of each account, becomes a dead letter, and its next one is tried. Nothing is lost: replay-dead delivers it again. " +
			"409 for several messages unless the body has all. A message that is being sent at that moment may still arrive.",
		Errors: []int{400, 401, 404, 409, 413, 422, 503},
	}), s.skipWebhook)
	huma.Register(api, huma.Operation{
		OperationID: "enable-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/enable", Tags: []string{"delivery"},
		Summary: "Deliver to a disabled webhook endpoint again", Description: "From where it stopped, within a second or two. An enabled endpoint stays as it is.",
		Errors: []int{401, 404, 503},
	}, s.enableWebhook)

	huma.Register(api, huma.Operation{
		OperationID: "list-dead", Method: http.MethodGet, Path: "/v1/dead", Tags: []string{"delivery"},
		Summary: "List dead letters", Description: "Messages that a consumer group could not handle, a page at a time, shard by shard, the oldest first.",
		Errors: []int{401, 422, 503},
	}, s.listDead)
	huma.Register(api, huma.Operation{
		OperationID: "get-dead", Method: http.MethodGet, Path: "/v1/dead/{id}", Tags: []string{"delivery"},
		Summary: "Get a dead letter", Errors: []int{401, 404, 422, 503},
	}, s.getDead)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "replay-dead", Method: http.MethodPost, Path: "/v1/dead:replay", Tags: []string{"delivery"},
		Summary: "Deliver dead letters again",
		Description: "The named ones, or all that a group has now. They are put at the end of their streams, for the group that could not handle them. " +
			"If the reply has a next, ask again with it. Repeating a request is safe.",
		Errors: []int{400, 401, 413, 422, 503},
	}), s.replayDead)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "drop-dead", Method: http.MethodPost, Path: "/v1/dead:drop", Tags: []string{"delivery"},
		Summary: "Remove dead letters", Description: "The named ones, or all that a group has now, for good. If the reply has a next, ask again with it. Repeating a request is safe.",
		Errors: []int{400, 401, 413, 422, 503},
	}), s.dropDead)
}

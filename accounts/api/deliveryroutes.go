package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// deliveryRoutes are the routes of who has had messages.
func (s *Server) deliveryRoutes(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "list-groups", Method: http.MethodGet, Path: "/v1/groups", Tags: []string{"delivery"},
		Summary: "List consumer groups and how far they have got", Errors: []int{401, 503},
	}, s.listGroups)
	huma.Register(api, huma.Operation{
		OperationID: "delete-group", Method: http.MethodDelete, Path: "/v1/groups/{name}", Tags: []string{"delivery"},
		Summary: "Forget a consumer group", Description: "What it has read, and what is pending; its dead letters stay. 409 while consumers of it are running.",
		Errors: []int{401, 404, 409, 503},
	}, s.deleteGroup)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "read-group", Method: http.MethodPost, Path: "/v1/groups/{name}/read", Tags: []string{"delivery"},
		Summary: "Read messages as a consumer of a group",
		Description: "A turn: acknowledges what the consumer has dealt with, and gives it more. A consumer has one turn at a time, and the next within 15 s; " +
			"what it was given and has not acknowledged by then is given again, to it or to another one. Messages of an account come in order. " +
			"To repeat a turn whose reply was lost is safe.",
		Errors: []int{400, 401, 404, 413, 422, 503},
	}), s.readGroup)

	huma.Register(api, huma.Operation{
		OperationID: "list-webhooks", Method: http.MethodGet, Path: "/v1/webhooks", Tags: []string{"delivery"},
		Summary: "List webhook endpoints", Description: "Those that were ever delivered to, and those that are disabled: how far each is, how it answered last, and what waits.", Errors: []int{401, 503},
	}, s.listWebhooks)
	huma.Register(api, huma.Operation{
		OperationID: "get-webhook", Method: http.MethodGet, Path: "/v1/webhooks/{name}", Tags: []string{"delivery"},
		Summary: "Get a webhook endpoint", Description: "With the messages that wait to be tried again, the first of each account.", Errors: []int{401, 404, 503},
	}, s.getWebhook)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "retry-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/retry", Tags: []string{"delivery"},
		Summary: "Try now what waits at a webhook endpoint",
		Description: "All processes that deliver to it do so within a second or two, and forget why they sent nothing: breaker and pauses. " +
			"Messages of an account keep their order; a try that fails counts as any other. 409 if the endpoint is disabled, or nobody delivers to it. The body may be left out.",
		Errors: []int{400, 401, 404, 409, 413, 422, 503},
	}), s.retryWebhook)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "skip-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/skip", Tags: []string{"delivery"},
		Summary: "Skip what waits at a webhook endpoint",
		Description: "The first message that waits of an account, or of each, becomes a dead letter, and the next ones are tried. Nothing is lost: replay-dead delivers it again. " +
			"409 if it would be several and the body does not say all. A message that is being sent just now may arrive all the same.",
		Errors: []int{400, 401, 404, 409, 413, 422, 503},
	}), s.skipWebhook)
	huma.Register(api, huma.Operation{
		OperationID: "enable-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/enable", Tags: []string{"delivery"},
		Summary: "Deliver to a disabled webhook endpoint again", Description: "From where it stopped, within a second or two. One that is enabled is left alone.",
		Errors: []int{401, 404, 503},
	}, s.enableWebhook)

	huma.Register(api, huma.Operation{
		OperationID: "list-dead", Method: http.MethodGet, Path: "/v1/dead", Tags: []string{"delivery"},
		Summary: "List dead letters", Description: "Messages that a consumer group could not handle, a page at a time, shard by shard, the oldest first.",
		Errors: []int{401, 422, 503},
	}, s.listDead)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "replay-dead", Method: http.MethodPost, Path: "/v1/dead:replay", Tags: []string{"delivery"},
		Summary: "Deliver dead letters again",
		Description: "Those that are named, or all that a group has now: they are put at the end of their streams, for the group that could not handle them. " +
			"Where the reply has a next, ask again with it; to repeat a request is safe.",
		Errors: []int{400, 401, 413, 422, 503},
	}), s.replayDead)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "drop-dead", Method: http.MethodPost, Path: "/v1/dead:drop", Tags: []string{"delivery"},
		Summary: "Forget dead letters", Description: "Those that are named, for good.",
		Errors: []int{400, 401, 413, 422, 503},
	}), s.dropDead)
}

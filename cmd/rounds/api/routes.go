package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/rounds-dev/rounds/accounts"
)

// bodyTimeout is how long a caller may take to send a record.
const bodyTimeout = 30 * time.Second

// routes adds every route. Each has a row in Rights. Routes that stream are plain handlers, and
// describe adds their descriptions.
func (s *Server) routes(t terms) (*serving, error) {
	actions := make(map[string]string)
	trailed := func(pattern string, next http.Handler) http.Handler { return s.trailed(actions, pattern, next) }
	mux := newRouteMux(false, trailed)
	api := humago.New(mux, s.config())

	huma.Register(api, takesBody(huma.Operation{
		OperationID: "create-account", Method: http.MethodPost, Path: "/v1/accounts", Tags: []string{"accounts"},
		Summary: "Register an account", Description: "It is due at once. 409 if the id is taken.",
		DefaultStatus: http.StatusCreated, Errors: []int{400, 401, 409, 413, 503},
	}), s.createAccount)
	huma.Register(api, huma.Operation{
		OperationID: "list-accounts", Method: http.MethodGet, Path: "/v1/accounts", Tags: []string{"accounts"},
		Summary: "List accounts", Description: "A page of accounts, in an order that stays the same: an account that stays registered during a walk is in it once.",
		Errors: []int{401, 422, 503},
	}, s.listAccounts)
	huma.Register(api, huma.Operation{
		OperationID: "count-accounts", Method: http.MethodGet, Path: "/v1/accounts:count", Tags: []string{"accounts"},
		Summary: "Count accounts", Description: "How many accounts the parameters select. At most about 100,000 are looked at. If there are more, the reply has what was counted, and an estimate of all.",
		Errors: []int{401, 422, 503},
	}, s.countAccounts)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "put-account", Method: http.MethodPut, Path: "/v1/accounts/{id}", Tags: []string{"accounts"},
		Summary:     "Register or change an account",
		Description: "The account is due at once if anything changed. 201 if it is new, 200 if it existed. Fields that the body leaves out are reset; with PATCH they stay. The cursor stays unless the kind changes.",
		Errors:      []int{400, 401, 412, 413, 428, 503},
	}), s.putAccount)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "patch-account", Method: http.MethodPatch, Path: "/v1/accounts/{id}", Tags: []string{"accounts"},
		Summary: "Change parts of an account",
		Description: "A JSON merge patch (RFC 7396): it changes the fields that it names, null removes a field, and the rest stays. The account is due at once if anything changed. " +
			"Two changes at once are both applied; with If-Match the second is refused.",
		Errors: []int{400, 401, 404, 412, 413, 428, 503},
	}), s.patchAccount)
	huma.Register(api, huma.Operation{
		OperationID: "get-account", Method: http.MethodGet, Path: "/v1/accounts/{id}", Tags: []string{"accounts"},
		Summary: "Get an account and where it is", Errors: []int{401, 404, 503},
	}, s.getAccount)
	huma.Register(api, huma.Operation{
		OperationID: "delete-account", Method: http.MethodDelete, Path: "/v1/accounts/{id}", Tags: []string{"accounts"},
		Summary: "Delete an account", Description: "For good. Its messages stay. The result of a check under way is dropped.",
		Errors: []int{400, 401, 404, 412, 428, 503},
	}, s.deleteAccount)

	huma.Register(api, huma.Operation{
		OperationID: "pause-account", Method: http.MethodPost, Path: "/v1/accounts/{id}/pause", Tags: []string{"circulation"},
		Summary: "Take an account out of circulation", Description: "Until it is resumed. A change of its record does not bring it back. The result of a check under way is dropped.",
		Errors: []int{401, 404, 503},
	}, s.pauseAccount)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "resume-account", Method: http.MethodPost, Path: "/v1/accounts/{id}/resume", Tags: []string{"circulation"},
		Summary: "Bring a parked account back", Description: "Whatever the reason, it is due at once, and its failures are forgotten. A circulating account stays as it is. The body may be left out.",
		Errors: []int{400, 401, 404, 413, 503},
	}), s.resumeAccount)
	huma.Register(api, takesBody(huma.Operation{
		OperationID: "nudge-account", Method: http.MethodPost, Path: "/v1/accounts/{id}/nudge", Tags: []string{"circulation"},
		Summary: "Check an account sooner", Description: "At once, or within the given time. The body may be left out. 409 if the account is parked.",
		Errors: []int{400, 401, 404, 409, 413, 503},
	}), s.nudgeAccount)

	huma.Register(api, huma.Operation{
		OperationID: "get-schedule", Method: http.MethodGet, Path: "/v1/accounts/{id}/schedule", Tags: []string{"circulation"},
		Summary: "Why an account is checked when it is", Description: "Where it is now, when it is checked next, which rule decided that, and how its last checks went.",
		Errors: []int{401, 404, 503},
	}, s.getSchedule)
	huma.Register(api, huma.Operation{
		OperationID: "list-parked", Method: http.MethodGet, Path: "/v1/parked", Tags: []string{"circulation"},
		Summary: "List parked accounts", Description: "A page of them, in an order that stays the same: an account that stays parked during a walk is in it once.",
		Errors: []int{401, 422, 503},
	}, s.listParked)
	revive := takesBody(huma.Operation{
		OperationID: "revive-parked", Method: http.MethodPost, Path: "/v1/parked:revive", Tags: []string{"circulation"},
		Summary: "Bring parked accounts back, at a rate",
		Description: "The named accounts, or those that a reason, a cause, a kind or a host selects. They circulate again at once, with their failures forgotten, and become due one after another. " +
			"Paused accounts are selected only if they are named, or the reason begins with \"paused\". If the reply has a next, ask again with it. Repeating a request is safe.",
		Errors: []int{400, 401, 413, 422, 503},
	})
	revive.MaxBodyBytes = maxRevival
	huma.Register(api, revive, s.reviveParked)

	s.deliveryRoutes(api)
	huma.Register(api, huma.Operation{
		OperationID: "get-stats", Method: http.MethodGet, Path: "/v1/stats", Tags: []string{"service"},
		Summary: "Accounts by place, lateness, replicas", Errors: []int{401, 503},
	}, s.getStats)
	s.auditRoutes(api)
	s.reshardRoutes(api)
	s.reloadRoute(api)
	s.trailRoutes(api)
	s.keyRoutes(api)
	s.secretRoutes(api)
	s.outlook(api).Add()
	s.intake(api).Add()

	mux.HandleFunc("POST /v1/accounts:import", s.importAccounts)
	mux.HandleFunc("GET /v1/accounts:export", s.exportAccounts)
	mux.HandleFunc("POST /v1/accounts:pause", s.bulk(accounts.PauseAll))
	mux.HandleFunc("POST /v1/accounts:resume", s.bulk(accounts.ResumeAll))
	mux.HandleFunc("POST /v1/accounts:delete", s.bulk(accounts.DeleteAll))
	mux.HandleFunc("POST /v1/accounts:nudge", s.bulk(accounts.NudgeAll))
	mux.HandleFunc("GET /v1/backup", s.getBackup)
	mux.HandleFunc("GET /v1/messages", s.getMessages)
	if s.options.Metrics != nil {
		mux.Handle("GET /metrics", s.options.Metrics)
	}
	description, err := s.describe(api, t)
	if err != nil {
		return nil, err
	}
	nameActions(actions, api.OpenAPI())
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(description) // a caller that has gone needs no answer
	})

	open := newRouteMux(true, trailed)
	if err := s.addSessions(open, mux, t); err != nil {
		return nil, err
	}
	open.HandleFunc("GET /healthz", healthy)
	open.Handle("GET /readyz", newReadiness(s.options.Ring, s.options.Unsaved, s.options.Log))
	s.addCallbacks(open, t.callbacks)
	open.HandleFunc("GET /docs", docs)
	open.HandleFunc("GET /docs/{file}", docs)
	if s.options.Guide != nil {
		open.Handle("GET "+GuidePath, s.options.Guide)
		open.Handle("GET "+GuidePath+"/", s.options.Guide)
	}
	if err := errors.Join(mux.fault(), open.fault()); err != nil {
		return nil, err
	}
	inside := found(mux.ServeMux, noSuchRoute)
	open.ServeMux.Handle(guardedRoutes, s.guarded(t, s.withPages(inside)))
	return &serving{open, open.ServeMux, mux.ServeMux, slices.Concat(open.routes, mux.routes)}, nil
}

// outlook returns the routes that show how the service is doing.
func (s *Server) outlook(api huma.API) Outlook {
	return Outlook{
		API: api, Ring: s.options.Ring, Registry: s.registry, DeadAfter: s.options.DeadAfter, Trail: s.options.Trail, Demo: s.options.Demo, Redis: s.faultsOfRedis, Store: s.options.Store,
		History: s.history, ProblemsSeen: s.problemsSeen, Webhooks: s.options.Webhooks,
		Sole:    func(ctx context.Context) bool { return s.options.Data != nil && s.options.Data(ctx).Dir != "" },
		Problem: func(ctx context.Context, doing string, err error) error { return s.errorReply(ctx, doing, err) },
		Invalid: func(location, reason string) error {
			return newErrorReply(http.StatusUnprocessableEntity, "validation failed", &huma.ErrorDetail{Location: location, Message: reason})
		},
	}
}

// intake returns the routes with which somebody prepares an account.
func (s *Server) intake(api huma.API) Intake {
	return Intake{
		API: api, Ring: s.options.Ring, Registry: s.registry, DeadAfter: s.options.DeadAfter, Kinds: s.options.Kinds, Try: s.options.Try,
		Problem: func(ctx context.Context, doing string, err error) error { return s.errorReply(ctx, doing, err) },
		Busy:    func(reason string) error { return unavailable(reason) },
		Logins:  s.logins,
		MayKeep: func() error {
			if s.sealer() == nil {
				return noSealer()
			}
			return nil
		},
	}
}

// guardedRoutes is the pattern of all guarded routes in the mux of open routes.
const guardedRoutes = "/"

// config returns huma's configuration. It loads nothing from other hosts, and its replies do not
// link to their schemas.
func (s *Server) config() huma.Config {
	config := huma.DefaultConfig("rounds", s.options.Version)
	config.CreateHooks = nil
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.RejectUnknownQueryParameters = true
	config.Transformers = append(config.Transformers, fitModel)
	config.AllowAdditionalPropertiesByDefault = true // later replies may have more fields
	return config
}

// takesBody returns an operation whose handler reads the body itself, because huma would not report
// a body's faults together with those that only the registry finds.
func takesBody(o huma.Operation) huma.Operation {
	o.MaxBodyBytes = accounts.MaxRecord + 1 // huma refuses at its limit, not above
	o.BodyReadTimeout = bodyTimeout
	o.SkipValidateBody = true
	return o
}

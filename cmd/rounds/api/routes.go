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

	s.accountRoutes(api)
	s.parkedRoutes(api)
	s.kindRoutes(api)
	s.loginRoutes(api)
	s.messageRoutes(api)
	s.groupRoutes(api)
	s.webhookRoutes(api)
	s.deadRoutes(api)
	s.statsRoutes(api)
	s.historyRoutes(api)
	s.problemRoutes(api)
	s.timelineRoutes(api)
	s.limitRoutes(api)
	s.systemRoutes(api)
	s.auditRoutes(api)
	s.reshardRoutes(api)
	s.reloadRoute(api)
	s.trailRoutes(api)
	s.keyRoutes(api)
	s.secretRoutes(api)
	s.demoRoutes(api)

	mux.HandleFunc("POST /v1/accounts:import", s.importAccounts)
	mux.HandleFunc("GET /v1/accounts:export", s.exportAccounts)
	for _, action := range bulkActions() {
		mux.HandleFunc("POST /v1/accounts:"+string(action), s.bulk(action))
	}
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

// register adds an operation. The errors of its handler become replies; doing says in a few words what
// failed, for the log.
func register[In, Out any](s *Server, api huma.API, doing string, o huma.Operation, handle func(context.Context, *In) (*Out, error)) {
	huma.Register(api, o, func(ctx context.Context, in *In) (*Out, error) {
		out, err := handle(ctx, in)
		if told := huma.StatusError(nil); errors.As(err, &told) {
			return nil, told
		}
		if err != nil {
			return nil, s.errorReply(ctx, doing, err)
		}
		return out, nil
	})
}

// answer is register for an operation whose reply is only a body.
func answer[In, Body any](s *Server, api huma.API, doing string, o huma.Operation, handle func(context.Context, *In) (Body, error)) {
	type reply struct{ Body Body }
	register(s, api, doing, o, func(ctx context.Context, in *In) (*reply, error) {
		body, err := handle(ctx, in)
		return &reply{body}, err
	})
}

// each returns what convert makes of each item. It is never nil, because JSON must have a list.
func each[A, B any](items []A, convert func(*A) B) []B {
	made := make([]B, len(items))
	for i := range items {
		made[i] = convert(&items[i])
	}
	return made
}

// bodyInput is a request of which the handler reads the body.
type bodyInput struct {
	RawBody []byte `contentType:"application/json"`
}

// takesBody returns an operation whose handler reads the body itself, because huma would not report
// a body's faults together with those that only the registry finds.
func takesBody(o huma.Operation) huma.Operation {
	o.MaxBodyBytes = accounts.MaxRecord + 1 // huma refuses at its limit, not above
	o.BodyReadTimeout = bodyTimeout
	o.SkipValidateBody = true
	return o
}

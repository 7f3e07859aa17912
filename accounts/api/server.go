package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/callback"
	"github.com/rounds-dev/rounds/accounts/message"
	"github.com/rounds-dev/rounds/circulate"
)

// Options are what a server serves. Ring and Registry are required.
type Options struct {
	Ring     *circulate.Ring
	Registry *accounts.Registry

	Token   string       // demanded of every caller; empty: of none
	Metrics http.Handler // at /metrics; nil: there is no such route
	Guide   http.Handler // at GuidePath and below, open to all; nil: there is no such route
	Log     *slog.Logger // failures that are not the caller's; nil: nowhere
	Version string       // of the program, for the description

	Callbacks       *callback.Receiver // that WeCom calls, open to all; nil: there are no such routes
	CallbackMetrics *CallbackMetrics   // nil: nobody counts them

	// RequireMatch refuses to change an account that is there, or to delete one, without
	// If-Match. Imports and changes of many at once need none.
	RequireMatch bool

	// Data tells where accounts are kept, for stats; nil: nothing is told of that.
	Data func(context.Context) Data

	DeadAfter    time.Duration // a replica silent for so long is not alive; 10 s
	MaxFollowers int           // how many may follow messages at once; 256
	PollInterval time.Duration // how often a follower looks for messages that it was not woken for; 1 min
	Heartbeat    time.Duration // how often an idle follower is sent a comment; 15 s
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.DeadAfter == 0 {
		o.DeadAfter = 10 * time.Second
	}
	if o.MaxFollowers == 0 {
		o.MaxFollowers = 256
	}
	if o.PollInterval == 0 {
		o.PollInterval = time.Minute
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 15 * time.Second
	}
	return o
}

// Server is the API, an http.Handler.
type Server struct {
	options  Options
	messages *message.Reader
	handler  http.Handler

	open, closed *http.ServeMux // the routes that are open to all, and the others

	following atomic.Int64 // callers that are sent messages as they come

	closing context.Context
	close   context.CancelFunc
}

// New makes a server. It starts nothing.
func New(o Options) (*Server, error) {
	s := &Server{options: o.withDefaults(), messages: message.New(o.Ring)}
	s.closing, s.close = context.WithCancel(context.Background())
	routes, err := s.routes()
	if err != nil {
		return nil, err
	}
	s.handler = s.recovered(routes)
	return s, nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close ends what would otherwise last: followers of messages, imports and
// exports. Give it to http.Server.RegisterOnShutdown, for Shutdown waits for all
// of them. Other requests are answered as before.
func (s *Server) Close() { s.close() }

// stream is the context of a request that may last: it ends with the server,
// too. The caller calls the function when it is done.
func (s *Server) stream(r *http.Request) (context.Context, context.CancelFunc) {
	return s.lasting(r.Context())
}

func (s *Server) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.closing, func() { cancel(errClosing) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access/idp"
	"github.com/rounds-dev/rounds/accounts/access/key"
	"github.com/rounds-dev/rounds/accounts/access/session"
	"github.com/rounds-dev/rounds/accounts/callback"
	"github.com/rounds-dev/rounds/accounts/message"
	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/accounts/trail"
	"github.com/rounds-dev/rounds/circulate"
)

// Options are what a server serves. Ring and Registry are required.
type Options struct {
	Ring     *circulate.Ring
	Registry *accounts.Registry

	// Reload reads the process' settings again, for POST /v1/reload. Faults of theirs are
	// Faults. Nil: there is no such route.
	Reload func(context.Context) (Reloaded, error)

	// Token is demanded of every caller who has no key; empty: nobody need show anything,
	// unless RequireKey says so.
	Token      string
	RequireKey bool         // who shows neither key nor token is refused, even where there is no token
	Keys       *key.Keyring // nil: one is made; who has a key of it may do what the key may

	People   *idp.Provider // whom people may sign in with at pages; nil: with keys and the token alone
	PeopleAt string        // where its people find the pages, such as https://rounds.example

	Metrics http.Handler // at /metrics; nil: there is no such route
	Guide   http.Handler // at GuidePath and below, open to all; nil: there is no such route
	Log     *slog.Logger // failures that are not the caller's; nil: nowhere
	Version string       // of the program, for the description

	Callbacks       *callback.Receiver // that WeCom calls, open to all; nil: there are no such routes
	CallbackMetrics *CallbackMetrics   // nil: nobody counts them

	// Trail keeps who changed what; nil: one that keeps trail.Kept entries, and logs to Log.
	Trail *trail.Trail

	// Seal is the key that stored secrets are sealed for; nil, or a nil key: none is stored.
	Seal func() *secret.PublicKey

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
	if o.Keys == nil {
		o.Keys = key.NewKeyring(o.Ring, o.Log)
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
	serving  atomic.Pointer[serving]

	sight  sight
	counts counts

	following atomic.Int64 // callers that are sent messages as they come

	attempts session.Attempts // to sign in, that failed

	mu      sync.Mutex // of what follows
	token   string
	ended   bool
	closing context.Context // of what lasts
	close   context.CancelFunc
}

// serving is what a server serves now.
type serving struct {
	http.Handler
	open, closed *http.ServeMux // the routes that are open to all, and the others
	routes       []string       // all of them
}

// terms are who may call, and what else is obeyed: what Update changes.
type terms struct {
	token     string
	callbacks *callback.Receiver // nil: none
}

// New makes a server. It starts nothing.
func New(o Options) (*Server, error) {
	s := &Server{options: o.withDefaults(), messages: message.New(o.Ring)}
	if s.options.Trail == nil {
		var err error
		if s.options.Trail, err = trail.New(o.Ring, trail.Options{Log: s.options.Log}); err != nil {
			return nil, err
		}
	}
	s.closing, s.close = context.WithCancel(context.Background())
	change, err := s.Update(s.options.Token, s.options.Callbacks)
	if err != nil {
		return nil, err
	}
	change()
	return s, nil
}

// Update prepares another token and other callbacks; nil: none. The returned change applies
// them to all later requests, and cannot fail. If the token differs, running requests with
// the old one end.
func (s *Server) Update(token string, callbacks *callback.Receiver) (change func(), err error) {
	next, err := s.routes(terms{token, callbacks})
	if err != nil {
		return nil, err
	}
	next.Handler = s.recovered(next.Handler)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if token != s.token && s.serving.Load() != nil && !s.ended {
			s.close()
			s.closing, s.close = context.WithCancel(context.Background())
		}
		s.token = token
		s.serving.Store(next)
	}, nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serving.Load().ServeHTTP(w, r) }

// Close ends what would otherwise last: followers of messages, imports and
// exports. Give it to http.Server.RegisterOnShutdown, for Shutdown waits for all
// of them. Other requests are answered as before.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.close()
}

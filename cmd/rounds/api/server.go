package api

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/history"
	"github.com/rounds-dev/rounds/accounts/job"
	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/callback"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
	"github.com/rounds-dev/rounds/cmd/rounds/signin"
	"github.com/rounds-dev/rounds/cmd/rounds/thumbnail"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
	"github.com/rounds-dev/rounds/poller/span"
)

// Options are what a server serves. Ring and Registry are required.
type Options struct {
	Ring     *circulate.Ring
	Registry *accounts.Registry

	// Kinds are the kinds that the process knows, with the fields of their configs.
	Kinds []strict.Kind
	// Try makes a trial of an account, bounded in time and number. Its errors are
	// trial.ErrBusy, and those of the registry. Nil: there is no such route.
	Try func(context.Context, trial.Request) (*trial.Report, error)

	// Sending returns what an account of a kind, with a config, can send. Nil: no account can
	// send.
	Sending func(kind string, config json.RawMessage) Sending

	// Way returns the name of the way out by which an account's calls go; empty: none. Nil: there
	// are no ways.
	Way func(*accounts.Account) string

	// Spans records the sends that are taken over. Nil: nothing is recorded.
	Spans span.Recorder

	// SendBounds are how many sends may wait; zero: the defaults.
	SendBounds circulate.SendBounds

	// Files is the store of files that messages carry. Nil: none are kept, and messages do not
	// tell of them.
	Files FileStore

	// FileLinks is how long links to files are valid that need no key; 0: there are none.
	FileLinks time.Duration

	// Scan is where WeChat accounts are signed in by a scan. Nil: there are no such routes.
	Scan *scan.Server
	// Mailbox is where mailboxes are signed in, by kind. Nil: there are no such routes.
	Mailbox []mailbox.Server

	// Reload reads the process' settings again, for POST /v1/reload. If the settings are at
	// fault, its error is accounts.Faults. Nil: there is no such route.
	Reload func(context.Context) (Reloaded, error)

	Demo *Demo // what visitors of a demonstration may do; nil: there are no such routes

	// Token is demanded of every caller without a key. Empty: callers need no token, and need a key
	// only if RequireKey is set.
	Token      string
	RequireKey bool         // callers with neither key nor token are refused, even if there is no token
	Keys       *key.Keyring // callers with one of its keys may do what the key allows; nil: New makes one

	People   *signin.Provider // the provider with which people sign in to the pages; nil: they sign in with keys and the token alone
	PeopleAt string           // the URL at which people find the pages, such as https://rounds.example

	// Pages returns the handler of all paths that are not routes of the API, for admitted callers. It
	// asks the API by calling inside with the context of a request, which carries the caller. Nil:
	// there are no pages.
	Pages func(inside http.Handler) http.Handler

	Metrics http.Handler // served at /metrics; nil: there is no such route
	Guide   http.Handler // served at GuidePath and below, open to all; nil: there is no such route
	Log     *slog.Logger // gets failures that the caller did not cause; nil: they are not logged
	Version string       // of the program, for the OpenAPI description; empty: dev

	Callbacks       *callback.Receiver // receives WeCom's calls, open to all; nil: there are no such routes
	CallbackMetrics *CallbackMetrics   // counts the calls; nil: they are not counted
	JobMetrics      *JobMetrics        // counts jobs; nil: they are not counted
	Hubs            *callback.Hubs     // receives the calls of WebSub hubs, open to all; nil: there are no such routes

	// Trail records who changed what. Nil: New makes one of the usual length that logs to
	// Log.
	Trail *trail.Trail

	// Seal returns the key for which stored secrets are sealed. If Seal or its key is nil, no
	// secret can be stored.
	Seal func() *secret.PublicKey

	// RequireMatch refuses to change or delete an existing account without If-Match. Imports
	// and bulk changes need none.
	RequireMatch bool

	// Data returns where accounts are stored, for GET /v1/stats. Nil: the stats do not say.
	Data func(context.Context) Data

	// Store returns which Redis servers store everything, for GET /v1/system. Nil: it does not say.
	Store func(context.Context) Store

	// Unsaved returns why a process that stores everything itself cannot save its changes,
	// which /readyz shows to everybody. Nil, or a nil error: it can.
	Unsaved func() error

	// Webhooks reports whether the process's settings name a file with webhook endpoints. Nil:
	// they do not.
	Webhooks func() bool

	// EndpointTypes are the types of endpoints that may be added.
	EndpointTypes []EndpointType
	// JudgeEndpoint reads the fields of an endpoint that somebody adds. Its error is accounts.Faults,
	// which quote no value. Nil: none can be added.
	JudgeEndpoint func(fields []byte) (JudgedEndpoint, error)

	MemoryMark   int           // per cent of Redis' maxmemory from which no messages are taken; default 85
	DeadAfter    time.Duration // a replica that is silent for this long is not alive; default 10 s
	ProbeParked  time.Duration // after how long the monitors try parked accounts again; 0: never
	MaxFollowers int           // how many callers may follow messages at once; default 256
	PollInterval time.Duration // how often a follower looks for messages without a wake-up; default 1 min
	Heartbeat    time.Duration // how often an idle follower gets a comment; default 15 s
}

func (o Options) withDefaults() Options {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Keys == nil {
		o.Keys = key.NewKeyring(o.Ring, o.Log)
	}
	if o.JobMetrics == nil {
		o.JobMetrics = NewJobMetrics(nil)
	}
	o.Version = cmp.Or(o.Version, "dev")
	o.MemoryMark = cmp.Or(o.MemoryMark, 85)
	o.DeadAfter = cmp.Or(o.DeadAfter, 10*time.Second)
	o.MaxFollowers = cmp.Or(o.MaxFollowers, 256)
	o.PollInterval = cmp.Or(o.PollInterval, time.Minute)
	o.Heartbeat = cmp.Or(o.Heartbeat, 15*time.Second)
	return o
}

// Server is the API, an http.Handler.
type Server struct {
	options   Options
	messages  *message.Reader
	history   *history.Reader
	jobs      *job.Jobs
	logins    *scan.Desk    // nil: none
	mailboxes *mailbox.Desk // nil: none
	serving   atomic.Pointer[serving]
	silence   silence

	sight  sight
	counts counts
	ids    *accounts.IDIndex

	thumbnails *thumbnail.Maker // of files

	following atomic.Int64 // callers that get messages as they come
	searching atomic.Int64 // searches of messages that are under way

	attempts signin.Attempts // failed attempts to sign in

	mu      sync.Mutex // guards the fields below
	token   string
	ended   bool
	closing context.Context // of long requests; ended by close
	close   context.CancelCauseFunc
}

// serving is what a server serves now.
type serving struct {
	http.Handler
	open, closed *http.ServeMux // the routes that are open to all, and all others
	routes       []string       // of both
}

// terms are what Update changes: who may call, and which callbacks are accepted.
type terms struct {
	token     string
	callbacks *callback.Receiver // nil: none
}

// New makes a server. It starts nothing.
func New(o Options) (*Server, error) {
	s := &Server{options: o.withDefaults(), messages: message.New(o.Ring), history: history.NewReader(o.Ring), thumbnails: thumbnail.NewMaker(), ids: accounts.NewIDIndex(o.Ring)}
	s.silence = silence{check: o.Ring.Check, first: 700 * time.Millisecond, within: 2 * time.Second}
	if s.options.Trail == nil {
		var err error
		if s.options.Trail, err = trail.New(o.Ring, trail.Options{Log: s.options.Log}); err != nil {
			return nil, err
		}
	}
	s.jobs = job.New(o.Ring, o.Registry, job.Options{Log: s.options.Log, Ended: s.jobEnded, Looked: s.options.JobMetrics.looked, Failed: s.options.JobMetrics.failed})
	s.logins, s.mailboxes = s.newLogins(), s.newMailboxes()
	s.closing, s.close = context.WithCancelCause(context.Background())
	change, err := s.Update(s.options.Token, s.options.Callbacks)
	if err != nil {
		return nil, err
	}
	change()
	return s, nil
}

// Update prepares another token and other callbacks, which may be nil. The returned change applies
// them to all later requests, and cannot fail. If the token differs, running requests with the old
// one end.
func (s *Server) Update(token string, callbacks *callback.Receiver) (change func(), err error) {
	next, err := s.routes(terms{token, callbacks})
	if err != nil {
		return nil, err
	}
	next.Handler = s.recovered(s.answering(next.Handler))
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if token != s.token && s.serving.Load() != nil && !s.ended {
			s.close(errClosing)
			s.closing, s.close = context.WithCancelCause(context.Background())
		}
		s.token = token
		s.serving.Store(next)
	}, nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serving.Load().ServeHTTP(w, r) }

// Close ends the requests that would otherwise last: followers of messages, imports, exports and
// sign-ins that wait for a phone. Pass it to http.Server.RegisterOnShutdown, because Shutdown waits
// for all of them. Other requests are answered as before.
func (s *Server) Close() { s.end(errClosing) }

// Replaced is Close for a server that another one replaces, because the number of shards has
// changed. Callers may try again at once.
func (s *Server) Replaced() { s.end(circulate.ErrResharding) }

func (s *Server) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.close(why)
	if s.logins != nil {
		s.logins.Close()
	}
}

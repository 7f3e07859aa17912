package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/listen"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

const (
	shutdownTimeout = 5 * time.Second // for HTTP requests under way

	// headerTimeout is how long a request's header may take, bodyTimeout a whole request.
	// Streams instead have a time-out for each read.
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	// replyTimeout is how long a reply may take. Streams instead have a time-out for each
	// write.
	replyTimeout = time.Minute
	idleTimeout  = 2 * time.Minute
	// maxHeader has room for the cursor of a reader of messages in a ring of 16,384
	// shards.
	maxHeader = 256 << 10
	// opsConnections is how many connections the operators' routes have. They are
	// separate from the API's, so that a crowd there hides nothing.
	opsConnections = 64
)

// frontDoor is an HTTP server. It listens before anything else is ready.
type frontDoor struct {
	listener net.Listener
	http     *http.Server
	handler  atomic.Pointer[http.Handler]
	waiting  atomic.Pointer[error] // why the process is not ready yet
	log      *slog.Logger
	exposed  bool       // other machines can reach it
	ops      *frontDoor // serves the operators' routes beside the API; may be nil
}

// openFront opens the API's address and the address of the operators' routes, if the
// process has them. A listener that is not nil replaces the API's address. It returns nil if the
// process has neither.
func openFront(s settings.API, listener net.Listener, lookup settings.Lookup, registry prometheus.Registerer, log *slog.Logger) (*frontDoor, error) {
	var front *frontDoor
	options := listen.Options{Mode: fs.FileMode(s.SocketMode), Lookup: lookup}
	proxies, err := listen.ParseProxies(s.TrustedProxies)
	if err != nil {
		return nil, fmt.Errorf("ROUNDS_TRUSTED_PROXIES: %w", err)
	}
	if s.Roles.Has(settings.RoleAPI) {
		if listener == nil {
			if listener, err = listenAt("ROUNDS_API_ADDR", s.Addr, options); err != nil {
				return nil, err
			}
		}
		if front, err = serveAt(listener, "api", proxies, s.Connections, registry, log); err != nil {
			return nil, err
		}
	}
	if s.OpsAddr == "" {
		return front, nil
	}
	var ops *frontDoor
	if listener, err = listenAt("ROUNDS_OPS_ADDR", s.OpsAddr, options); err == nil {
		ops, err = serveAt(listener, "ops", proxies, opsConnections, registry, log)
	}
	if err != nil {
		if front != nil {
			front.close()
		}
		return nil, err
	}
	if front == nil {
		return ops, nil
	}
	front.ops = ops
	return front, nil
}

// ListenError says which setting has an address at which the process cannot listen.
type ListenError struct {
	Setting, Addr string
	Err           error
}

// Error names the setting.
func (e *ListenError) Error() string { return e.Setting + ": " + e.Err.Error() }

// Unwrap returns the system's error.
func (e *ListenError) Unwrap() error { return e.Err }

// dashboardAt returns the URL of the dashboard for a browser on this machine, or "" if a browser
// cannot reach the address.
func dashboardAt(addr net.Addr) string {
	at, ok := addr.(*net.TCPAddr)
	if !ok {
		return ""
	}
	host := at.IP.String()
	if at.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(at.Port)) + "/"
}

// listenAt opens an address of a setting. Its error is a *ListenError.
func listenAt(setting, addr string, options listen.Options) (net.Listener, error) {
	at, err := listen.Parse(addr)
	if err != nil {
		return nil, &ListenError{setting, addr, err}
	}
	listener, err := listen.Open(at, options)
	if err != nil {
		return nil, &ListenError{setting, addr, err}
	}
	return listener, nil
}

// serveAt answers at a listener that nothing is ready yet. After an error the listener is closed.
func serveAt(listener net.Listener, name string, proxies listen.Proxies, most int, registry prometheus.Registerer, log *slog.Logger) (*frontDoor, error) {
	f := &frontDoor{listener: listener, log: log, exposed: listen.Exposed(listener)}
	f.show(api.Starting(func() error {
		if why := f.waiting.Load(); why != nil {
			return *why
		}
		return nil // the first attempt has not ended
	}))
	limited := newConnections(listener, name, most, log)
	if err := registry.Register(limited); err != nil {
		_ = listener.Close()
		return nil, err
	}
	f.http = newHTTPServer(limited, func(w http.ResponseWriter, r *http.Request) {
		if listener.Addr().Network() == listen.Unix {
			r.RemoteAddr = listen.Unix // callers have no address: net reports @
		}
		r.RemoteAddr = proxies.Caller(r)
		(*f.handler.Load()).ServeHTTP(w, r)
	}, log)
	go func() {
		if err := f.http.Serve(limited); !errors.Is(err, http.ErrServerClosed) {
			log.Error("HTTP ended", "error", err)
		}
	}()
	log.Info("listening", "addr", listener.Addr().String(), "for", name)
	return f, nil
}

// warnOfDoors logs which open addresses are probably a mistake.
func (f *frontDoor) warnOfDoors(s settings.Settings) {
	ops := f.ops
	if !s.API.Roles.Has(settings.RoleAPI) {
		ops = f
	} else if f.exposed && s.API.Clear() {
		f.log.Warn("other machines can reach the API, and probably send their tokens in clear: put a proxy with TLS in front, and set ROUNDS_PUBLIC_URL=https://…")
	}
	if ops != nil && ops.exposed && s.Access.Token == "" {
		f.log.Warn("other machines can reach ROUNDS_OPS_ADDR, where /metrics demands the token or a key: without ROUNDS_API_TOKEN only keys are admitted")
	}
}

// demanded returns a function with the token that the operators' routes demand, or nil if they
// demand none.
func (f *frontDoor) demanded(current func() settings.Settings) func() string {
	if !f.exposed {
		return nil
	}
	return func() string { return current().Access.Token }
}

// newHTTPServer makes a server that never waits for a caller without a bound.
func newHTTPServer(limited *connections, handler http.HandlerFunc, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           limited.answer(handler),
		ConnContext:       limited.known,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      replyTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// show sets the handler for requests from now on.
func (f *frontDoor) show(h http.Handler) { f.handler.Store(&h) }

// wait sets why the process is not ready yet.
func (f *frontDoor) wait(why error) {
	f.waiting.Store(&why)
	if f.ops != nil {
		f.ops.wait(why)
	}
}

// shutDown lets requests under way end, within a bound and until hurry is closed.
func (f *frontDoor) shutDown(hurry <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	go func() {
		select {
		case <-hurry:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := f.http.Shutdown(ctx); err != nil {
		f.log.Warn("HTTP requests were cut off", "error", err)
	}
	if f.ops != nil {
		f.ops.shutDown(hurry)
	}
}

func (f *frontDoor) close() {
	_ = f.http.Close()
	if f.ops != nil {
		f.ops.close()
	}
}

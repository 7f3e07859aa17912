package api

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/signin"
)

// silent is what callers are told.
const silent = "Redis does not answer in time"

// errSilent reports that Redis does not answer now.
var errSilent = errors.New("api: Redis does not answer")

// silence ends what waits for a Redis that does not answer, long before the time-outs of its calls,
// which a busy Redis may need. So a person learns in three seconds why a page does not come.
type silence struct {
	check  func(context.Context) error // asks Redis for little
	first  time.Duration               // after which a request is watched
	within time.Duration               // in which Redis has to answer
}

// watch returns a context that ends with errSilent once Redis does not answer, and the function that
// ends the watch.
func (s silence) watch(ctx context.Context) (context.Context, context.CancelFunc) {
	watched, cancel := context.WithCancelCause(ctx)
	go func() {
		timer := time.NewTimer(s.first)
		defer timer.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-timer.C:
			}
			if s.ended(watched) {
				cancel(errSilent)
				return
			}
			timer.Reset(s.first)
		}
	}()
	return watched, func() { cancel(nil) }
}

// ended reports whether Redis does not answer in time. An error is an answer.
func (s silence) ended(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, s.within)
	defer cancel()
	return s.check(asking) != nil && asking.Err() != nil && ctx.Err() == nil
}

// answering lets next answer, and watches Redis while it makes a page. A call of Redis cannot be ended
// before its time-out, so the page that says why there is none does not wait for it.
func (s *Server) answering(next http.Handler) http.Handler {
	page := s.recovered(next) // in the page's own goroutine, whose stack a panic's log has
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isPage(r) || !wantsPage(r) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, stop := s.silence.watch(r.Context())
		defer stop()
		made := make(chan *madePage, 1)
		go func() { made <- makePage(page, r.WithContext(ctx)) }()
		select {
		case page := <-made:
			page.write(w)
		case <-ctx.Done(): // Redis is silent, or the caller has gone
			signin.Away(w, r, silent, s.options.Ring.AwaySince())
		}
	})
}

// madePage is a reply that was not sent yet.
type madePage struct {
	header http.Header
	status int
	body   bytes.Buffer
	panic  any // with which the connection is cut
}

func makePage(next http.Handler, r *http.Request) (p *madePage) {
	p = &madePage{header: make(http.Header), status: http.StatusOK}
	defer func() { p.panic = recover() }()
	next.ServeHTTP(p, r)
	return p
}

// write sends the reply, or panics as its handler did.
func (p *madePage) write(w http.ResponseWriter) {
	if p.panic != nil {
		panic(p.panic)
	}
	maps.Copy(w.Header(), p.header)
	w.WriteHeader(p.status)
	_, _ = p.body.WriteTo(w) // a caller that has gone needs no answer
}

// Header implements http.ResponseWriter.
func (p *madePage) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter. The first status counts.
func (p *madePage) WriteHeader(status int) {
	if p.body.Len() == 0 && p.status == http.StatusOK {
		p.status = status
	}
}

// Write implements http.ResponseWriter.
func (p *madePage) Write(part []byte) (int, error) { return p.body.Write(part) }

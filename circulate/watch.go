package circulate

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// watched is a server whose absence is told once, and its return once.
type watched struct {
	Server
	log *slog.Logger

	mu   sync.Mutex
	away time.Time // since when; zero while it serves
}

// Conn lends a connection and tells whether that was possible.
func (w *watched) Conn(ctx context.Context, key string) (redis.Conn, error) {
	conn, err := w.Server.Conn(ctx, key)
	if err != nil {
		w.note(err)
	}
	return conn, err
}

// note takes the outcome of a call.
func (w *watched) note(err error) {
	if errors.Is(err, context.Canceled) {
		return // our own doing
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch gone := Unavailable(err); {
	case gone && w.away.IsZero():
		w.away = time.Now()
		w.log.Warn("redis does not serve; trying again until it does", "error", err)
	case !gone && err == nil && !w.away.IsZero():
		w.log.Info("redis serves again", "away", time.Since(w.away).Round(time.Millisecond))
		w.away = time.Time{}
	}
}

func note(server Server, err error) {
	if w, ok := server.(*watched); ok {
		w.note(err)
	}
}

package wire_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

func TestFullRedisIsToldOnce(t *testing.T) {
	log := &told{}
	w := wire.New(absent{}, "rounds", wire.Options{Log: slog.New(log)})
	note := func(err error) { w.Note("", time.Now(), err) }
	full := redis.Error("OOM command not allowed when used memory > 'maxmemory'.")
	note(full)
	log.expect(t, "WARN redis is at its memory limit; it takes nothing more until something is trimmed or removed")
	now := time.Now()
	for range 50 { // steps that free succeed, those that add do not
		note(nil)
		note(full)
	}
	// A small write succeeds from time to time.
	w.NoteRoomAt("key", now.Add(time.Second))
	note(full)
	log.expect(t)
	w.NoteRoomAt("key", now.Add(time.Minute))
	w.NoteRoomAt("key", now.Add(2*time.Minute))
	log.expect(t, "INFO redis has room again")
}

package faketime_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/testing/faketime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const timeout = time.Second

// One INCR after the other meets a fate. The test expects what its caller gets, and
// whether the command was done all the same.
func TestFates(t *testing.T) {
	call := func(conn redis.Conn) error {
		_, err := redis.DoWithTimeout(conn, timeout, "INCR", "n")
		return err
	}
	pipeline := func(conn redis.Conn) error {
		if err := errors.Join(conn.Send("INCR", "n"), conn.Flush()); err != nil {
			return err
		}
		_, err := redis.ReceiveWithTimeout(conn, timeout)
		return err
	}
	faketime.Run(t, 1, func(w *faketime.World) {
		want := int64(0)
		for _, c := range []struct {
			at    faketime.Point
			fate  faketime.Fate
			do    func(conn redis.Conn) error
			cut   bool
			times int64
		}{
			{faketime.Connect, faketime.NotDone, nil, true, 0},
			{faketime.Call, faketime.Healthy, call, false, 1},
			{faketime.Call, faketime.NotDone, call, true, 0},
			{faketime.Call, faketime.ReplyLost, call, true, 1},
			{faketime.Called, faketime.ReplyLost, call, true, 1},
			{faketime.Called, faketime.ReplyLost, pipeline, false, 1}, // a pipeline has another point
			{faketime.Send, faketime.NotDone, pipeline, true, 0},
			{faketime.Receive, faketime.Healthy, pipeline, false, 1},
			{faketime.Receive, faketime.ReplyLost, pipeline, true, 1},
			{faketime.Notified, faketime.ReplyLost, pipeline, false, 1},
		} {
			w.Server.Set(func(s faketime.Step) faketime.Fate {
				if s.At == c.at {
					return c.fate
				}
				return faketime.Healthy
			})
			conn, err := w.Server.Conn(w.Context(), "{rounds:0}:messages")
			if err == nil {
				err = c.do(conn)
				_ = conn.Close()
			}
			if want += c.times; c.cut != errors.Is(err, faketime.ErrCut) || !c.cut && err != nil {
				w.Errorf("%d at %d: %v", c.fate, c.at, err)
			}
			if n, err := redis.Int64(w.Do("INCRBY", "n", 0), nil); n != want || err != nil {
				w.Errorf("%d at %d: done %d times, want %d: %v", c.fate, c.at, n, want, err)
			}
		}
	})
}

// A subscription receives something at a point of its own. A quiet one waits as long as
// it takes, however often it would be pinged.
func TestSubscriptions(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		faketime.Run(t, 1, func(w *faketime.World) {
			w.Server.Quiet = quiet
			told := 0
			w.Server.Set(func(s faketime.Step) faketime.Fate {
				if s.At == faketime.Notified {
					told++
				}
				return faketime.Healthy
			})
			conn, err := w.Server.Conn(w.Context(), "")
			if err != nil {
				w.Fatal(err)
			}
			defer conn.Close()
			if err := errors.Join(conn.Send("SUBSCRIBE", "c"), conn.Flush()); err != nil {
				w.Fatal(err)
			}
			if _, err := redis.ReceiveWithTimeout(conn, timeout); err != nil {
				w.Fatal(err)
			}
			published := make(chan struct{})
			go func() {
				defer close(published)
				time.Sleep(time.Hour)
				w.Do("PUBLISH", "c", "x")
			}()
			defer func() { <-published }()
			if err := errors.Join(conn.Send("PING"), conn.Flush()); err != nil {
				w.Fatal(err)
			}
			began := time.Now()
			_, err = redis.ReceiveWithTimeout(conn, timeout)
			if waited := time.Since(began); err != nil || told != 2 || quiet != (waited == time.Hour) {
				w.Errorf("quiet %t: told %d times, waited %v: %v", quiet, told, waited, err)
			}
		})
	}
}

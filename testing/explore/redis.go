package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/mutants"
)

// store is the embedded Redis, which does one operation at a time.
type store struct {
	embedded *connect.Embedded
	conn     redis.Conn
	scripts  *scripts
	loaded   map[string]string // digest that clients know -> digest of what runs
	shards   []string          // the tags of their keys
}

func openStore(s *scripts, shards []string) (*store, error) {
	e := connect.NewEmbedded()
	e.SetClock(frozen)
	conn, err := e.Conn(context.Background(), "")
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &store{embedded: e, conn: conn, scripts: s, loaded: make(map[string]string), shards: shards}, nil
}

func (s *store) close() error { return errors.Join(s.conn.Close(), s.embedded.Close()) }

// do does an operation and returns its reply as text.
func (s *store) do(o operation) (string, error) {
	for _, c := range o {
		args := make([]any, 0, len(c))
		for _, a := range c[1:] {
			args = append(args, a)
		}
		if c[0] == "EVALSHA" {
			sha, err := s.load(c[1])
			if err != nil {
				return "", err
			}
			args[0] = sha
		}
		if err := s.conn.Send(c[0], args...); err != nil {
			return "", err
		}
	}
	if err := s.conn.Flush(); err != nil {
		return "", err
	}
	replies := make([]any, len(o))
	for i := range replies {
		reply, err := s.conn.Receive()
		var failed redis.Error
		switch {
		case errors.As(err, &failed) && o[i][0] == "XINFO":
			reply = failed // there is no stream
		case errors.As(err, &failed):
			return "", fmt.Errorf("%s: %w", s.scripts.describe(o), err) // no step may fail here
		case err != nil:
			return "", err
		}
		replies[i] = reply
	}
	return encode(replies)
}

// elapse lets all time pass that is waited for, except due times: nothing keeps claims
// back any more, and what has moved did so long ago. Messages are read, and what
// normalise drops or levels does not travel with an account that moves.
func (s *store) elapse() error {
	m := s.embedded.Miniredis()
	if len(s.shards) == 1 {
		return nil
	}
	for _, shard := range s.shards {
		m.Del(shard + "messages")
		m.Del(shard + "strikes")
		if ids, err := m.HKeys(shard + "tickets"); err == nil {
			for _, id := range ids {
				m.HSet(shard+"tickets", id, level(m.HGet(shard+"tickets", id)))
			}
		}
		if m.Exists(shard + "leaving") {
			if err := m.Set(shard+"leaving", past); err != nil {
				return err
			}
		}
		fields, err := m.HKeys(shard + "departed")
		if err != nil {
			continue // there are none
		}
		for _, f := range fields {
			m.HSet(shard+"departed", f, past+m.HGet(shard+"departed", f)[len(past):])
		}
	}
	return nil
}

func (s *store) load(known string) (string, error) {
	if sha, ok := s.loaded[known]; ok {
		return sha, nil
	}
	if s.scripts.err != nil {
		return "", s.scripts.err
	}
	text, ok := s.scripts.text(known)
	if !ok {
		return "", fmt.Errorf("script %s was never sent", known)
	}
	sha, err := redis.String(s.conn.Do("SCRIPT", "LOAD", text))
	if err != nil {
		return "", fmt.Errorf("load %s: %w", mutants.ScriptName(text), err)
	}
	s.loaded[known] = sha
	return sha, nil
}

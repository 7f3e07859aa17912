package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"
)

// A recorded is one key of a Redis. Value has its content: one text; the elements of a list
// or set; fields and values of a hash in turn; members and scores of a sorted set in turn;
// of a stream the position of each entry, the number of its texts, and these.
type recorded struct {
	Key   string   `json:"key"`
	Type  string   `json:"type"`
	Value []string `json:"value"`
}

// keep ends all processes, and writes to a file what they have left in Redis.
func (f *fleet) keep(path string) error {
	for slot := range slots {
		if err := f.members[slot].Terminate(startTimeout); err != nil {
			return err
		}
		f.members[slot] = nil
	}
	conn, err := f.server.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	keys, err := redis.Strings(conn.Do("KEYS", "*"))
	if err != nil {
		return err
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, key := range keys {
		r, err := read(conn, key)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		b.Write(append(text, '\n'))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// read returns a key with its content.
func read(conn redis.Conn, key string) (recorded, error) {
	r := recorded{Key: key}
	var err error
	if r.Type, err = redis.String(conn.Do("TYPE", key)); err != nil {
		return r, err
	}
	switch r.Type {
	case "string":
		var text string
		text, err = redis.String(conn.Do("GET", key))
		r.Value = []string{text}
	case "list":
		r.Value, err = redis.Strings(conn.Do("LRANGE", key, 0, -1))
	case "set":
		r.Value, err = redis.Strings(conn.Do("SMEMBERS", key))
	case "hash":
		r.Value, err = redis.Strings(conn.Do("HGETALL", key))
	case "zset":
		r.Value, err = redis.Strings(conn.Do("ZRANGE", key, 0, -1, "WITHSCORES"))
	case "stream":
		var entries []any
		entries, err = redis.Values(conn.Do("XRANGE", key, "-", "+"))
		for _, entry := range entries {
			parts, partsErr := redis.Values(entry, nil)
			if partsErr != nil {
				return r, partsErr
			}
			at, atErr := redis.String(parts[0], nil)
			texts, textsErr := redis.Strings(parts[1], nil)
			if err := errors.Join(atErr, textsErr); err != nil {
				return r, err
			}
			r.Value = append(append(r.Value, at, fmt.Sprint(len(texts))), texts...)
		}
	default:
		err = fmt.Errorf("type %s", r.Type)
	}
	for _, text := range r.Value {
		if !utf8.ValidString(text) {
			return r, errors.New("has a text that is not UTF-8")
		}
	}
	return r, err
}

// write makes the key in another Redis.
func (r recorded) write(conn redis.Conn) error {
	command := map[string]string{"string": "SET", "list": "RPUSH", "set": "SADD", "hash": "HSET"}[r.Type]
	args := []any{r.Key}
	switch r.Type {
	case "zset":
		for i := 0; i+1 < len(r.Value); i += 2 {
			args = append(args, r.Value[i+1], r.Value[i])
		}
		command = "ZADD"
	case "stream":
		for rest := r.Value; len(rest) > 0; {
			var n int
			if _, err := fmt.Sscan(rest[1], &n); err != nil || n < 2 || len(rest) < 2+n {
				return fmt.Errorf("%s: unreadable: %w", r.Key, errors.Join(err, os.ErrInvalid))
			}
			entry := []any{r.Key, rest[0]}
			for _, text := range rest[2 : 2+n] {
				entry = append(entry, text)
			}
			if _, err := conn.Do("XADD", entry...); err != nil {
				return fmt.Errorf("%s: %w", r.Key, err)
			}
			rest = rest[2+n:]
		}
		return nil
	default:
		for _, text := range r.Value {
			args = append(args, text)
		}
	}
	if _, err := conn.Do(command, args...); err != nil {
		return fmt.Errorf("%s: %w", r.Key, err)
	}
	return nil
}

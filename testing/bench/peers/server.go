package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// server is a redis-server that this program started, in memory and without
// persistence.
type server struct {
	*redistest.Server
	conn redis.Conn
}

// startServer starts one in a directory of its own within dir.
func startServer(dir string, args ...string) (*server, error) {
	path, err := redistest.Find()
	if err != nil {
		return nil, err
	}
	own, err := os.MkdirTemp(dir, "redis")
	if err != nil {
		return nil, err
	}
	// asynq and the ring may hold thousands of connections between them.
	process, err := redistest.Launch(path, own, redistest.WithArgs(append([]string{"--maxclients", "20000", "--appendonly", "no"}, args...)...))
	if err != nil {
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	conn, err := redis.Dial("tcp", process.Addr())
	if err != nil {
		process.Kill()
		return nil, err
	}
	return &server{process, conn}, nil
}

func (s *server) stop() {
	_ = s.conn.Close()
	s.Kill()
	_ = os.RemoveAll(filepath.Clean(s.Dir))
}

func (s *server) flush() error {
	_, err := s.conn.Do("FLUSHALL")
	return err
}

// info returns the fields of a section of INFO.
func (s *server) info(section string) (map[string]string, error) {
	text, err := redis.String(s.conn.Do("INFO", section))
	if err != nil {
		return nil, fmt.Errorf("info %s: %w", section, err)
	}
	return parseFields(text), nil
}

// number returns one field of a section of INFO.
func (s *server) number(section, field string) (float64, error) {
	fields, err := s.info(section)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(fields[field], 64)
	if err != nil {
		return 0, fmt.Errorf("info %s, %s: %w", section, field, err)
	}
	return n, nil
}

// used is what servers have done since they started.
type used struct {
	cpu      float64 // seconds of processor time
	commands float64 // those of scripts included
	scripts  float64
}

// usage adds up what servers have done.
func usage(servers []*server) (used, error) {
	var u used
	for _, s := range servers {
		user, err := s.number("cpu", "used_cpu_user")
		system, err2 := s.number("cpu", "used_cpu_sys")
		commands, err3 := s.commands()
		if err := errors.Join(err, err2, err3); err != nil {
			return u, err
		}
		u.cpu += user + system
		for _, c := range commands {
			u.commands += c.calls
			if strings.HasPrefix(c.name, "eval") {
				u.scripts += c.calls
			}
		}
	}
	return u, nil
}

// memory returns how many bytes the server has allocated for its data, without its
// connections.
func (s *server) memory() (float64, error) {
	used, err := s.number("memory", "used_memory")
	clients, err2 := s.number("memory", "mem_clients_normal")
	return used - clients, errors.Join(err, err2)
}

// command is what INFO commandstats reports about one command. Calls inside a script
// count under their own names, and within the script's.
type command struct {
	name   string
	calls  float64
	micros float64
}

// commands returns what was called since the last reset.
func (s *server) commands() ([]command, error) {
	fields, err := s.info("commandstats")
	if err != nil {
		return nil, err
	}
	var all []command
	for name, text := range fields {
		name, ok := strings.CutPrefix(name, "cmdstat_")
		if !ok {
			continue
		}
		c := command{name: name}
		for field := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(field, "=")
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, fmt.Errorf("commandstats, %s: %w", name, err)
			}
			switch key {
			case "calls":
				c.calls = n
			case "usec":
				c.micros = n
			}
		}
		all = append(all, c)
	}
	return all, nil
}

func (s *server) resetCommands() error {
	_, err := s.conn.Do("CONFIG", "RESETSTAT")
	return err
}

// await asks until a condition holds, or until ctx ends.
func await(ctx context.Context, what string, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		if err := pause(ctx, pollEvery); err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
	}
}

// clusterInfo returns the fields of CLUSTER INFO.
func (s *server) clusterInfo() (map[string]string, error) {
	text, err := redis.String(s.conn.Do("CLUSTER", "INFO"))
	if err != nil {
		return nil, err
	}
	return parseFields(text), nil
}

// sum adds up the replies of a command for each key that a pattern matches.
func (s *server) sum(pattern, command string) (float64, error) {
	keys, err := redis.Strings(s.conn.Do("KEYS", pattern))
	if err != nil {
		return 0, err
	}
	var total int64
	for _, k := range keys {
		full := []any{k}
		if command == "MEMORY" {
			full = []any{"USAGE", k, "SAMPLES", 0}
		}
		n, err := redis.Int64(s.conn.Do(command, full...))
		if err != nil {
			return 0, fmt.Errorf("%s %s: %w", command, k, err)
		}
		total += n
	}
	return float64(total), nil
}

// parseFields reads lines of NAME:VALUE.
func parseFields(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

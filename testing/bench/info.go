package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// usedCPU returns how many seconds of processor time the server has used.
func usedCPU(server *connect.Single) (float64, error) {
	info, err := infoOf(server, "cpu")
	if err != nil {
		return 0, err
	}
	user, err := strconv.ParseFloat(info["used_cpu_user"], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(info["used_cpu_sys"], 64)
	return user + system, err
}

// usedMemory returns how many bytes the server has allocated.
func usedMemory(server *connect.Single) (float64, error) {
	info, err := infoOf(server, "memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(info["used_memory"], 64)
}

func infoOf(server *connect.Single, section string) (map[string]string, error) {
	conn, err := server.Conn(context.Background(), "")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	text, err := redis.String(conn.Do("INFO", section))
	if err != nil {
		return nil, fmt.Errorf("info %s: %w", section, err)
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// usedCommands returns how many commands the server has run, including those that scripts
// call.
func usedCommands(server *connect.Single) (float64, error) {
	info, err := infoOf(server, "stats")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(info["total_commands_processed"], 64)
}

// commandUse is how often a command was run and how long that took.
type commandUse struct{ calls, micros float64 }

// commandUses returns that of each command, those that scripts call among them.
func commandUses(server *connect.Single) (map[string]commandUse, error) {
	info, err := infoOf(server, "commandstats")
	if err != nil {
		return nil, err
	}
	uses := make(map[string]commandUse)
	for name, value := range info {
		name, ok := strings.CutPrefix(name, "cmdstat_")
		if !ok {
			continue
		}
		var u commandUse
		if _, err := fmt.Sscanf(value, "calls=%g,usec=%g", &u.calls, &u.micros); err != nil {
			return nil, fmt.Errorf("command %s: %q: %w", name, value, err)
		}
		uses[name] = u
	}
	return uses, nil
}

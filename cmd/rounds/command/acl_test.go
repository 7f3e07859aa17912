package command

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// guideACL returns the Redis user that the guide shows: the arguments of its ACL SETUSER, and
// separately the rules that the guide shows for a cluster and for Sentinel.
func guideACL(t *testing.T) (rules, elsewhere []string) {
	t.Helper()
	text := deployment(t, "guide/operations.md")
	_, rest, found := strings.Cut(text, "```sh\nredis-cli ACL SETUSER rounds ")
	block, rest, closed := strings.Cut(rest, "\n```\n")
	if !found || !closed || strings.Contains(block, "\nredis-cli") {
		t.Fatal("the guide shows no ACL SETUSER rounds")
	}
	rules = strings.Fields(strings.NewReplacer("\\\n", " ", "'", "").Replace(block))
	after, _, _ := strings.Cut(rest, "\n\n")
	for _, match := range regexp.MustCompile("`(\\+[^`]+)`").FindAllStringSubmatch(after, -1) {
		elsewhere = append(elsewhere, strings.Fields(match[1])...)
	}
	return rules, elsewhere
}

// allowed returns the commands that the rules allow, as commandstats names them.
func allowed(t *testing.T, rules []string) map[string]bool {
	t.Helper()
	commands := make(map[string]bool)
	for _, rule := range rules {
		command, ok := strings.CutPrefix(rule, "+")
		switch {
		case ok && strings.HasPrefix(command, "@"):
			t.Errorf("%s allows more than is named", rule)
		case ok:
			commands[command] = true
		}
	}
	return commands
}

// commandsOfSource returns the Redis commands that the program may send: all commands in its
// scripts, and every text in Go that looks like a command.
func commandsOfSource(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	inLua := regexp.MustCompile(`redis\.p?call\(['"]([A-Z]+)['"](?:, ['"]([A-Z]+)['"])?`)
	inGo := regexp.MustCompile(`(?:Command\{|\b(?:Do|DoContext|DoWithTimeout|Send|do|call)\((?:[\w.()]+, )*)"([A-Z]+)"(?:, "([A-Z]+)")?`)
	note := func(matches [][][]byte) {
		for _, m := range matches {
			name, second := strings.ToLower(string(m[1])), strings.ToLower(string(m[2]))
			if slices.Contains([]string{"xinfo", "xgroup", "config", "memory", "cluster", "client", "script"}, name) {
				name += "|" + second
			}
			found[name] = true
		}
	}
	for _, dir := range []string{"circulate", "accounts", "poller", "monitor", "cmd"} {
		err := filepath.WalkDir(filepath.Join(top, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			switch filepath.Ext(path) {
			case ".lua":
				note(inLua.FindAllSubmatch(text, -1))
			case ".go":
				if bytes.Contains(text, []byte("redis")) || bytes.Contains(text, []byte("wire.")) {
					note(inGo.FindAllSubmatch(text, -1))
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// TestUserOfTheGuideMayAllThatIsSent compares the guide with the source. Commands that are
// sent rarely must be allowed too.
func TestUserOfTheGuideMayAllThatIsSent(t *testing.T) {
	rules, elsewhere := guideACL(t)
	may := allowed(t, slices.Concat(rules, elsewhere))
	source := commandsOfSource(t)
	if len(source) < 60 {
		t.Fatalf("only %d commands are found: %v", len(source), slices.Sorted(maps.Keys(source)))
	}
	for _, command := range slices.Sorted(maps.Keys(source)) {
		switch command {
		case "config|get": // it would tell the server's passwords
			if may[command] {
				t.Errorf("the user of the guide may %s", command)
			}
		case "sentinel": // allowed for the sentinels' own users
		default:
			if !may[command] {
				t.Errorf("the source sends %s, which the user of the guide (Operations, Redis) may not: allow it there", command)
			}
		}
	}
}

// askRedis sends a command as the default user, who may send all commands.
func askRedis(t *testing.T, server *redistest.Server, args ...any) any {
	t.Helper()
	conn, err := server.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reply, err := conn.Do(fmt.Sprint(args[0]), args[1:]...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// startWithUser starts a Redis with the guide's user, and returns its URL for that user.
func startWithUser(t *testing.T, rules []string) (server *redistest.Server, url string) {
	t.Helper()
	server = redistest.Start(t, redistest.WithArgs("--maxmemory", "256mb", "--maxmemory-policy", "noeviction", "--appendonly", "yes", "--acllog-max-len", "1000"))
	args := []any{"ACL", "SETUSER", "rounds"}
	for _, rule := range rules {
		args = append(args, strings.Replace(rule, "PASSWORD", "correct-horse", 1))
	}
	askRedis(t, server, args...)
	askRedis(t, server, "CONFIG", "RESETSTAT")
	return server, strings.Replace(server.URL(), "redis://", "redis://rounds:correct-horse@", 1)
}

// refusedByRedis returns what Redis refused to the user.
func refusedByRedis(t *testing.T, server *redistest.Server) (refused []string) {
	t.Helper()
	entries, err := redis.Values(askRedis(t, server, "ACL", "LOG", 1000), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pairs, err := redis.Values(entry, nil)
		if err != nil {
			t.Fatal(err)
		}
		fields := make(map[string]string)
		for i := 0; i+1 < len(pairs); i += 2 {
			fields[fmt.Sprintf("%s", pairs[i])] = fmt.Sprintf("%s", pairs[i+1])
		}
		if fields["object"] == "config|get" {
			continue // see TestUserOfTheGuideMayAllThatIsSent
		}
		refused = append(refused, fmt.Sprintf("%s: %s %s (%s)", fields["username"], fields["reason"], fields["object"], fields["context"]))
	}
	return refused
}

// usedOfRedis returns the commands that Redis executed since the user was made, whether a
// client or a script called them.
func usedOfRedis(t *testing.T, server *redistest.Server) map[string]bool {
	t.Helper()
	text, err := redis.String(askRedis(t, server, "INFO", "commandstats"), nil)
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	for _, match := range regexp.MustCompile(`(?m)^cmdstat_([^:]+):calls=([1-9]\d*)`).FindAllStringSubmatch(text, -1) {
		used[match[1]] = true
	}
	return used
}

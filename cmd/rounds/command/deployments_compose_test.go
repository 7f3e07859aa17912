package command

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// composeFile is the part of the compose file that can be judged without Docker.
type composeFile struct {
	Services map[string]composeService
	Volumes  map[string]any
	Secrets  map[string]struct{ File string }
}

type composeService struct {
	Image       string
	Build       struct{ Context, Dockerfile string }
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct{ Test []string }
	Secrets     []string
	MemLimit    string         `yaml:"mem_limit"`
	PidsLimit   int            `yaml:"pids_limit"`
	Ulimits     map[string]int `yaml:"ulimits"`
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	var file composeFile
	if err := yaml.Unmarshal([]byte(deployment(t, "compose/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	return file
}

// expectCommand expects that the arguments are a command of the program, with flags that it
// has.
func expectCommand(t *testing.T, args []string) {
	t.Helper()
	cmd, rest, err := newRoot(environment{}).Find(args)
	if err != nil || len(args) == 0 || cmd.Name() != args[0] {
		t.Errorf("%q is no command: %v", args, err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", args, err)
	}
}

// expectVariables expects that each variable is a setting.
func expectVariables(t *testing.T, where string, variables map[string]string) {
	t.Helper()
	for name := range variables {
		if !strings.HasPrefix(name, "ROUNDS_") {
			t.Errorf("%s: %s is none of our variables", where, name)
		}
		if unknown := settings.UnknownVariables([]string{name + "="}); len(unknown) > 0 {
			t.Errorf("%s: there is no setting %s", where, name)
		}
	}
}

// TestComposeServices reads the file as Compose does. It compares the services with the
// commands and settings of the program, and with each other.
func TestComposeServices(t *testing.T) {
	file := readCompose(t)
	ours := 0
	for name, s := range file.Services {
		for other, how := range s.DependsOn {
			if _, ok := file.Services[other]; !ok || how.Condition == "service_healthy" && len(file.Services[other].Healthcheck.Test) == 0 {
				t.Errorf("%s waits for %s, which is not there or has no health", name, other)
			}
		}
		for _, volume := range s.Volumes {
			source, _, mounted := strings.Cut(volume, ":")
			if _, declared := file.Volumes[source]; !mounted || !declared && !strings.HasPrefix(source, "./") {
				t.Errorf("%s: volume %s is not declared", name, volume)
			}
		}
		for _, used := range s.Secrets {
			if _, ok := file.Secrets[used]; !ok {
				t.Errorf("%s: there is no secret %s", name, used)
			}
		}
		for _, value := range append(slices.Collect(maps.Values(s.Environment)), append(s.Command, s.Healthcheck.Test...)...) {
			for _, match := range regexp.MustCompile(`/run/secrets/([\w-]+)`).FindAllStringSubmatch(value, -1) {
				if !slices.Contains(s.Secrets, match[1]) {
					t.Errorf("%s reads the secret %s, which it has not", name, match[1])
				}
			}
		}
		if s.MemLimit == "" || s.PidsLimit == 0 || s.Ulimits["nofile"] != 65536 {
			t.Errorf("%s may take any memory, threads or files: %+v", name, s)
		}
		if core, ok := s.Ulimits["core"]; !ok || core != 0 {
			t.Errorf("%s may leave a core dump", name)
		}
		if s.Build.Context == "" {
			continue
		}
		ours++
		context := filepath.Join(top, "deployments", "compose", s.Build.Context)
		for _, path := range []string{filepath.Join(context, "go.mod"), filepath.Join(context, s.Build.Dockerfile)} {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s cannot be built: %v", name, err)
			}
		}
		expectCommand(t, s.Command)
		test := s.Healthcheck.Test
		if len(test) < 3 || test[0] != "CMD" || test[1] != "/rounds" {
			t.Fatalf("%s: the image has no shell for %q", name, test)
		}
		expectCommand(t, test[2:])
		expectVariables(t, name, s.Environment)
		if !strings.HasPrefix(s.Environment["ROUNDS_REDIS_URL"], "redis://rounds@redis:") {
			t.Errorf("%s: Redis at %q is none of the services", name, s.Environment["ROUNDS_REDIS_URL"])
		}
		for _, published := range s.Ports {
			if port := published[strings.LastIndexByte(published, ':')+1:]; !strings.HasSuffix(s.Environment["ROUNDS_API_ADDR"], ":"+port) {
				t.Errorf("%s publishes %s, and listens at %q", name, published, s.Environment["ROUNDS_API_ADDR"])
			}
		}
		if dir := s.Environment["ROUNDS_SECRETS_DIR"]; dir != "" && !slices.ContainsFunc(s.Volumes, func(v string) bool { return strings.Contains(v, ":"+dir+":") }) {
			t.Errorf("%s: nothing is mounted at %s", name, dir)
		}
	}
	if ours != 3 {
		t.Errorf("%d services are ours: %v", ours, slices.Sorted(maps.Keys(file.Services)))
	}
}

// TestComposeRedisStarts starts Redis with the arguments in the compose file.
func TestComposeRedisStarts(t *testing.T) {
	path := redistest.LookPath(t)
	command := readCompose(t).Services["redis"].Command
	if len(command) < 2 || command[0] != "redis-server" {
		t.Fatalf("command: %q", command)
	}
	private := composeInit(t)
	args := slices.Clone(command[1:])
	for i, arg := range args {
		args[i] = strings.Replace(arg, "/run/secrets/", private+"/", 1)
	}
	// The tests use no password. Redis reads the file of users all the same.
	users := filepath.Join(private, "redis-users")
	open := regexp.MustCompile(`(?m)^user default on #\w+`).ReplaceAllString(contentsOf(t, users), "user default on nopass")
	if err := os.Remove(users); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(users, []byte(open), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := redistest.Launch(path, t.TempDir(), redistest.WithArgs(args...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	conn, err := server.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	expectUser(t, server, contentsOf(t, filepath.Join(private, "redis-password")))
	for name, want := range map[string]string{"maxmemory": "2147483648", "appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"} {
		reply, err := conn.Do("CONFIG", "GET", name)
		if err != nil || !strings.Contains(fmt.Sprintf("%s", reply), want) {
			t.Errorf("%s is %s, want %s: %v", name, reply, want, err)
		}
	}
}

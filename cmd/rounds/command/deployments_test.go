package command

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// top is the repository's top folder.
const top = "../../.."

func deployment(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "deployments", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocksOf splits a YAML file at the keys of one depth. It needs no YAML reader, because the
// file is part of the project and indented in the usual way.
func blocksOf(text, indent string) map[string]string {
	blocks, name := make(map[string]string), ""
	key := regexp.MustCompile(`^` + indent + `([a-z][a-z-]*):`)
	for line := range strings.Lines(text) {
		if match := key.FindStringSubmatch(line); match != nil {
			name = match[1]
		}
		blocks[name] += line
	}
	return blocks
}

// variablesOf returns the settings that a text assigns.
func variablesOf(text string) map[string]string {
	found := make(map[string]string)
	for _, match := range regexp.MustCompile(`(?m)^\s*(ROUNDS_\w+)(?:: |=)(.*)$`).FindAllStringSubmatch(text, -1) {
		found[match[1]] = match[2]
	}
	return found
}

func TestComposeFile(t *testing.T) {
	text := deployment(t, "compose/compose.yaml")
	if strings.Contains(text, "\t") {
		t.Error("YAML knows no tabs")
	}
	parts := blocksOf(text, "")
	services := blocksOf(parts["services"], "  ")
	delete(services, "") // the line before the first service
	for name, want := range map[string][]string{
		"redis": {":-redis:7", "- --appendonly\n      - \"yes\"", "- everysec", "- noeviction", "redis-data:/data", "healthcheck:", "restart:"},
		"api":   {"<<: *rounds", "ROUNDS_ROLES: api\n", `"127.0.0.1:8080:8080"`, "ROUNDS_PUBLIC_URL: http://127.0.0.1:8080\n"},

		"poller":  {"<<: *rounds", "ROUNDS_ROLES: poller\n", "replicas: 3"},
		"monitor": {"<<: *rounds", "ROUNDS_ROLES: monitor\n", "replicas: 2"},
	} {
		for _, part := range want {
			if !strings.Contains(services[name], part) {
				t.Errorf("%s has no %q", name, part)
			}
		}
	}
	if names := slices.Sorted(maps.Keys(services)); !slices.Equal(names, []string{"api", "monitor", "poller", "redis"}) {
		t.Errorf("services: %v", names)
	}
	if ports := regexp.MustCompile(`(?m)^\s*- "?[0-9.:]+:\d+"?$`).FindAllString(text, -1); len(ports) != 1 {
		t.Errorf("published: %v, want the API only", ports)
	}
	for _, part := range []string{"restart: unless-stopped", `test: ["CMD", "/rounds", "health"]`, "condition: service_healthy", "\n  mem_limit: 2g\n", "\n    nofile: 65536\n", "\n    core: 0\n"} {
		if !strings.Contains(parts["x-rounds"], part) {
			t.Errorf("x-rounds has no %q", part)
		}
	}
	stop := regexp.MustCompile(`stop_grace_period: (\S+)`).FindStringSubmatch(parts["x-rounds"])
	if stop == nil {
		t.Fatal("no stop_grace_period")
	}
	private := composeInit(t)
	for _, name := range []string{"api", "poller", "monitor"} {
		variables := variablesOf(parts["x-environment"])
		maps.Copy(variables, variablesOf(services[name]))
		for variable, value := range variables {
			if file, ok := strings.CutPrefix(value, "/run/secrets/"); ok {
				variables[variable] = filepath.Join(private, file)
			}
		}
		if variables["ROUNDS_SECRETS_DIR"] != "" {
			variables["ROUNDS_SECRETS_DIR"] = t.TempDir()
		}
		s, err := read(t, variables)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := healthURL(s.API); err != nil {
			t.Errorf("%s: its health check fails: %v", name, err)
		}
		if s.Access.Token == "" || s.Redis.PasswordFile == "" {
			t.Errorf("%s has no token, or no password for Redis", name)
		}
		if s.Redis.URL == "" {
			t.Errorf("%s would start a Redis of its own", name)
		}
		if d, err := time.ParseDuration(stop[1]); err != nil || d <= s.Poller.GracePeriod {
			t.Errorf("%s is killed after %s, within its grace period of %v", name, stop[1], s.Poller.GracePeriod)
		}
	}
}

func TestSystemdUnit(t *testing.T) {
	section, unit := "", make(map[string]map[string]string)
	for line := range strings.Lines(deployment(t, "systemd/rounds.service")) {
		line = strings.TrimSuffix(line, "\n")
		name, value, assigned := strings.Cut(line, "=")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
			unit[section] = make(map[string]string)
		case !assigned || unit[section] == nil:
			t.Errorf("neither a section nor an assignment in one: %q", line)
		case unit[section][name] != "" && !slices.Contains([]string{"SystemCallFilter", "LoadCredential", "Environment"}, name):
			t.Errorf("%s is assigned twice", name)
		default:
			unit[section][name] += value + map[bool]string{true: "\n"}[name == "LoadCredential" || name == "Environment"]
		}
	}
	if sections := slices.Sorted(maps.Keys(unit)); !slices.Equal(sections, []string{"Install", "Service", "Unit"}) {
		t.Fatalf("sections: %v", sections)
	}
	service := unit["Service"]
	for name, want := range map[string]string{
		"Type": "notify", "ExecStart": "/usr/local/bin/rounds serve", "EnvironmentFile": "/etc/rounds/rounds.env", "DynamicUser": "yes",
		"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "CapabilityBoundingSet": "", "Restart": "always",
		"MemoryMax": "2G", "LimitNOFILE": "65536", "LimitCORE": "0", "TasksMax": "512",
	} {
		if got, ok := service[name]; !ok || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	s, err := read(t, installed(t).variables)
	if err != nil {
		t.Errorf("as it is installed: %v", err)
	}
	if d, err := time.ParseDuration(service["TimeoutStopSec"]); err != nil || d <= s.Poller.GracePeriod {
		t.Errorf("killed after %s, within the grace period of %v", service["TimeoutStopSec"], s.Poller.GracePeriod)
	}
	if d, err := time.ParseDuration(service["WatchdogSec"]); err != nil || d < 10*time.Second {
		t.Errorf("WatchdogSec is %s", service["WatchdogSec"])
	}
}

func TestDockerfile(t *testing.T) {
	text := deployment(t, "docker/Dockerfile")
	module, err := os.ReadFile(filepath.Join(top, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	for _, part := range []string{
		"ARG GO_IMAGE=golang:" + string(version[1]) + ".", "FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build\n", "CGO_ENABLED=0", "-trimpath",
		"FROM scratch\n", "USER 65532:65532", `ENTRYPOINT ["/rounds"]`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %q", part)
		}
	}
	commands := regexp.MustCompile(`CMD \[(?:"/rounds", )?"(\w+)"\]`).FindAllStringSubmatch(text, -1)
	if len(commands) != 2 {
		t.Fatalf("commands: %v", commands)
	}
	for _, command := range commands {
		if cmd, _, err := newRoot(environment{}).Find([]string{command[1]}); err != nil || cmd.Name() != command[1] {
			t.Errorf("there is no command %q: %v", command[1], err)
		}
	}
}

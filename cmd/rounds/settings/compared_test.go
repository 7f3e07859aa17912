package settings

import (
	"strings"
	"testing"
)

func TestCompared(t *testing.T) {
	read := func(variables map[string]string) Settings {
		t.Helper()
		s, err := Read(func(name string) (string, bool) {
			value, ok := variables[name]
			return value, ok
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	long := "feed/* rate=2/s concurrency=4; " + strings.Repeat("http/a rate=1/s;", 10)
	one := read(map[string]string{"ROUNDS_ROLES": "poller", "ROUNDS_LIMITS": long, "ROUNDS_API_TOKEN": "verysecret-012345", "ROUNDS_REDIS_URL": "redis://u:p@h"}).Compared()
	for name, want := range map[string]string{"ROUNDS_CONCURRENCY": "256", "ROUNDS_CHECK_TIMEOUT": "30s", "ROUNDS_LONG_TIMEOUT": "5m0s", "ROUNDS_ALLOW_PRIVATE_ADDRESSES": "false"} {
		if one[name] != want {
			t.Errorf("%s is %q", name, one[name])
		}
	}
	for name, value := range one {
		if strings.Contains(value, "secret") || strings.Contains(name, "TOKEN") || strings.Contains(name, "REDIS_URL") || strings.Contains(name, "_ADDR") && !strings.Contains(name, "ADDRESSES") {
			t.Errorf("%s=%s is told", name, value)
		}
		if len(value) > 100 {
			t.Errorf("%s has %d bytes", name, len(value))
		}
	}
	for _, name := range []string{"ROUNDS_AUDIT_INTERVAL", "ROUNDS_API_FOLLOWERS", "ROUNDS_LOG_LEVEL", "ROUNDS_WEBHOOKS_FROM"} {
		if value, ok := one[name]; ok {
			t.Errorf("a poller tells %s=%s", name, value)
		}
	}
	other := read(map[string]string{"ROUNDS_ROLES": "monitor", "ROUNDS_LIMITS": long}).Compared()
	if _, ok := other["ROUNDS_LIMITS"]; ok || other["ROUNDS_AUDIT_INTERVAL"] != "10m0s" || other["ROUNDS_LONG_TIMEOUT"] != "5m0s" {
		t.Errorf("a monitor tells %v", other)
	}
	if front := read(map[string]string{"ROUNDS_ROLES": "api", "ROUNDS_REDIS_URL": "redis://h", "ROUNDS_SECRETS_PUBLIC_KEY": "one", "ROUNDS_SECRETS_KEY": "two"}).Compared(); front["ROUNDS_SECRETS_PUBLIC_KEY"] != "one" || front["ROUNDS_SECRETS_KEY"] != "" {
		t.Errorf("an API tells %v", front)
	}
	// Settings that decide where calls may go are compared in all processes that judge
	// calls or make them.
	for _, role := range []string{"api", "poller", "delivery"} {
		told := read(map[string]string{
			"ROUNDS_ROLES": role, "ROUNDS_REDIS_URL": "redis://h", "ROUNDS_ALLOW_NETWORKS": "10.1.0.0/16", "ROUNDS_PROXY": "http://user:verysecret@proxy:3128",
		}).Compared()
		if told["ROUNDS_ALLOW_NETWORKS"] != "10.1.0.0/16" || told["ROUNDS_PROXY"] != "http://proxy:3128" || told["ROUNDS_SECRETS_UNBOUND"] != "allow" {
			t.Errorf("a process with the role %s tells %v", role, told)
		}
	}
	// The ends of long values count, too.
	if last := read(map[string]string{"ROUNDS_ROLES": "poller", "ROUNDS_LIMITS": long + "http/b rate=1/s"}).Compared()["ROUNDS_LIMITS"]; last == one["ROUNDS_LIMITS"] || !strings.HasPrefix(last, "feed/* rate=2/s") {
		t.Errorf("%q and %q", last, one["ROUNDS_LIMITS"])
	}
}

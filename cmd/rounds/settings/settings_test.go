package settings

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/circulate"
)

// read reads settings from variables and flags.
func read(t *testing.T, variables map[string]string, args ...string) (Settings, error) {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(flags)
	AddAccessFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Read(lookupIn(variables), flags)
}

// lookupIn returns a Lookup of these variables alone.
func lookupIn(variables map[string]string) Lookup {
	return func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
}

// An empty list of roles on the command line is no wish for all of them.
func TestNoRolesAreRefused(t *testing.T) {
	for _, given := range []string{"", " "} {
		if _, err := read(t, map[string]string{"ROUNDS_REDIS_URL": "redis://h"}, "--roles", given); err == nil || !strings.Contains(err.Error(), "must name a role") {
			t.Errorf("--roles %q: %v", given, err)
		}
	}
	if s, err := read(t, map[string]string{"ROUNDS_REDIS_URL": "redis://h", "ROUNDS_ROLES": ""}); err != nil || len(s.API.Roles) != 3 {
		t.Errorf("ROUNDS_ROLES=: %v, %v", s.API.Roles, err)
	}
}

func TestSettingsDefaults(t *testing.T) {
	want := Settings{
		Redis:  Redis{DataWithin: 5 * time.Minute, Namespace: circulate.DefaultNamespace, Timeline: 100_000},
		API:    API{Roles: Roles{"api", "poller", "monitor"}, Addr: "127.0.0.1:8080", Auth: "auto", SocketMode: 0o660, Connections: 1024, Followers: 256, SendsWaiting: 1000, SendsInAll: 1_000_000, Dashboard: true, TrailKept: 100_000},
		Access: Access{URL: "http://127.0.0.1:8080"},
		OIDC:   OIDC{GroupsClaim: "groups"},
		Poller: Poller{
			Concurrency: 256, HeldChecks: 20_000, KeptConnections: 8192, CheckTimeout: 30 * time.Second, HeartbeatInterval: 2 * time.Second, GracePeriod: 20 * time.Second, ConfirmSynced: true,
			MemoryMark: 85, AccountShare: 64, SecretsUnbound: Allow,
		},
		Monitor: Monitor{
			LongTimeout: 5 * time.Minute, SweepInterval: 5 * time.Second, DeadAfter: 10 * time.Second, QuarantineAfter: 5, AuditInterval: 10 * time.Minute, MessageRetention: 7 * 24 * time.Hour,
			MessagesKept: 10_000_000, DeadRetention: 720 * time.Hour, DeadKept: 100_000,
		},
		Delivery: Delivery{WebhooksFrom: "start"},
		Keeping:  Keeping{Most: 100, AtOnce: 8, WhenFull: "stop", Retention: 7 * 24 * time.Hour, Links: 24 * time.Hour},
		Log:      Log{Level: slog.LevelInfo, Format: "auto"},
	}
	empty := make(map[string]string)
	for _, s := range all() {
		empty[s.Name] = " "
	}
	for name, variables := range map[string]map[string]string{"unset": nil, "set to nothing": empty} {
		if got, err := read(t, variables); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, want)
		}
	}
}

func TestSettingsFlagsGoFirst(t *testing.T) {
	variables := map[string]string{"ROUNDS_CONCURRENCY": "7", "ROUNDS_ROLES": "monitor", "ROUNDS_NAMESPACE": "other"}
	s, err := read(t, variables, "--concurrency", "9", "--roles=poller, api", "--allow-private-addresses", "--namespace=")
	if err != nil {
		t.Fatal(err)
	}
	if s.Poller.Concurrency != 9 || !slices.Equal(s.API.Roles, Roles{"api", "poller"}) || !s.Poller.AllowPrivate || s.Redis.Namespace != "rounds" {
		t.Errorf("got %+v", s)
	}
}

func TestSettingsReportEveryFault(t *testing.T) {
	_, err := read(t, map[string]string{
		"ROUNDS_REDIS_URL":               "http://user:s3cret@redis:6379?password=s3cret",
		"ROUNDS_REDIS_CERT_FILE":         "/nowhere/cert.pem",
		"ROUNDS_NAMESPACE":               "a b",
		"ROUNDS_SHARDS":                  "16385",
		"ROUNDS_ROLES":                   "api,worker",
		"ROUNDS_API_ADDR":                "8080",
		"ROUNDS_API_TOKEN":               "s3cret token",
		"ROUNDS_API_URL":                 "localhost:8080",
		"ROUNDS_OPS_ADDR":                "127.0.0.1:99999",
		"ROUNDS_CONCURRENCY":             "lots",
		"ROUNDS_CHECK_TIMEOUT":           "30",
		"ROUNDS_LONG_TIMEOUT":            "-5m",
		"ROUNDS_SWEEP_INTERVAL":          "0s",
		"ROUNDS_GRACE_PERIOD":            "2h",
		"ROUNDS_ALLOW_PRIVATE_ADDRESSES": "perhaps",
		"ROUNDS_SECRETS_DIR":             "/nowhere",
		"ROUNDS_LOG_LEVEL":               "loud",
		"ROUNDS_LOG_FORMAT":              "xml",
	}, "--dead-after", "5s")
	if err == nil {
		t.Fatal("no error")
	}
	got := err.Error()
	for _, want := range []string{
		`ROUNDS_REDIS_URL is "http://xxxxx@redis:6379?xxxxx": must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://`,
		`ROUNDS_REDIS_CERT_FILE is "/nowhere/cert.pem": must be a file that can be read: there is none`,
		`ROUNDS_REDIS_KEY_FILE: must be set where ROUNDS_REDIS_CERT_FILE is`,
		`ROUNDS_NAMESPACE is "a b": must be 1 to 64 letters`,
		`ROUNDS_SHARDS is "16385": must be a whole number from 0 to 16384`,
		`ROUNDS_ROLES is "api,worker": must be one or more of api, poller, monitor, delivery, separated by commas`,
		`ROUNDS_API_ADDR is "8080": must be HOST:PORT`,
		`ROUNDS_API_TOKEN: must hold printable ASCII without spaces`,
		`ROUNDS_API_URL is "localhost:8080": must be a URL such as http://`,
		`ROUNDS_OPS_ADDR is "127.0.0.1:99999": must be HOST:PORT`,
		`ROUNDS_CONCURRENCY is "lots": must be a whole number from 1 to 100000`,
		`ROUNDS_CHECK_TIMEOUT is "30": must be a duration such as 90s, 5m or 1h30m, from 10ms to 1h`,
		`ROUNDS_LONG_TIMEOUT is "-5m": must be a duration`,
		`ROUNDS_SWEEP_INTERVAL is "0s": must be a duration`,
		`ROUNDS_DEAD_AFTER (given as --dead-after) is "5s": must be at least 6s, three times ROUNDS_HEARTBEAT_INTERVAL`,
		`ROUNDS_GRACE_PERIOD is "2h": must be a duration`,
		`ROUNDS_ALLOW_PRIVATE_ADDRESSES is "perhaps": must be true or false`,
		`ROUNDS_SECRETS_DIR is "/nowhere": must be a directory`,
		`ROUNDS_LOG_LEVEL is "loud": must be one of debug, info, warn, error`,
		`ROUNDS_LOG_FORMAT is "xml": must be one of auto, text, json`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not reported: %s", want)
		}
	}
	if lines := strings.Count(got, "\n") + 1; lines != 20 {
		t.Errorf("%d lines, want 20", lines)
	}
	if strings.Contains(got, "s3cret") {
		t.Error("a secret is quoted")
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestSettingsAgainstEachOther(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	short := filepath.Join(t.TempDir(), "short")
	for path, text := range map[string]string{file: "s3cret-0123456789\n", short: "s3cret-01234567\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name      string
		variables map[string]string
		want      string // empty: no fault
	}{
		{"long enough", map[string]string{"ROUNDS_LONG_TIMEOUT": "60s"}, ""},
		{"too short", map[string]string{"ROUNDS_LONG_TIMEOUT": "59s"}, `ROUNDS_LONG_TIMEOUT is "59s": must be at least 1m0s, twice ROUNDS_CHECK_TIMEOUT`},
		{"too short by default", map[string]string{"ROUNDS_CHECK_TIMEOUT": "3m"}, `ROUNDS_LONG_TIMEOUT is "5m" by default: must be at least 6m0s`},
		{"no time for held calls", map[string]string{"ROUNDS_CHECK_TIMEOUT": "1s", "ROUNDS_LONG_TIMEOUT": "2900ms"}, `ROUNDS_LONG_TIMEOUT is "2900ms": must be at least 3s: a shorter one leaves no time in which third parties may hold calls`},
		{"a little time for held calls", map[string]string{"ROUNDS_CHECK_TIMEOUT": "1s", "ROUNDS_LONG_TIMEOUT": "3s"}, ""},
		{"dead too soon", map[string]string{"ROUNDS_HEARTBEAT_INTERVAL": "4s"}, `ROUNDS_DEAD_AFTER is "10s" by default: must be at least 12s`},
		{"open without a token", map[string]string{"ROUNDS_API_ADDR": ":8080"}, `ROUNDS_API_TOKEN: must be set, because ROUNDS_API_ADDR ":8080" is not a loopback`},
		{"open with a token", map[string]string{"ROUNDS_API_ADDR": ":8080", "ROUNDS_API_TOKEN": "s3cret-0123456789"}, ""},
		{"open with a token file", map[string]string{"ROUNDS_API_ADDR": ":8080", "ROUNDS_API_TOKEN_FILE": file}, ""},
		{"open to keys", map[string]string{"ROUNDS_API_ADDR": ":8080", "ROUNDS_API_AUTH": "required"}, ""},
		{"open to keys or a token", map[string]string{"ROUNDS_API_ADDR": ":8080", "ROUNDS_API_AUTH": "auto"}, `ROUNDS_API_TOKEN: must be set`},
		{"another way in", map[string]string{"ROUNDS_API_AUTH": "none"}, `ROUNDS_API_AUTH is "none": must be one of auto, required`},
		{"open without the role", map[string]string{"ROUNDS_API_ADDR": ":8080", "ROUNDS_ROLES": "poller"}, ""},
		{"loopback by name", map[string]string{"ROUNDS_API_ADDR": "localhost:0"}, ""},
		{"loopback, IPv6", map[string]string{"ROUNDS_API_ADDR": "[::1]:8080"}, ""},
		{"two tokens", map[string]string{"ROUNDS_API_TOKEN": "s3cret-0123456789", "ROUNDS_API_TOKEN_FILE": file}, "ROUNDS_API_TOKEN_FILE is"},
		{"short token", map[string]string{"ROUNDS_API_TOKEN": "s3cret-01234567"}, "ROUNDS_API_TOKEN: must hold at least 16 characters, as `openssl rand -hex 32` makes them"},
		{"short token in a file", map[string]string{"ROUNDS_API_TOKEN_FILE": short}, "ROUNDS_API_TOKEN_FILE is "},
		{"a socket", map[string]string{"ROUNDS_API_ADDR": "unix:/run/rounds/api.sock", "ROUNDS_API_URL": "unix:///run/rounds/api.sock", "ROUNDS_API_SOCKET_MODE": "0600"}, ""},
		{"systemd's socket", map[string]string{"ROUNDS_API_ADDR": "systemd:api", "ROUNDS_OPS_ADDR": "systemd:ops"}, ""},
		{"a relative socket", map[string]string{"ROUNDS_API_ADDR": "unix:api.sock"}, `ROUNDS_API_ADDR is "unix:api.sock": must be unix: with an absolute path`},
		{"a relative socket to call", map[string]string{"ROUNDS_API_URL": "unix://api.sock"}, `ROUNDS_API_URL is "unix://api.sock": must have an absolute path`},
		{"permissions", map[string]string{"ROUNDS_API_SOCKET_MODE": "1777"}, `ROUNDS_API_SOCKET_MODE is "1777": must be three octal digits, such as 660`},
		{"public URL", map[string]string{"ROUNDS_PUBLIC_URL": "https://rounds.example.com/"}, ""},
		{"public URL of a path", map[string]string{"ROUNDS_PUBLIC_URL": "https://rounds.example.com/x"}, `ROUNDS_PUBLIC_URL is "https://rounds.example.com/x": must be a URL`},
		{"user in the URL", map[string]string{"ROUNDS_API_URL": "http://me:s3cret@host"}, `ROUNDS_API_URL is "http://xxxxx@host": must not hold a user`},
		{"unpaired key", map[string]string{"ROUNDS_REDIS_KEY_FILE": file}, "ROUNDS_REDIS_CERT_FILE: must be set"},
	} {
		_, err := read(t, c.variables)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		case err != nil && strings.Contains(err.Error(), "s3cret"):
			t.Errorf("%s: a secret is quoted: %v", c.name, err)
		}
	}
	s, err := read(t, map[string]string{"ROUNDS_API_TOKEN_FILE": file})
	if err != nil || s.Access.Token != "s3cret-0123456789" {
		t.Errorf("token file: got %q, %v", s.Access.Token, err)
	}
}

// Commands that call the API must work even if the service's own settings are wrong.
func TestReadAccessMindsItsOwnSettings(t *testing.T) {
	a, err := ReadAccess(lookupIn(map[string]string{"ROUNDS_API_URL": "https://rounds.example/", "ROUNDS_CONCURRENCY": "lots"}), nil)
	if err != nil || a.URL != "https://rounds.example" {
		t.Errorf("got %+v, %v", a, err)
	}
	if _, err := ReadAccess(lookupIn(map[string]string{"ROUNDS_API_URL": "rounds"}), nil); err == nil {
		t.Error("a bad URL is taken")
	}
}

func TestUnknownVariables(t *testing.T) {
	got := UnknownVariables([]string{
		"PATH=/bin", "ROUNDS_CONCURENCY=9", "ROUNDS_CONCURRENCY=9", "ROUNDS_SECRET_CRM=x", "ROUNDS_TEST_REQUIRE_REDIS=1",
		"ROUNDS_PORT=tcp://10.0.0.1:8080", "ROUNDS_PORT_8080_TCP_ADDR=10.0.0.1", "ROUNDS_API_SERVICE_HOST=10.0.0.1", "ROUNDS_ADDR=",
	})
	if want := []string{"ROUNDS_ADDR", "ROUNDS_CONCURENCY"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The table of settings is written by hand, in struct tags that the compiler does not
// check.
func TestSettingsTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range all() {
		if !strings.HasPrefix(s.Name, "ROUNDS_") || seen[s.Name] || s.About == "" {
			t.Errorf("%+v: no name of ours, or not the only one, or no meaning", s)
		}
		seen[s.Name] = true
		if serviceLinks().MatchString(s.Name) {
			t.Errorf("%s looks like a service link", s.Name)
		}
		switch s.kind {
		case reflect.TypeFor[int]():
			_, minErr := strconv.Atoi(s.min)
			_, maxErr := strconv.Atoi(s.max)
			if minErr != nil || maxErr != nil {
				t.Errorf("%s: bounds %q and %q", s.Name, s.min, s.max)
			}
			if s.Name == "ROUNDS_SHARDS" && s.max != strconv.Itoa(circulate.MaxShards) {
				t.Errorf("%s: at most %s, the ring has %d", s.Name, s.max, circulate.MaxShards)
			}
		case reflect.TypeFor[time.Duration]():
			_, minErr := time.ParseDuration(s.min)
			_, maxErr := time.ParseDuration(s.max)
			if minErr != nil || maxErr != nil {
				t.Errorf("%s: bounds %q and %q", s.Name, s.min, s.max)
			}
		}
	}
}

// Without a Redis, one process has everything to itself. Settings that need more are
// refused, because the variable that should name a Redis is probably misspelt.
func TestWithoutARedis(t *testing.T) {
	for name, tt := range map[string]struct {
		variables map[string]string
		want      string
	}{
		"a laptop":  {map[string]string{"HOME": "/home/me"}, ""},
		"no home":   {nil, "ROUNDS_DATA_DIR: must be set, because the environment names no home directory"},
		"in memory": {map[string]string{"ROUNDS_DATA_DIR": "memory"}, ""},
		"off loopback, in memory": {map[string]string{"ROUNDS_DATA_DIR": "memory", "ROUNDS_API_ADDR": "0.0.0.0:8080", "ROUNDS_API_TOKEN": "0123456789abcdef"},
			`ROUNDS_DATA_DIR is "memory": must not be memory, because ROUNDS_API_ADDR "0.0.0.0:8080"`},
		"off loopback, by default": {map[string]string{"HOME": "/home/me", "ROUNDS_API_ADDR": "0.0.0.0:8080", "ROUNDS_API_TOKEN": "0123456789abcdef"},
			`ROUNDS_REDIS_URL: must be set, or ROUNDS_DATA_DIR, because ROUNDS_API_ADDR "0.0.0.0:8080"`},
		"off loopback, in a directory": {map[string]string{"ROUNDS_DATA_DIR": "/var/lib/rounds", "ROUNDS_API_ADDR": "0.0.0.0:8080", "ROUNDS_API_TOKEN": "0123456789abcdef"}, ""},
		"one role":                     {map[string]string{"ROUNDS_ROLES": "poller"}, "ROUNDS_REDIS_URL: must be set, because ROUNDS_ROLES is without api"},
		"no monitor":                   {map[string]string{"ROUNDS_ROLES": "api,poller"}, "ROUNDS_REDIS_URL: must be set, because ROUNDS_ROLES is without monitor"},
		"replicas of its Redis":        {map[string]string{"HOME": "/home/me", "ROUNDS_CONFIRM_REPLICAS": "1"}, `ROUNDS_CONFIRM_REPLICAS is "1": must be 0 where ROUNDS_REDIS_URL is not set`},
		"a role that is none":          {map[string]string{"ROUNDS_ROLES": "pollr"}, `ROUNDS_ROLES is "pollr"`},
		"with one":                     {map[string]string{"ROUNDS_ROLES": "poller", "ROUNDS_REDIS_URL": "redis://127.0.0.1:6379"}, ""},
	} {
		_, err := Read(lookupIn(tt.variables), nil, InProcess)
		if name == "a role that is none" && strings.Contains(fmt.Sprint(err), "ROUNDS_REDIS_URL") {
			t.Errorf("%s: one mistake is told twice: %v", name, err)
		}
		if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestLikely(t *testing.T) {
	for unknown, want := range map[string]string{
		"ROUNDS_REDIS_URI": "ROUNDS_REDIS_URL", "ROUNDS_REDISURL": "ROUNDS_REDIS_URL", "ROUNDS_CONCURENCY": "ROUNDS_CONCURRENCY",
		"ROUNDS_ADDR": "ROUNDS_API_ADDR", "ROUNDS_URL": "ROUNDS_REDIS_URL", "ROUNDS_ROLE": "ROUNDS_ROLES", "ROUNDS_HTTPS_PROXY": "ROUNDS_PROXY", "ROUNDS_BANANAS_AND_PEARS": "",
	} {
		if got := Likely(unknown); got != want {
			t.Errorf("%s: %q, want %q", unknown, got, want)
		}
	}
}

// Tokens travel in clear, unless the public URL says that something adds TLS or that nobody
// calls from elsewhere.
func TestAPIIsClear(t *testing.T) {
	for url, want := range map[string]bool{"": true, "http://rounds.example.com": true, "https://rounds.example.com": false, "http://127.0.0.1:8080": false, "http://localhost:8080": false} {
		if got := (API{PublicURL: url}).Clear(); got != want {
			t.Errorf("%q: %t", url, got)
		}
	}
}

func TestSettingsOfAnIdentityProvider(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(" s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := read(t, map[string]string{"ROUNDS_OIDC_ISSUER": "https://login.example.com", "ROUNDS_OIDC_CLIENT_ID": "rounds",
		"ROUNDS_OIDC_CLIENT_SECRET_FILE": file, "ROUNDS_PUBLIC_URL": "https://rounds.example/", "ROUNDS_OIDC_ROLES": "ops=admin"})
	if err != nil || s.OIDC.ClientSecret != "s3cret" || s.OIDC.RedirectURL != "https://rounds.example/signin/callback" || s.OIDC.GroupsClaim != "groups" {
		t.Errorf("got %+v, %v", s.OIDC, err)
	}
	for _, name := range []string{"ROUNDS_OIDC_CLIENT_ID", "ROUNDS_OIDC_CLIENT_SECRET", "ROUNDS_OIDC_REDIRECT_URL", "ROUNDS_OIDC_ROLES"} {
		if _, err := read(t, map[string]string{name: "s3cret"}); err == nil || !strings.Contains(err.Error(), "ROUNDS_OIDC_ISSUER: must be set where "+name+" is") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s alone: %v", name, err)
		}
	}
	_, err = read(t, map[string]string{"ROUNDS_OIDC_ISSUER": "https://login.example.com", "ROUNDS_OIDC_CLIENT_SECRET": "s3cret", "ROUNDS_OIDC_CLIENT_SECRET_FILE": file})
	if err == nil || !strings.Contains(err.Error(), "ROUNDS_OIDC_CLIENT_SECRET_FILE") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("both: %v", err)
	}
}

// One mistake is one line: an address that is none says nothing about where data is
// stored.
func TestAnAddressThatIsNone(t *testing.T) {
	_, err := Read(func(name string) (string, bool) {
		value, ok := map[string]string{"ROUNDS_API_ADDR": "18101"}[name]
		return value, ok
	}, nil, InProcess)
	if err == nil || strings.Contains(err.Error(), "ROUNDS_REDIS_URL") || !strings.Contains(err.Error(), "ROUNDS_API_ADDR") {
		t.Errorf("got %v", err)
	}
}

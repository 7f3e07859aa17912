package settings

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/listen"
)

func (r *reading) checkRedis(s *Redis) {
	if s.URL != "" {
		switch scheme, rest, _ := strings.Cut(s.URL, "://"); {
		case rest == "":
			r.fault("ROUNDS_REDIS_URL", "must be a URL such as redis://HOST:PORT")
		case !slices.Contains([]string{"redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}, scheme):
			r.fault("ROUNDS_REDIS_URL", "must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://")
		}
	}
	if err := circulate.ValidateNamespace(s.Namespace); err != nil {
		r.fault("ROUNDS_NAMESPACE", err.Error())
	}
	for _, file := range []struct{ name, path string }{
		{"ROUNDS_REDIS_PASSWORD_FILE", s.PasswordFile}, {"ROUNDS_REDIS_SENTINEL_PASSWORD_FILE", s.SentinelPasswordFile},
	} {
		if file.path != "" && s.URL == "" {
			r.fault(file.name, "must not be set where ROUNDS_REDIS_URL is not: it says where to use the password")
		} else {
			r.checkFile(file.name, file.path)
		}
	}
	r.checkFile("ROUNDS_REDIS_CA_FILE", s.CAFile)
	r.checkFile("ROUNDS_REDIS_CERT_FILE", s.CertFile)
	r.checkFile("ROUNDS_REDIS_KEY_FILE", s.KeyFile)
	if s.CertFile != "" && s.KeyFile == "" {
		r.fault("ROUNDS_REDIS_KEY_FILE", "must be set where ROUNDS_REDIS_CERT_FILE is")
	}
	if s.KeyFile != "" && s.CertFile == "" {
		r.fault("ROUNDS_REDIS_CERT_FILE", "must be set where ROUNDS_REDIS_KEY_FILE is")
	}
}

// checkFile tries to open a file, if one is named. It does not open a pipe, because that
// would consume its content.
func (r *reading) checkFile(name, path string) {
	if path == "" {
		return
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		err = errors.New("it is a directory")
	}
	if err == nil && info.Mode().IsRegular() {
		var file *os.File
		if file, err = os.Open(path); err == nil {
			_ = file.Close()
		}
	}
	if err != nil {
		r.fault(name, "must be a file that can be read: "+reasonOf(err))
	}
}

// checkAccess validates the token, which it first reads from its file if there is one.
func (r *reading) checkAccess(s *Access) {
	tokenName := "ROUNDS_API_TOKEN"
	switch {
	case s.TokenFile == "":
	case s.Token != "":
		r.fault("ROUNDS_API_TOKEN_FILE", "must not be set where ROUNDS_API_TOKEN is")
	default:
		tokenName = "ROUNDS_API_TOKEN_FILE"
		text, err := os.ReadFile(s.TokenFile)
		if err != nil {
			r.fault(tokenName, "must be a file that can be read: "+reasonOf(err))
			break
		}
		s.Token = strings.TrimSpace(string(text))
		if s.Token == "" {
			r.fault(tokenName, "must be a file that holds a token: it is empty")
		}
	}
	if strings.ContainsFunc(s.Token, func(c rune) bool { return c > unicode.MaxASCII || !unicode.IsGraphic(c) || c == ' ' }) {
		r.fault(tokenName, "must hold printable ASCII without spaces")
	}
	u, err := url.Parse(s.URL)
	if err == nil && u.Scheme == "unix" {
		if _, err := listen.Parse("unix:" + u.Path); err != nil || u.Host != "" || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" {
			r.fault("ROUNDS_API_URL", "must have an absolute path behind unix://, such as unix:///run/rounds/api.sock")
		}
	} else if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		r.fault("ROUNDS_API_URL", "must be a URL such as http://127.0.0.1:8080, or unix:///run/rounds/api.sock")
	} else if u.User != nil {
		r.fault("ROUNDS_API_URL", "must not hold a user: the token goes into ROUNDS_API_TOKEN")
	}
	s.URL = strings.TrimRight(s.URL, "/")
}

// minToken is the least number of characters of a token. A shorter one can be guessed.
const minToken = 16

// checkServed validates what a serving process demands of callers. A command sends
// whatever token it was given; the API decides whether it is valid.
func (r *reading) checkServed(s *Settings) {
	name := "ROUNDS_API_TOKEN"
	if s.Access.TokenFile != "" {
		name = "ROUNDS_API_TOKEN_FILE"
	}
	if n := len(s.Access.Token); n > 0 && n < minToken && !r.bad[name] {
		r.fault(name, fmt.Sprintf("must hold at least %d characters, as `openssl rand -hex 32` makes them", minToken))
	}
	if s.API.PublicURL == "" {
		return
	}
	u, err := url.Parse(s.API.PublicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		r.fault("ROUNDS_PUBLIC_URL", "must be a URL such as https://rounds.example.com, without a path")
	}
	s.API.PublicURL = strings.TrimRight(s.API.PublicURL, "/")
}

// Clear reports whether callers from other machines send their tokens in clear, as far as the
// settings show: nothing adds TLS, and callers are not restricted to this machine.
func (a API) Clear() bool {
	u, err := url.Parse(a.PublicURL)
	return err != nil || u.Scheme != "https" && !loopback(net.JoinHostPort(u.Hostname(), "0"))
}

// InProcess is a check for Read, for a process that would serve with a Redis of its own. It refuses
// roles that need a shared Redis, because no other process would see that Redis. It accepts callers
// from other machines only if a setting says where their accounts are stored.
func InProcess(s Settings) error {
	if s.Redis.URL != "" || len(s.API.Roles) == 0 { // wrong roles are already reported
		return nil
	}
	if s.Poller.ConfirmReplicas > 0 {
		return Faults{{"ROUNDS_CONFIRM_REPLICAS", "must be 0 where ROUNDS_REDIS_URL is not set: the Redis in this process has no replicas"}}
	}
	for _, role := range []string{RoleAPI, RolePoller, RoleMonitor} {
		if !s.API.Roles.Has(role) {
			return Faults{{"ROUNDS_REDIS_URL", fmt.Sprintf("must be set, because ROUNDS_ROLES is without %s: in this process no other one could see the accounts", role)}}
		}
	}
	if _, err := listen.Parse(s.API.Addr); err != nil {
		return nil // the fault is already reported
	}
	if !loopback(s.API.Addr) && s.Redis.DataDir == Memory {
		return Faults{{"ROUNDS_DATA_DIR", fmt.Sprintf("must not be memory, because ROUNDS_API_ADDR %q is not a loopback address: what others register must not be forgotten when this process, or its container, ends; name a directory, or set ROUNDS_REDIS_URL", s.API.Addr)}}
	}
	if !loopback(s.API.Addr) && !s.Redis.DataGiven {
		return Faults{{"ROUNDS_REDIS_URL", fmt.Sprintf("must be set, or ROUNDS_DATA_DIR, because ROUNDS_API_ADDR %q is not a loopback address: what others register must not be forgotten when this process, or its container, ends", s.API.Addr)}}
	}
	if s.Redis.DataDir == "" {
		return Faults{{"ROUNDS_DATA_DIR", "must be set, because " + errHomeless.Error() + ": name a directory, or memory to keep nothing; or set ROUNDS_REDIS_URL"}}
	}
	return nil
}

func (r *reading) checkAddresses(s *Settings) {
	r.checkAddress("ROUNDS_API_ADDR", s.API.Addr)
	if s.API.OpsAddr != "" {
		r.checkAddress("ROUNDS_OPS_ADDR", s.API.OpsAddr)
	}
	if _, err := listen.ParseProxies(s.API.TrustedProxies); err != nil {
		r.fault("ROUNDS_TRUSTED_PROXIES", err.Error())
	}
	wantsToken := s.API.Roles.Has(RoleAPI) && !r.bad["ROUNDS_API_ADDR"] && !loopback(s.API.Addr)
	if wantsToken && s.Access.Token == "" && !s.API.KeysRequired() && !r.bad["ROUNDS_API_TOKEN_FILE"] {
		r.fault("ROUNDS_API_TOKEN", fmt.Sprintf("must be set, because ROUNDS_API_ADDR %q is not a loopback address; or set ROUNDS_API_AUTH=required, to let in keys alone", s.API.Addr))
	}
	if dir := s.Poller.SecretsDir; dir != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			r.fault("ROUNDS_SECRETS_DIR", "must be a directory")
		}
	}
	if _, err := secret.Hosts(s.Poller.SecretsPlainHosts); err != nil {
		r.fault("ROUNDS_SECRETS_PLAIN_HOSTS", "must be hosts: "+strings.ReplaceAll(strings.ReplaceAll(err.Error(), "hosts: ", ""), "\n", "; "))
	}
}

func (r *reading) checkAddress(name, addr string) {
	if _, err := listen.Parse(addr); err != nil {
		r.fault(name, err.Error())
	}
}

// loopback reports whether only this machine can reach an address.
func loopback(addr string) bool {
	a, err := listen.Parse(addr)
	return err == nil && a.Local()
}

// LeastLongTimeout is poller.LeastLongTimeout, which settings do not import.
const LeastLongTimeout = 3 * time.Second

// checkTimes compares times with each other. It leaves out times that have a fault of their own, so
// that one mistake is one line.
func (r *reading) checkTimes(s *Settings) {
	if !r.bad["ROUNDS_LONG_TIMEOUT"] && !r.bad["ROUNDS_CHECK_TIMEOUT"] && s.Monitor.LongTimeout < 2*s.Poller.CheckTimeout {
		r.fault("ROUNDS_LONG_TIMEOUT", fmt.Sprintf("must be at least %v, twice ROUNDS_CHECK_TIMEOUT: "+
			"a shorter one takes accounts from checks that are still under way", 2*s.Poller.CheckTimeout))
	}
	if !r.bad["ROUNDS_LONG_TIMEOUT"] && s.Monitor.LongTimeout < LeastLongTimeout {
		r.fault("ROUNDS_LONG_TIMEOUT", fmt.Sprintf("must be at least %v: "+
			"a shorter one leaves no time in which third parties may hold calls", LeastLongTimeout))
	}
	if !r.bad["ROUNDS_DEAD_AFTER"] && !r.bad["ROUNDS_HEARTBEAT_INTERVAL"] && s.Monitor.DeadAfter < 3*s.Poller.HeartbeatInterval {
		r.fault("ROUNDS_DEAD_AFTER", fmt.Sprintf("must be at least %v, three times ROUNDS_HEARTBEAT_INTERVAL: "+
			"a shorter one takes a replica for dead that missed one heartbeat", 3*s.Poller.HeartbeatInterval))
	}
}

// reasonOf drops the part of a file's error that the line already says.
func reasonOf(err error) string {
	if os.IsNotExist(err) {
		return "there is none"
	}
	if os.IsPermission(err) {
		return "permission denied"
	}
	return err.Error()
}

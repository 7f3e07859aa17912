package service

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller"
)

func TestSettingsReportFaultsOfLimits(t *testing.T) {
	const want = `ROUNDS_LIMITS is "feed rate=2/s; mail/* rate=2/s": rule 2, "mail/* rate=2/s": kind "mail" is not known`
	if _, err := read(map[string]string{"ROUNDS_LIMITS": "feed rate=2/s; mail/* rate=2/s"}); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSettingsReportFaultsOfWebhooks(t *testing.T) {
	path := writeFile(t, `{"endpoints":[{"name":"CRM","url":"http://127.0.0.1/","secrets":[{"secret":"A"}]},{"name":"b","secret":"s3cret"}]}`)
	_, err := read(map[string]string{"ROUNDS_WEBHOOKS_FILE": path, "ROUNDS_CONCURRENCY": "lots", "ROUNDS_WEBHOOKS_FROM": "then", "ROUNDS_MESSAGES_KEPT": "-1"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"endpoints[0].name: must be 1 to 56", "endpoints[0].url: must not be a private address", "endpoints[1].secret: unknown field", "endpoints[1].url: missing",
		"endpoints[1].secrets: missing", "ROUNDS_CONCURRENCY", "ROUNDS_WEBHOOKS_FROM", "ROUNDS_MESSAGES_KEPT",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s", want)
		}
	}
	if strings.Contains(err.Error(), "s3cret") || t.Failed() {
		t.Log(err)
	}
	if _, err := read(map[string]string{"ROUNDS_WEBHOOKS_FILE": "/nowhere/webhooks.json"}); err == nil || !strings.Contains(err.Error(), "must be a file that can be read: there is none") {
		t.Errorf("no file: %v", err)
	}
	good := writeFile(t, `{"endpoints":[]}`)
	if s, err := read(map[string]string{"ROUNDS_WEBHOOKS_FILE": good, "ROUNDS_ROLES": "delivery,api"}); err != nil || !slices.Equal(s.API.Roles, settings.Roles{"api", "delivery"}) {
		t.Errorf("%+v, %v", s.API, err)
	}
}

// A limit for a way out is for one that there is.
func TestLimitsOfWaysAreChecked(t *testing.T) {
	with := map[string]string{"ROUNDS_EGRESS": "berlin direct", "ROUNDS_LIMITS": "egress/* rate=1/s; egress/berlin concurrency=2"}
	if _, err := read(with); err != nil {
		t.Error(err)
	}
	with["ROUNDS_LIMITS"] = "egress/paris rate=1/s"
	if _, err := read(with); err == nil || !strings.Contains(err.Error(), `ROUNDS_LIMITS is "egress/paris rate=1/s": egress/paris: ROUNDS_EGRESS has no way of that name`) {
		t.Errorf("a way that there is not: %v", err)
	}
}

func TestSettingsReportFaultsOfTheProxy(t *testing.T) {
	_, err := read(map[string]string{"ROUNDS_PROXY": "socks5://me:s3cret@proxy:1080", "ROUNDS_NO_PROXY": "a.example,http://b.example", "ROUNDS_LIMITS": "mail rate=2/s", "ROUNDS_CONTACT": "me@example.com"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"ROUNDS_PROXY", "must be a URL such as http://proxy.example.com:3128", `ROUNDS_NO_PROXY is "a.example,http://b.example": "http://b.example" is neither`, `kind "mail" is not known`, `ROUNDS_CONTACT is "me@example.com": must be a URL`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
	s, err := read(map[string]string{"ROUNDS_PROXY": "http://me:s3cret@proxy:3128", "ROUNDS_NO_PROXY": "10.0.0.0/8"})
	if err != nil || s.Poller.Proxy != "http://me:s3cret@proxy:3128" {
		t.Errorf("%+v, %v", s.Poller, err)
	}
	if _, err := NewClient(settings.Poller{Proxy: "proxy"}, Options{}); err == nil || !strings.Contains(err.Error(), "ROUNDS_PROXY") {
		t.Error(err)
	}
}

func TestSettingsReportFaultsOfCallbacks(t *testing.T) {
	path := writeFile(t, `{"callbacks":[{"name":"a","corp_id":"ww1","token":{"secret":"SHORT"},"aes_key":{"secret":"SHORT"}},
		{"name":"b","corp_id":"ww2","token":{"secret":"NONE"},"aes_key":{"secret":"NONE"}}]}`)
	_, err := read(map[string]string{callbacksFile: path, "ROUNDS_SERVICE_SECRET_SHORT": "s3-cret", "ROUNDS_CONCURRENCY": "lots"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"callbacks[0].token: the secret must be 1 to 32", "callbacks[0].aes_key: the secret must be an EncodingAESKey",
		"callbacks[1].token: secret NONE: is neither", "callbacks[1].aes_key: secret NONE:", "ROUNDS_CONCURRENCY"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "s3-cret") {
		t.Error(err)
	}
	if _, err := read(map[string]string{callbacksFile: writeFile(t, `{"callbacks":[{"name":"A"}]}`)}); err == nil || !strings.Contains(err.Error(), "callbacks[0].name: must be 1 to 56") {
		t.Error(err)
	}
	if _, err := read(map[string]string{callbacksFile: "/nowhere/callbacks.json"}); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Error(err)
	}
	if _, err := read(map[string]string{callbacksFile: path, "ROUNDS_ROLES": "poller"}); err != nil {
		t.Errorf("a process without the API needs their secrets: %v", err)
	}
}

// pigeons is a kind that the service does not know.
type pigeons struct{ poller.Checker }

func (pigeons) Kind() string { return "pigeon" }

// twice is a kind that the service already has.
type twice struct{ poller.Checker }

func (twice) Kind() string { return "feed" }

// nameless is a kind without a name.
type nameless struct{ poller.Checker }

func (nameless) Kind() string { return "" }

func made(checker poller.Checker) Kind {
	return func(Tools) (poller.Checker, error) { return checker, nil }
}

func TestKindsMayBeAdded(t *testing.T) {
	s := settings.Settings{Poller: settings.Poller{Limits: "pigeon rate=2/s"}}
	if err := Validate(s, Options{}); err == nil {
		t.Error("a kind that is not known: no error")
	}
	if err := Validate(s, Options{Kinds: []Kind{made(pigeons{})}}); err != nil {
		t.Error(err)
	}
	var faults settings.Faults
	if err := Validate(s, Options{Kinds: []Kind{made(twice{})}}); err == nil || errors.As(err, &faults) {
		t.Errorf("a kind that there is already: %v", err)
	}
	for want, kind := range map[string]Kind{
		"is nil":          nil,
		"made no checker": made(nil),
		"has no name":     made(nameless{}),
		"no loft":         func(Tools) (poller.Checker, error) { return nil, errors.New("no loft") },
	} {
		err := Validate(s, Options{Kinds: []Kind{made(pigeons{}), kind}})
		if err == nil || err.Error() != "kind 2 of the program's own: "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	lent := false
	if _, err := NewCheckers(s.Poller, Options{Kinds: []Kind{func(tools Tools) (poller.Checker, error) {
		lent = tools.Client != nil && tools.Log != nil && tools.Metrics != nil
		return pigeons{}, nil
	}}}); err != nil || !lent {
		t.Errorf("the tools are not whole: %v", err)
	}
}

func TestRedisURLsAndPasswordsAreJudged(t *testing.T) {
	file := writeFile(t, "hunter2\n")
	for name, tt := range map[string]struct {
		redis settings.Redis
		name  string
		want  string
	}{
		"good":             {settings.Redis{URL: "redis://u@h:1", PasswordFile: file}, "", ""},
		"unescaped slash":  {settings.Redis{URL: "redis://:hunter2/x@h:1"}, "ROUNDS_REDIS_URL", "must be percent-encoded there (%2F %3F %23 %40 %25), or be in a file that ROUNDS_REDIS_PASSWORD_FILE names"},
		"unescaped at":     {settings.Redis{URL: "redis://:hunter2@1/hunter2@h:1"}, "ROUNDS_REDIS_URL", "must be percent-encoded"},
		"unescaped number": {settings.Redis{URL: "redis://:hunter2#x@h:1"}, "ROUNDS_REDIS_URL", "must be percent-encoded"},
		"another fault":    {settings.Redis{URL: "redis://h:99999"}, "ROUNDS_REDIS_URL", "the port must be 1 to 65535"},
		"two passwords":    {settings.Redis{URL: "redis://:hunter2@h:1", PasswordFile: file}, "ROUNDS_REDIS_URL", "must not hold a password where there is a file for it"},
		"an empty file":    {settings.Redis{URL: "redis://h:1", PasswordFile: writeFile(t, "\n")}, "ROUNDS_REDIS_PASSWORD_FILE", "is empty"},
		"no file":          {settings.Redis{URL: "redis+sentinel://h:1/m", SentinelPasswordFile: file + "x"}, "ROUNDS_REDIS_SENTINEL_PASSWORD_FILE", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Validate(settings.Settings{Redis: tt.redis}, Options{})
			var faults settings.Faults
			if tt.name == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Name != tt.name || !strings.Contains(faults[0].Reason, tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %s: %s", err, tt.name, tt.want)
			}
		})
	}
}

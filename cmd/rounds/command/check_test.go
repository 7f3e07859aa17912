package command

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/byhand"
	"github.com/rounds-dev/rounds/testing/upstream"
	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

func startUpstream(t *testing.T, o upstream.Options) *upstream.Upstream {
	t.Helper()
	u, stop, err := upstream.Serve(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return u
}

var private = map[string]string{"ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true"}

func TestCheck(t *testing.T) {
	u := startUpstream(t, upstream.Options{})
	u.PostN("a", 5)
	args := []string{"check", "--kind", "http", "--set", "url=" + u.URL("connector", "a") + "?key=s3cret", "--limit", "2"}
	got, err := runWith(t.Context(), private, "", append(args, "--pages", "2")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind     http, account check, limit 2, timeout 30s", "?xxxxx", "page 1   2 messages in ", "from the beginning", "a-1", "a-4", `{"number":3}`, "cursor   4", "more     there is another page"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in\n%s", want, got.out)
		}
	}
	if strings.Contains(got.out, "s3cret") || strings.Contains(got.out, "a-5") {
		t.Errorf("got\n%s", got.out)
	}
	got, err = runWith(t.Context(), private, "", append(args, "--cursor", "4", "--json")...)
	var run checkRun
	if err != nil || json.Unmarshal([]byte(got.out), &run) != nil || len(run.Pages) != 1 || len(run.Pages[0].Messages) != 1 ||
		run.Pages[0].Messages[0].ID != "a-5" || run.Pages[0].NextCursor != "5" || run.Error != nil || strings.Contains(got.out, "s3cret") {
		t.Errorf("got %s, %v", got.out, err)
	}
}

func TestCheckOfAMailbox(t *testing.T) {
	s, err := imapd.Start("none")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Post("me", 2)
	variables := map[string]string{"ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true", "ROUNDS_SECRET_MAIL": imapd.Password, "ROUNDS_SECRET_OLD": "0ld-passw0rd"}
	args := []string{"check", "--kind", "imap", "--config", `{"host":"127.0.0.1","tls":"none","user":"me"}`, "--set", "port=" + itoa(s.Port)}
	got, err := runWith(t.Context(), variables, "", append(args, "--set", `password={"secret":"MAIL"}`)...)
	if err != nil || !strings.Contains(got.out, "cursor   1:2") || !strings.Contains(got.out, `"subject":"mail 2"`) || strings.Contains(got.out, imapd.Password) {
		t.Errorf("got %v\n%s", err, got.out)
	}
	got, err = runWith(t.Context(), variables, "", append(args, "--set", `password={"secret":"OLD"}`)...)
	if !errors.Is(err, errCheckFailed) || !strings.Contains(got.out, "failed   auth, scope account, code authenticationfailed") ||
		!strings.Contains(got.out, "a poller checks again, and parks the account after 3 refusals") || strings.Contains(got.out, "0ld") {
		t.Errorf("got %v\n%s", err, got.out)
	}
}

// own is a kind of a program's own, whose methods a test replaces.
type own struct {
	poller.Checker
	check    func() (poller.Result, error)
	validate func() error
	hold     time.Duration
}

func (own) Kind() string                                                   { return "own" }
func (o own) Validate(json.RawMessage) error                               { return o.validate() }
func (own) RateKey(json.RawMessage) string                                 { return "" }
func (o own) Hold(json.RawMessage) time.Duration                           { return o.hold }
func (o own) Check(context.Context, poller.Request) (poller.Result, error) { return o.check() }

// checkOwn runs "rounds check" with a kind of the program's own.
func checkOwn(t *testing.T, o own) (output, error) {
	t.Helper()
	var out, errs strings.Builder
	env := testEnvironment(nil)
	env.stdin, env.stdout, env.stderr = strings.NewReader(""), &out, &errs
	env.kinds = []Kind{func(Tools) (poller.Checker, error) { return o, nil }}
	if o.validate == nil {
		o.validate = func() error { return nil }
	}
	err := run(t.Context(), []string{"check", "--kind", "own"}, env)
	return output{out.String(), errs.String()}, err
}

// The developer of a kind sees at a terminal what nothing else shows: the text of an error that is
// no *CheckError, and the stack of a panic, also of one in Validate.
func TestCheckTellsADeveloperTheError(t *testing.T) {
	plain := func() (poller.Result, error) { return poller.Result{}, errors.New("dial pigeon:7: no\x1b[31m route") }
	got, err := checkOwn(t, own{check: plain})
	if !errors.Is(err, errCheckFailed) || !strings.Contains(got.err, `dial pigeon:7: no\x1b[31m route`) || strings.Contains(got.out, "pigeon") {
		t.Errorf("an error: %v\n%s\n%s", err, got.out, got.err)
	}
	got, err = checkOwn(t, own{check: func() (poller.Result, error) { panic("no loft") }})
	if !errors.Is(err, errCheckFailed) || !strings.Contains(got.err, "panicked: no loft\ngoroutine ") || !strings.Contains(got.err, "check_test.go") || strings.Contains(got.out, "loft") {
		t.Errorf("a panic: %v\n%s\n%s", err, got.out, got.err)
	}
	got, err = checkOwn(t, own{check: plain, validate: func() error { panic("no loft") }})
	if !errors.Is(err, byhand.ErrPanicked) || !strings.Contains(got.err, "panicked: no loft\ngoroutine ") {
		t.Errorf("a panic of Validate: %v\n%s\n%s", err, got.out, got.err)
	}
}

// A page with one message is counted in the singular, and a failure without words says what it lacks.
func TestCheckHasNoHoles(t *testing.T) {
	one := func() (poller.Result, error) {
		return poller.Result{Messages: []poller.Message{{ID: "1", Data: []byte(`1`)}}, Cursor: []byte("1")}, nil
	}
	if got, err := checkOwn(t, own{check: one}); err != nil || !strings.Contains(got.out, "page 1   1 message in ") {
		t.Errorf("%v\n%s", err, got.out)
	}
	empty := func() (poller.Result, error) { return poller.Result{}, &poller.CheckError{} }
	if got, err := checkOwn(t, own{check: empty}); !errors.Is(err, errCheckFailed) || !strings.Contains(got.out, "failed   transient, scope account, code bad_result, in ") || !strings.Contains(got.out, "the checker's error has neither a code nor a message") {
		t.Errorf("%v\n%s", err, got.out)
	}
}

// A kind whose calls are held is tried without waiting, and the output says so.
func TestCheckOfAHeldKindSaysThatItDoesNotWait(t *testing.T) {
	nothing := func() (poller.Result, error) { return poller.Result{}, nil }
	const says = "held     a trial does not wait; a poller's call is held for up to 5s"
	if got, err := checkOwn(t, own{check: nothing, hold: 5 * time.Second}); err != nil || !strings.Contains(got.out, says) {
		t.Errorf("%v\n%s", err, got.out)
	}
	if got, err := checkOwn(t, own{check: nothing}); err != nil || strings.Contains(got.out, "held") {
		t.Errorf("not held: %v\n%s", err, got.out)
	}
}

func itoa(n int) string {
	raw, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func TestCheckThatCannotBegin(t *testing.T) {
	for want, args := range map[string][]string{
		`kind: "pigeon" is not known`: {"--kind", "pigeon"},
		"config.url: missing":         {"--kind", "feed", "--set", "uri=x"},
		"config.uri: unknown field":   {"--kind", "feed", "--set", "uri=x"},
		"must not be a private address; this command needs ROUNDS_ALLOW_NETWORKS=127.0.0.1:80": {"--kind", "feed", "--set", "url=http://127.0.0.1/"},
		"--pages and --limit":             {"--kind", "feed", "--set", "url=http://example.com/", "--pages", "0"},
		"--cursor: the text after":        {"--kind", "feed", "--set", "url=http://example.com/", "--cursor", "base64:?"},
		"--hint is not JSON":              {"--kind", "feed", "--set", "url=http://example.com/", "--hint", "{"},
		"--kind is missing: ":             {},
		"must be a duration such as 90s,": {"--kind", "feed", "--set", "url=http://example.com/", "--check-timeout", "soon"},
	} {
		if _, err := runWith(t.Context(), nil, "", append([]string{"check"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", args, err, want)
		}
	}
}

// The error for a missing secret says where to put it. The store is not searched.
func TestCheckWithoutItsSecret(t *testing.T) {
	got, err := runWith(t.Context(), private, "", "check", "--kind", "http", "--set", "url=http://127.0.0.1:1/", "--set", `signing_secret={"secret":"ACME"}`)
	if !errors.Is(err, errCheckFailed) || !strings.HasSuffix(err.Error(), "; stored secrets are in Redis and are not found here") ||
		!strings.Contains(got.out, " ACME: is neither a file of ROUNDS_SECRETS_DIR nor ROUNDS_SECRET_ACME") {
		t.Errorf("%v\n%s", err, got.out)
	}
}

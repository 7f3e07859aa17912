package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestSecretKeygen(t *testing.T) {
	got, err := runWith(t.Context(), nil, "", "secret", "keygen", "--json")
	var pair struct{ Private, Public, ID string }
	if err != nil || json.Unmarshal([]byte(got.out), &pair) != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	keys, err := secrets.ParseKeys(pair.Private)
	if err != nil || keys.Newest().String() != pair.Public || keys.Newest().ID() != pair.ID {
		t.Errorf("%+v, %v", pair, err)
	}
	got, err = runWith(t.Context(), nil, "", "secret", "keygen")
	if err != nil || !strings.Contains(got.out, "\nROUNDS_SECRETS_KEY=rounds-private-1_") || !strings.Contains(got.out, "\nROUNDS_SECRETS_PUBLIC_KEY=rounds-public-1_") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSecretCommands(t *testing.T) {
	s := startAPI(t)
	s.must("secret", "list")
	for stdin, args := range map[string][]string{
		"":                                     {"secret", "set", "KF"},
		"\n":                                   {"secret", "set", "KF"},
		"x":                                    {"secret", "set", "two words"},
		"y":                                    {"secret", "set", "KF", "--host", "https://a.example"},
		"z":                                    {"secret", "set", "KF", "--kind", "a/b"},
		"\xff":                                 {"secret", "set", "KF"},
		strings.Repeat("x", secret.MaxValue+1): {"secret", "set", "KF"},
	} {
		if got, err := s.roundsWith(t.Context(), stdin, args...); err == nil || strings.Contains(err.Error(), "two words") {
			t.Errorf("%.20q, %v: %+v, %v", stdin, args, got, err)
		}
	}
	got, err := s.roundsWith(t.Context(), "hunter2-hunter2\n", "secret", "set", "KF", "--host", "qyapi.weixin.qq.com,*.example.com", "--kind", "wecom-kf")
	if err != nil || got.out != "KF is stored, bound to hosts=qyapi.weixin.qq.com,*.example.com kinds=wecom-kf\n" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.roundsWith(t.Context(), strings.Repeat("x", secret.MaxValue), "secret", "set", "service.LONG"); err != nil || !strings.Contains(got.out, "bound to nothing: any record") {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.roundsWith(t.Context(), "x", "secret", "set", "KIND", "--kind", "http"); err != nil || !strings.Contains(got.out, "bound to kinds=http: any record") {
		t.Errorf("%+v, %v", got, err)
	}
	text := s.must("secret", "list")
	if lines := strings.Split(text, "\n"); len(lines) != 5 || !strings.HasPrefix(lines[0], "NAME") || !strings.Contains(lines[1], "qyapi.weixin.qq.com,*.example.com") || !strings.Contains(lines[3], "any") {
		t.Errorf("list:\n%s", text)
	}
	var listed api.Secret
	if first, _, _ := strings.Cut(s.must("secret", "list", "--json"), "\n"); json.Unmarshal([]byte(first), &listed) != nil || listed.Name != "KF" || listed.Revision != 1 {
		t.Errorf("%+v", listed)
	}
	if _, err := s.rounds("secret", "rm", "KF"); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("nobody was asked: %v", err)
	}
	if text := s.must("secret", "rm", "KF", "--yes"); text != "KF is forgotten\n" {
		t.Errorf("%q", text)
	}
	if _, err := s.rounds("secret", "rm", "KF", "--yes"); err == nil || !strings.Contains(err.Error(), "no stored secret has this name") {
		t.Errorf("%v", err)
	}
	if strings.Contains(text, "hunter2") {
		t.Error("the list has a value")
	}
}

func connected(t *testing.T, url string) connect.Server {
	t.Helper()
	server, err := connect.Open(url, connect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

func TestSecretRotate(t *testing.T) {
	server := redistest.Start(t)
	key := func() (public *secret.PublicKey, private string) {
		k, err := secrets.Generate()
		if err != nil {
			t.Fatal(err)
		}
		if private, err = k.Text(); err != nil {
			t.Fatal(err)
		}
		return k.Public(), private
	}
	older, olderText := key()
	newer, newerText := key()
	shelf := secret.At(connected(t, server.URL()), "team")
	for _, name := range []string{"A", "B"} {
		if _, _, err := shelf.Put(t.Context(), older, name, secret.Binding{}, "ann", []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	rotate := func(keys string, more ...string) (output, error) {
		variables := map[string]string{"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_SECRETS_KEY": keys}
		return runWith(t.Context(), variables, "", append([]string{"secret", "rotate", "--namespace", "team"}, more...)...)
	}
	if got, err := rotate(newerText); err == nil || !strings.Contains(err.Error(), "2 could not be opened with these keys and stay as they are (A, B)") {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := rotate(newerText + "," + olderText); err != nil || got.out != "2 sealed anew, 0 had the newest key before\n" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := rotate("", "--secrets-key-file", settingsFile(t, newerText+"\n")); err != nil || got.out != "0 sealed anew, 2 had the newest key before\n" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := rotate("s3cret"); err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "run it again") {
		t.Errorf("%+v, %v", got, err)
	}
	page, _, err := shelf.Page(t.Context(), "", 10)
	if err != nil || len(page) != 2 || page[0].Key != newer.ID() || page[0].By != "ann" {
		t.Errorf("%+v, %v", page, err)
	}
}

// The service lacks the key. Somebody who reads this error is at another terminal.
func TestSecretWithoutTheServicesKey(t *testing.T) {
	s := startAPI(t, func(o *api.Options) { o.Seal = nil })
	want := "the service at " + s.url + " has no key to seal secrets with: start `rounds serve` with ROUNDS_SECRETS_KEY=… (from `rounds secret keygen`)"
	if _, err := s.roundsWith(t.Context(), "s3cret", "secret", "set", "KF", "--host", "qyapi.weixin.qq.com"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

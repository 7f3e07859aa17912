package command

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const testToken = "s3cret"

// apiServer is an API without any poller.
type apiServer struct {
	t     *testing.T
	redis redistest.Redis
	ring  *circulate.Ring
	url   string
}

// kinds knows only the kind feed, whose config is a url and nothing else.
type kinds struct{}

func (kinds) Validate(kind string, config json.RawMessage) error {
	if kind != "feed" {
		return accounts.Faults{{Field: "kind", Reason: "is not known"}}
	}
	var fields struct{ URL string }
	if json.Unmarshal(config, &fields) != nil || fields.URL == "" {
		return errors.Join(accounts.Fault{Field: "config.url", Reason: "must not be empty"}, errors.New("config: is of no use"))
	}
	return nil
}

func startAPI(t *testing.T, changes ...func(*api.Options)) *apiServer {
	t.Helper()
	redis := redistest.Embedded(t)
	ring, err := circulate.Open(t.Context(), redis, circulate.Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	sealing, err := secrets.Generate()
	if err != nil {
		t.Fatal(err)
	}
	options := api.Options{
		Ring: ring, Registry: accounts.NewRegistry(ring, kinds{}), Token: testToken, PollInterval: time.Millisecond,
		Seal: func() *secret.PublicKey { return sealing.Public() },
	}
	for _, change := range changes {
		change(&options)
	}
	server, err := api.New(options)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	t.Cleanup(server.Close)
	return &apiServer{t: t, redis: redis, ring: ring, url: web.URL}
}

// output is what a command printed to standard output and to standard error.
type output struct{ out, err string }

// rounds runs a command of the program.
func (s *apiServer) rounds(args ...string) (output, error) {
	return s.roundsWith(s.t.Context(), "", args...)
}

func (s *apiServer) roundsWith(ctx context.Context, stdin string, args ...string) (output, error) {
	return runWith(ctx, map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken}, stdin, args...)
}

// must runs a command, which must not fail, and returns what it printed.
func (s *apiServer) must(args ...string) string {
	s.t.Helper()
	printed, err := s.rounds(args...)
	if err != nil {
		s.t.Fatalf("%q: %v", args, err)
	}
	return printed.out
}

// read reads settings from variables and flags, as serve does.
func read(t *testing.T, variables map[string]string, args ...string) (settings.Settings, error) {
	t.Helper()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	settings.AddFlags(flags)
	settings.AddAccessFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	env := testEnvironment(variables)
	s, _, err := readSettings(env, new(settings.Source), flags)
	return s, err
}

func testEnvironment(variables map[string]string) environment {
	env := environment{lookup: func(name string) (string, bool) {
		value, ok := variables[name]
		if !ok && name == "ROUNDS_DATA_DIR" {
			return settings.Memory, true // no test uses the user's own
		}
		return value, ok
	}}
	for name, value := range variables {
		env.environ = append(env.environ, name+"="+value)
	}
	return env
}

func runWith(ctx context.Context, variables map[string]string, stdin string, args ...string) (output, error) {
	var out, errs strings.Builder
	env := testEnvironment(variables)
	env.stdin, env.stdout, env.stderr = strings.NewReader(stdin), &out, &errs
	err := run(ctx, args, env)
	return output{out.String(), errs.String()}, err
}

// find puts messages into the ring, as a check of the account does.
func (s *apiServer) find(id string, messages ...circulate.Message) {
	s.t.Helper()
	s.check(id, circulate.Return{Messages: messages})
}

// check returns an account with what a check of it found.
func (s *apiServer) check(id string, found circulate.Return) {
	s.t.Helper()
	shard := s.ring.ShardOf(id)
	batch, err := s.ring.Claim(s.t.Context(), shard, circulate.NewReplica(), 100, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range batch.Claims {
		if batch.Claims[i].ID != id {
			continue
		}
		found.Claim, found.Kind = &batch.Claims[i], "feed"
		outcomes, err := s.ring.Return(s.t.Context(), shard, []circulate.Return{found})
		if err != nil || outcomes[0] == circulate.Fenced {
			s.t.Fatalf("return: %v, %v", outcomes, err)
		}
		return
	}
	s.t.Fatalf("%s was not claimed", id)
}

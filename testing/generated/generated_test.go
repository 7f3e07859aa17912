// Package generated has the API's description judged by a generator of clients that others wrote:
// what it makes of the description must compile, and must work.
package generated

import (
	"crypto/ecdh"
	"crypto/hpke"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/feed"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const (
	generator = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
	module    = "module client\n\ngo 1.26\n\nrequire github.com/oapi-codegen/runtime v1.8.0\n"
	// program registers an account, stores a secret, and reads both.
	program = `package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

func main() {
	ctx := context.Background()
	client, err := NewClientWithResponses(os.Args[1])
	if err != nil {
		panic(err)
	}
	put, err := client.PutAccountWithBodyWithResponse(ctx, "news", nil, "application/json", strings.NewReader(` + "`" + `{"kind":"feed","config":{"url":"https://a.example/"}}` + "`" + `))
	if err != nil || put.JSON201 == nil {
		panic(fmt.Sprint(put, err))
	}
	stored, err := client.PutSecretWithBodyWithResponse(ctx, "TOKEN", "application/json", strings.NewReader(` + "`" + `{"value":"0pen-sesame","hosts":["a.example"]}` + "`" + `))
	if err != nil || stored.StatusCode() / 100 != 2 {
		panic(fmt.Sprint(stored, err))
	}
	secrets, err := client.ListSecretsWithResponse(ctx, nil)
	if err != nil || secrets.JSON200 == nil || len(secrets.JSON200.Secrets) != 1 || secrets.JSON200.Secrets[0].SetAt == nil {
		panic(fmt.Sprintf("%s, %v", secrets.Body, err))
	}
	got, err := client.GetAccountWithResponse(ctx, "news")
	if err != nil || got.JSON200 == nil || got.JSON200.Kind != "feed" {
		panic(fmt.Sprintf("%s, %v", got.Body, err))
	}
	fmt.Println("ok")
}
`
)

func TestAGeneratedClientWorks(t *testing.T) {
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkers, err := poller.NewCheckers(feed.New(fetch.New(fetch.Options{}), secrets.Source{}))
	if err != nil {
		t.Fatal(err)
	}
	private, err := hpke.DHKEM(ecdh.X25519()).GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key := secret.NewPublicKey(private.PublicKey())
	routes, err := api.New(api.Options{Ring: ring, Registry: accounts.NewRegistry(ring, checkers), Seal: func() *secret.PublicKey { return key }})
	if err != nil {
		t.Fatal(err)
	}
	defer routes.Close()
	server := httptest.NewServer(routes)
	defer server.Close()
	answer, err := http.Get(server.URL + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	description, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{"openapi.json": string(description), "go.mod": module, "main.go": program} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"run", generator, "-generate", "types,client", "-package", "main", "-o", "client.go", "openapi.json"},
		{"mod", "tidy"},
		{"run", ".", server.URL},
	} {
		command := exec.CommandContext(t.Context(), "go", args...)
		command.Dir, command.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%.4000s", args, err, out)
		}
	}
}

package oidctest

import (
	"bufio"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ModulesVariable names the folder node_modules in which oidc-provider is, which
// testing/nightly.sh installs.
const ModulesVariable = "ROUNDS_TEST_OIDC_PROVIDER"

//go:embed provider.mjs
var provider []byte

// StartReal starts oidc-provider, which others wrote, for a service at a base URL, until the
// test ends. It returns its issuer, and skips the test where ModulesVariable is not set. With
// pushed, the provider takes only sign-ins that were pushed to it.
func StartReal(t testing.TB, base string, pushed bool) string {
	t.Helper()
	modules := os.Getenv(ModulesVariable)
	if modules == "" {
		t.Skipf("%s is not set: testing/nightly.sh installs oidc-provider and sets it", ModulesVariable)
	}
	script := filepath.Join(t.TempDir(), "provider.mjs")
	if err := os.WriteFile(script, provider, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{script, modules, base}
	if pushed {
		args = append(args, "pushed")
	}
	cmd := exec.Command("node", args...)
	var log strings.Builder
	cmd.Stderr = &log
	input, err := cmd.StdinPipe() // the program ends when this is closed
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("oidctest: %v: install node", err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	t.Cleanup(func() {
		_ = input.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("oidc-provider: %v\n%s", err, log.String())
		}
	})
	if err != nil {
		_ = input.Close()
		_ = cmd.Wait() // so that all of the log is there
		t.Fatalf("oidc-provider says no issuer: %v\n%s", err, log.String())
	}
	return strings.TrimSpace(line)
}

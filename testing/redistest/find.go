package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// ServerVariable names the environment variable with the server that tests start instead
// of redis-server: a name that PATH has, or a path.
const ServerVariable = "ROUNDS_TEST_REDIS_SERVER"

// errNoServer reports that no server is installed and none was asked for.
var errNoServer = errors.New("redis-server is not installed")

// Find returns the path of the server to start: the one that ServerVariable names, or else
// redis-server. It fails if the variable names none, because other results than the
// wanted ones would look like them.
func Find() (string, error) {
	if named := os.Getenv(ServerVariable); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s: %w", ServerVariable, err)
		}
		return path, nil
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errNoServer
	}
	return path, nil
}

// LookPath is Find for tests. Where no server is installed it skips the test, or fails it
// if redis-server must be installed.
func LookPath(tb testing.TB) string {
	tb.Helper()
	path, err := Find()
	switch {
	case err == nil:
		return path
	case !errors.Is(err, errNoServer):
		tb.Fatal(err)
	case os.Getenv("CI") != "" || os.Getenv("ROUNDS_TEST_REQUIRE_REDIS") != "":
		tb.Fatal("redis-server is not installed, and here it must be")
	}
	tb.Skip("redis-server is not installed: the half of the test that needs it did not run")
	return ""
}

package dovecottest_test

import (
	"net"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/testing/dovecottest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCloseLeavesNothing(t *testing.T) {
	server, err := dovecottest.Launch()
	if err != nil {
		t.Fatal(err)
	}
	if validity, err := server.Deliver("a", []byte("Subject: x\r\n\r\ntext")); err != nil || validity == 0 {
		t.Errorf("UIDVALIDITY is %d: %v", validity, err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(server.Dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	if conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port))); err == nil {
		_ = conn.Close()
		t.Error("the port is still served")
	}
}

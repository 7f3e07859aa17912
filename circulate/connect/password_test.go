package connect

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

func startLocked(t *testing.T, password string) *miniredis.Miniredis {
	t.Helper()
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	if password != "" {
		server.RequireAuth(password)
	}
	return server
}

// A password in a file is read for each connection. Existing connections go on when it
// changes, and new ones use the new one.
func TestPasswordFile(t *testing.T) {
	redisServer := startLocked(t, "first")
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\r\n")
	server, err := OpenSingle("redis://"+redisServer.Addr(), Options{PasswordFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	lend := func(want string) redis.Conn {
		t.Helper()
		conn, err := server.Conn(t.Context(), "")
		switch {
		case want == "" && err != nil:
			t.Fatal(err)
		case want == "":
			if _, err := conn.Do("PING"); err != nil {
				t.Error(err)
			}
			return conn
		case err == nil || !strings.Contains(err.Error(), want):
			t.Fatalf("got %v, want %q", err, want)
		case strings.Contains(err.Error(), "first") || strings.Contains(err.Error(), "second"):
			t.Errorf("the error holds a password: %v", err)
		}
		return nil
	}
	lasting := lend("")
	defer lasting.Close()
	redisServer.RequireAuth("second")
	lend("redis at " + redisServer.Addr() + " was reached, but refused the password: WRONGPASS")
	write("second")
	defer lend("").Close()
	write("")
	lend("redis password file: " + file + ": is empty")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	lend("redis password file: ")
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	lend("must be a regular file")
	write2 := strings.Repeat("x", maxPassword+1)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	write(write2)
	lend("must be a regular file of at most 64 KiB")
}

func TestWhatIsReachedAndRefusesSaysSo(t *testing.T) {
	locked, open := startLocked(t, "hunter2"), startLocked(t, "")
	for url, want := range map[string]string{
		"redis://:hunter3@" + locked.Addr(): "was reached, but refused the password: WRONGPASS",
		"redis://:hunter3@" + open.Addr():   "was reached, but ",
	} {
		server, err := OpenSingle(url, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if conn, err := server.Conn(t.Context(), ""); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v, %v", url, conn, err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
	for text, want := range map[string]string{
		"NOAUTH Authentication required.": "redis at h:1 was reached, but wants a password and was given none: NOAUTH",
		"ERR invalid password":            "refused the password",
		"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?": "has no password and was given one",
		"LOADING Redis is loading the dataset in memory": "LOADING",
	} {
		if err := explain("h:1", false, redis.Error(text)); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A file and a URL must not both have a password, and a user needs one of them.
func TestPasswordsOfAFileAndOfAURL(t *testing.T) {
	for url, faults := range map[string][3]string{ // without files, with one for the password, with one for the sentinels'
		"redis://h":                                         {"", "", "names no sentinels"},
		"redis://u@h":                                       {"a user needs a password", "", "names no sentinels"},
		"redis://u:p@h":                                     {"", "must not hold a password", "names no sentinels"},
		"redis+cluster://u@h:1":                             {"a user needs a password", "", "names no sentinels"},
		"redis+cluster://:p@h:1":                            {"", "must not hold a password", "names no sentinels"},
		"redis+sentinel://u@h:1/m":                          {"a user needs a password", "", "a user needs a password"},
		"redis+sentinel://h:1/m?sentinel_user=u":            {"sentinel_user needs", "sentinel_user needs", ""},
		"redis+sentinel://h:1/m?sentinel_password=p":        {"", "", "must not hold sentinel_password"},
		"redis+sentinel://u@h:1/m?sentinel_password=p&db=2": {"a user needs a password", "", "a user needs a password"},
		"rediss+sentinel://h:1/m?sentinel_tls=false&db=0":   {"", "", ""},
	} {
		for i, o := range []Options{{}, {PasswordFile: "file"}, {SentinelPasswordFile: "file"}} {
			server, err := Open(url, o)
			if (err == nil) != (faults[i] == "") || err != nil && !strings.Contains(err.Error(), faults[i]) {
				t.Errorf("%s, %d: got %v, want %q", url, i, err, faults[i])
			}
			if err == nil {
				_ = server.Close()
			}
		}
	}
}

func TestUnescaped(t *testing.T) {
	for url, want := range map[string]bool{
		"redis://h": false, "redis://u:p@h/1": false, "redis://u:p%40%2F@h": false, "redis://h/1?x": false,
		"redis://u:p/w@h": true, "redis://u:p#w@h": true, "redis://u:p?w@h": true, "redis://u:p@w@h": true, "redis://u:p%w@h": true, "redis://u:p w@h": true,
	} {
		if got := Unescaped(url); got != want {
			t.Errorf("%s: %v", url, got)
		}
	}
}

// A caller that asks learns where connections lead, before anything is sent there.
func TestDialed(t *testing.T) {
	redisServer := startLocked(t, "first")
	var told []string
	server, err := OpenSingle("redis://:wrong@localhost:"+redisServer.Port(), Options{Dialed: func(at net.Addr) { told = append(told, at.String()) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	if _, err := server.Conn(t.Context(), ""); err == nil || len(told) != 1 || told[0] != redisServer.Addr() {
		t.Errorf("told %v, %v; want %s", told, err, redisServer.Addr())
	}
}

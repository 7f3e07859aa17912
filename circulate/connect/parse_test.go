package connect

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestURLsAreRead(t *testing.T) {
	for text, want := range map[string]target{
		"redis://localhost":                      {address: "localhost:6379"},
		"redis://localhost:":                     {address: "localhost:6379"},
		"redis://localhost/":                     {address: "localhost:6379"},
		"redis://localhost:7000":                 {address: "localhost:7000"},
		"redis://10.0.0.1:7000/3":                {address: "10.0.0.1:7000", database: 3},
		"redis://localhost/15/":                  {address: "localhost:6379", database: 15},
		"rediss://redis.example.com":             {address: "redis.example.com:6379", tls: true},
		"redis://[::1]":                          {address: "[::1]:6379"},
		"redis://[2001:db8::7]:7000/1":           {address: "[2001:db8::7]:7000", database: 1},
		"redis://:secret@localhost":              {address: "localhost:6379", password: "secret"},
		"redis://user:secret@localhost":          {address: "localhost:6379", user: "user", password: "secret"},
		"redis://us%40er:p%3A%2F%3F%23%25@h:1/2": {address: "h:1", user: "us@er", password: "p:/?#%", database: 2},
		"redis://user:se:cret@localhost":         {address: "localhost:6379", user: "user", password: "se:cret"},
		"REDIS://localhost":                      {address: "localhost:6379"},
	} {
		t.Run(text, func(t *testing.T) {
			if got, err := parse(text); err != nil || got != want {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
}

func TestBadURLsAreRefusedByWhatIsWrongAndWithoutThePassword(t *testing.T) {
	const password = "hunter2"
	for text, want := range map[string]string{
		"":                           `must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://`,
		"localhost":                  `must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://`,
		"localhost:6379":             `begins with "localhost"`,
		"http://u:hunter2@localhost": `begins with "http"`,
		"unix:///run/redis.sock":     `begins with "unix"`,
		"redis://":                   `host is missing`,
		"redis:///3":                 `host is missing`,
		"redis://:6379":              `host is missing`,
		"redis://u:hunter2@":         `host is missing`,
		"redis://u:hunter2@:6379/3":  `host is missing`,
		"redis:localhost:6379":       `host is missing`,
		"redis://u:hunter2@h/x":      `must be a number`,
		"redis://u:hunter2@h/-1":     `must be a number`,
		"redis://u:hunter2@h/1/2":    `must be a number`,
		"redis://u:hunter2@h/1.5":    `must be a number`,
		"redis://u:hunter2@h/99999999999999999999999": `must be a number`,
		"redis://u:hunter2@h/0?db=3":                  `nothing may follow`,
		"redis://u:hunter2@h/0#top":                   `nothing may follow`,
		"redis://u:hunter2@h:port":                    `cannot be read`,
		"redis://u:hunter2@h:6379:6380":               `one host and one port`,
		"redis://u:hunter2@::1":                       `in brackets`,
		"redis://u:hunter2@2001:db8::7:6379":          `in brackets`,
		"redis://h:1,g:2":                             `one host and one port`,
		"redis://u:hunter2@h:0":                       `1 to 65535`,
		"redis://u:hunter2@h:65536":                   `1 to 65535`,
		"redis://u:hunter2@h:99999999999999999999":    `1 to 65535`,
		"redis://u:hunter2@[::1":                      `cannot be read`,
		"redis://u:hunter2@h\n":                       `cannot be read`,
		"redis://u:hunter2%@h":                        `cannot be read`,
		"redis://u:hunter2 hunter2@h":                 `cannot be read`,
		"redis://u:1/hunter2@h":                       `must be a number`, // a password that should have been escaped
		"redis://u:1?hunter2@h":                       `nothing may follow`,
		"redis://u:1#hunter2@h":                       `nothing may follow`,
		"redis://u:/hunter2@h":                        `must be a number`,
		"redis://u:x/hunter2@h":                       `cannot be read`,
		":hunter2@localhost:6379":                     `cannot be read`,
		"://u:hunter2@localhost":                      `cannot be read`,
		" redis://u:hunter2@localhost":                `cannot be read`,
	} {
		t.Run(text, func(t *testing.T) {
			server, err := Open(text, Options{})
			if err == nil {
				t.Fatalf("accepted as %q", server.Name())
			}
			for _, wanted := range []string{"redis URL: ", want} {
				if !strings.Contains(err.Error(), wanted) {
					t.Errorf("%q does not say %q", err, wanted)
				}
			}
			if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), password) {
				t.Errorf("the error holds the password: %v", err)
			}
		})
	}
}

func FuzzURLsNeverPanicAndErrorsHoldNoPassword(f *testing.F) {
	f.Add("redis://u:", "@localhost:6379/1")
	f.Add("", "")
	f.Add("redis://[", "]:6379")
	f.Fuzz(func(t *testing.T, before, after string) {
		const password = "hunter2hunter2"
		server, err := Open(before+password+after, Options{})
		if err != nil {
			// The error names the text before the first colon, because that is no
			// password.
			if scheme, _, _ := strings.Cut(before+password+after, ":"); strings.Contains(err.Error(), password) && !strings.Contains(scheme, password) {
				t.Errorf("%v", err)
			}
			return
		}
		if !strings.Contains(server.Name(), ":") {
			t.Errorf("name %q", server.Name())
		}
		_ = server.Close()
	})
}

func TestCertificateFilesThatCannotBeUsedAreNamed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty, garbage := write("empty.pem", ""), write("garbage.pem", "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
	missing := filepath.Join(dir, "missing.pem")
	for name, test := range map[string]struct {
		options Options
		want    []string
	}{
		"CA missing":       {Options{CAFile: missing}, []string{"redis CA file", missing}},
		"CA a folder":      {Options{CAFile: dir}, []string{"redis CA file", dir}},
		"CA empty":         {Options{CAFile: empty}, []string{"redis CA file", empty, "no certificate in it"}},
		"CA garbage":       {Options{CAFile: garbage}, []string{"redis CA file", garbage, "no certificate in it"}},
		"pair missing":     {Options{CertFile: missing, KeyFile: missing}, []string{"redis client certificate", missing}},
		"pair garbage":     {Options{CertFile: garbage, KeyFile: garbage}, []string{"redis client certificate"}},
		"certificate only": {Options{CertFile: garbage}, []string{"redis client certificate"}},
		"key only":         {Options{KeyFile: garbage}, []string{"redis client certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open("rediss://u:hunter2@localhost", test.options)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error holds the password: %v", err)
			}
			// A user who sets certificates believes that they are used.
			if _, err := Open("redis://u:hunter2@localhost", test.options); err == nil || !strings.Contains(err.Error(), "only rediss://") {
				t.Errorf("without TLS: %v", err)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	want := Options{MaxConns: 64, ConnectTimeout: 3 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 5 * time.Second}
	if got := (Options{}).withDefaults(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	own := Options{CAFile: "ca", MaxConns: 1, ConnectTimeout: 2, ReadTimeout: 3, WriteTimeout: 4}
	if got := own.withDefaults(); !reflect.DeepEqual(got, own) {
		t.Errorf("got %+v, want %+v", got, own)
	}
}

package connect

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestURLsOfSeveralServersAreRead(t *testing.T) {
	both := []string{"h:1", "g:2"}
	for text, want := range map[string]set{
		"redis+cluster://h:1,g:2":                                            {addresses: both},
		"REDIS+CLUSTER://h:1,g:2/":                                           {addresses: both},
		"redis+cluster://h":                                                  {addresses: []string{"h:6379"}},
		"redis+cluster://[::1]:7000,[2001:db8::7]":                           {addresses: []string{"[::1]:7000", "[2001:db8::7]:6379"}},
		"rediss+cluster://us%40er:p%2F%2C%40@h:1,g:2":                        {addresses: both, nodes: credentials{"us@er", "p/,@"}, tls: true},
		"redis+sentinel://h:1,g:2/main":                                      {addresses: both, master: "main"},
		"redis+sentinel://h/my-master.1/":                                    {addresses: []string{"h:26379"}, master: "my-master.1"},
		"redis+sentinel://:secret@h:1,g:2/main?db=3":                         {addresses: both, master: "main", database: 3, nodes: credentials{password: "secret"}},
		"redis+sentinel://h:1,g:2/m?sentinel_user=u&sentinel_password=p%26w": {addresses: both, master: "m", sentinels: credentials{"u", "p&w"}},
		"redis+sentinel://h:1,g:2/m?sentinel_password=p":                     {addresses: both, master: "m", sentinels: credentials{password: "p"}},
		"rediss+sentinel://h:1,g:2/m":                                        {addresses: both, master: "m", tls: true, sentinelTLS: true},
		"rediss+sentinel://h:1,g:2/m?sentinel_tls=false":                     {addresses: both, master: "m", tls: true},
		"redis+sentinel://h:1,g:2/m?sentinel_tls=true":                       {addresses: both, master: "m", sentinelTLS: true},
	} {
		t.Run(text, func(t *testing.T) {
			read := parseCluster
			if strings.Contains(text, "sentinel://") {
				read = parseSentinel
			}
			if got, err := read(text); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
}

func TestBadURLsOfSeveralServersAreRefusedWithoutThePassword(t *testing.T) {
	for text, want := range map[string]string{
		"redis+cluster://":                                   "host is missing",
		"redis+cluster://u:hunter2@h:1,":                     "host is missing",
		"redis+cluster://u:hunter2@h:1,:2":                   "host is missing",
		"redis+cluster://u@h:1":                              "a user needs a password",
		"redis+cluster://:hunter2@h:0":                       "1 to 65535",
		"redis+cluster://:hunter2@h:1/3":                     "nothing may follow",
		"redis+cluster://:hunter2@h:1?x=hunter2":             "nothing may follow",
		"redis+cluster://:hunter2@h:1#hunter2":               "cannot be read",
		"redis+cluster://:hunter2@h:1:2":                     "one port for each host",
		"redis+cluster://:hunter2@h x:1":                     "cannot be read",
		"redis+cluster://:hunter2%@h:1":                      "cannot be read",
		"redis+cluster://:hun/hunter2@h:1":                   "hosts cannot be read", // a password that should have been escaped
		"redis+sentinel://:hunter2@h:1":                      "name of Sentinel's master",
		"redis+sentinel://:hunter2@h:1/a/b":                  "name of Sentinel's master",
		"redis+sentinel://h/m?db=x":                          "db must be a number",
		"redis+sentinel://h/m?db=-1":                         "db must be a number",
		"redis+sentinel://h/m?db=1&db=2":                     "db appears twice",
		"redis+sentinel://h/m?hunter2=1":                     "only db, sentinel_user, sentinel_password and sentinel_tls",
		"redis+sentinel://h/m?sentinel_password=hunter2&%zz": "cannot be read",
		"redis+sentinel://h/m?sentinel_password=hunter2;x":   "cannot be read",
		"redis+sentinel://h/m?sentinel_user=hunter2":         "needs sentinel_password",
		"redis+sentinel://h/m?sentinel_tls=hunter2":          "must be true or false",
		"redis+sentinels://h/m":                              "must begin with",
		"rediss+other://:hunter2@h/m":                        "must begin with",
	} {
		t.Run(text, func(t *testing.T) {
			server, err := Open(text, Options{})
			if err == nil {
				t.Fatalf("accepted as %q", server.Name())
			}
			if server != nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "redis URL: ") {
				t.Errorf("%q does not say %q", err, want)
			}
			if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "hunter2") {
				t.Errorf("the error holds the password: %v", err)
			}
		})
	}
}

func TestNamesHoldNoPassword(t *testing.T) {
	for text, want := range map[string]string{
		"redis+cluster://u:hunter2@h:1,g:2":                              "cluster h:1,g:2",
		"redis+sentinel://u:hunter2@h:1,g:2/m?sentinel_password=hunter2": "master m of sentinels h:1,g:2",
		"rediss://u:hunter2@h:1":                                         "h:1",
	} {
		server, err := Open(text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if server.Name() != want {
			t.Errorf("%q", server.Name())
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{"redis+cluster://h", "redis+sentinel://h/m"} {
		if _, err := Open(text, Options{CAFile: "x"}); err == nil || !strings.Contains(err.Error(), "only rediss://") {
			t.Errorf("%s with an authority: %v", text, err)
		}
	}
}

func FuzzURLsOfSeveralServers(f *testing.F) {
	f.Add("redis+sentinel://u:", "@h:1,g:2/m?sentinel_password=x")
	f.Add("redis+cluster://", ":1,[::1]")
	f.Fuzz(func(t *testing.T, before, after string) {
		const password = "hunter2hunter2"
		text := before + password + after
		server, err := Open(text, Options{})
		if err != nil {
			if scheme, _, _ := strings.Cut(text, ":"); strings.Contains(err.Error(), password) && !strings.Contains(scheme, password) {
				t.Errorf("%v", err)
			}
			return
		}
		_ = server.Close()
	})
}

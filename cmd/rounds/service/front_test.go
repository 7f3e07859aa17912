package service

import (
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/testing/processes"
)

func TestExposed(t *testing.T) {
	for text, want := range map[string]bool{"127.0.0.1": false, "127.9.9.9": false, "::1": false, "0.0.0.0": true, "::": true, "10.0.0.1": true} {
		if got := exposed(&net.TCPAddr{IP: net.ParseIP(text)}); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if exposed(&net.UnixAddr{Name: "/run/api.sock"}) {
		t.Error("a unix socket: other machines do not reach it")
	}
}

func TestOperatorsRoutesWantATokenOffLoopback(t *testing.T) {
	token := "0123456789abcdef"
	current := func() settings.Settings { return settings.Settings{Access: settings.Access{Token: token}} }
	if (&frontDoor{}).demanded(current) != nil {
		t.Error("on loopback a token is demanded")
	}
	want := (&frontDoor{exposed: true}).demanded(current)
	if want == nil || want() != token {
		t.Fatal("off loopback none is")
	}
	token = "fedcba9876543210"
	if want() != token {
		t.Error("a reload does not change it")
	}
}

func TestDoorsAreWarnedOf(t *testing.T) {
	api, poller := settings.Roles{settings.RoleAPI}, settings.Roles{settings.RolePoller}
	token := settings.Access{Token: "0123456789abcdef"}
	for _, tt := range []struct {
		name  string
		front *frontDoor
		s     settings.Settings
		want  []string
	}{
		{"loopback", &frontDoor{}, settings.Settings{API: settings.API{Roles: api}}, nil},
		{"open", &frontDoor{exposed: true}, settings.Settings{API: settings.API{Roles: api}, Access: token}, []string{"ROUNDS_PUBLIC_URL=https"}},
		{"behind TLS", &frontDoor{exposed: true}, settings.Settings{API: settings.API{Roles: api, PublicURL: "https://a"}, Access: token}, nil},
		{"ops", &frontDoor{exposed: true}, settings.Settings{API: settings.API{Roles: poller}}, []string{"until ROUNDS_API_TOKEN is set"}},
		{"ops with a token", &frontDoor{exposed: true}, settings.Settings{API: settings.API{Roles: poller}, Access: token}, nil},
		{"ops beside the API", &frontDoor{ops: &frontDoor{exposed: true}}, settings.Settings{API: settings.API{Roles: api}}, []string{"until ROUNDS_API_TOKEN is set"}},
	} {
		var log processes.Output
		tt.front.log = slog.New(slog.NewJSONHandler(&log, nil))
		tt.front.warnOfDoors(tt.s)
		if n := strings.Count(log.String(), "\n"); n != len(tt.want) || n == 1 && !strings.Contains(log.String(), tt.want[0]) {
			t.Errorf("%s: %s", tt.name, log.String())
		}
	}
}

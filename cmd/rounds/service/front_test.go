package service

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/testing/processes"
)

// A socket that systemd opened may be reachable from elsewhere, so it demands a token,
// whatever the settings say.
func TestAnOpenDoorWantsAToken(t *testing.T) {
	s := settings.Settings{API: settings.API{Roles: settings.Roles{settings.RoleAPI}, Addr: "systemd:api"}}
	reload := newReloader(s, Options{}.withDefaults())
	if err := reload.open(&frontDoor{exposed: true}); err == nil || !strings.Contains(err.Error(), "ROUNDS_API_TOKEN: must be set") {
		t.Errorf("got %v", err)
	}
	if err := reload.open(&frontDoor{}); err != nil {
		t.Error(err)
	}
	reload.current.API.Roles = settings.Roles{settings.RolePoller}
	if err := reload.open(&frontDoor{exposed: true}); err != nil {
		t.Errorf("the operators' routes: %v", err)
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
		{"ops", &frontDoor{exposed: true}, settings.Settings{API: settings.API{Roles: poller}}, []string{"without ROUNDS_API_TOKEN only keys"}},
		{"ops with a token", &frontDoor{exposed: true}, settings.Settings{API: settings.API{Roles: poller}, Access: token}, nil},
		{"ops beside the API", &frontDoor{ops: &frontDoor{exposed: true}}, settings.Settings{API: settings.API{Roles: api}}, []string{"without ROUNDS_API_TOKEN only keys"}},
	} {
		var log processes.Output
		tt.front.log = slog.New(slog.NewJSONHandler(&log, nil))
		tt.front.warnOfDoors(tt.s)
		if n := strings.Count(log.String(), "\n"); n != len(tt.want) || n == 1 && !strings.Contains(log.String(), tt.want[0]) {
			t.Errorf("%s: %s", tt.name, log.String())
		}
	}
}

// Before the first attempt to reach Redis has ended, nothing is said of Redis: there may be none,
// and what a process keeps in a directory may take a while to read.
func TestAProcessThatStartsBlamesNoRedis(t *testing.T) {
	s := settings.API{Roles: settings.Roles{settings.RoleAPI}, Addr: "127.0.0.1:0", Connections: 10}
	front, err := openFront(s, nil, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.close)
	for _, tt := range []struct {
		why  error
		want string
	}{{nil, `"detail":"starting"`}, {errors.New("dial"), `"detail":"starting: Redis cannot be reached"`}} {
		if tt.why != nil {
			front.wait(tt.why)
		}
		w := httptest.NewRecorder()
		(*front.handler.Load()).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%v: %d %s, want %s", tt.why, w.Code, w.Body, tt.want)
		}
	}
}

// The dashboard's URL is one that a browser on this machine opens.
func TestDashboardAt(t *testing.T) {
	for want, addr := range map[string]net.Addr{
		"http://127.0.0.1:8080/": &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080},
		"http://127.0.0.1:80/":   &net.TCPAddr{IP: net.IPv6unspecified, Port: 80},
		"http://[::1]:8080/":     &net.TCPAddr{IP: net.IPv6loopback, Port: 8080},
		"":                       &net.UnixAddr{Name: "/run/rounds/api.sock", Net: "unix"},
	} {
		if got := dashboardAt(addr); got != want {
			t.Errorf("%v: %q, want %q", addr, got, want)
		}
	}
}

// A listener that the caller has opened serves the API in place of the settings' address.
func TestTheAPIListensWhereTheCallerDoes(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := settings.API{Roles: settings.Roles{settings.RoleAPI}, Addr: listener.Addr().String(), Connections: 10}
	front, err := openFront(s, listener, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if status, body := processes.Get(t, "http://"+s.Addr+"/readyz", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "starting") {
		t.Errorf("%d %s", status, body)
	}
	front.close()
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("afterwards it is open: %v", err)
	}
}

// The error of an address that is taken names it once.
func TestAddressesAreNamedOnceInErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	_, err = openFront(settings.API{OpsAddr: addr}, nil, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err == nil || strings.Count(err.Error(), addr) != 1 || !strings.HasPrefix(err.Error(), "ROUNDS_OPS_ADDR: ") {
		t.Errorf("got %v", err)
	}
}

// A process that finds its address taken leaves no data directory behind.
func TestATakenAddressCreatesNoDataDirectory(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := filepath.Join(t.TempDir(), "data")
	s := settings.Settings{
		API:   settings.API{Roles: settings.Roles{settings.RoleAPI}, Addr: taken.Addr().String()},
		Redis: settings.Redis{DataDir: dir, DataGiven: true, Namespace: "taken"},
	}
	var refused *ListenError
	if err := Run(t.Context(), s, Options{Log: slog.New(slog.DiscardHandler)}); !errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}

package fetch

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
)

// The error for a private address names the value that allows it. No error names the
// addresses where a cloud offers credentials, or those of this service.
func TestARefusalNamesWhatAllowsIt(t *testing.T) {
	var reserved Reserved
	reserved.Add(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6379})
	for raw, entry := range map[string]string{
		"http://127.0.0.1:9000/x":    "127.0.0.1:9000",
		"http://10.1.2.3/":           "10.1.2.3:80",
		"http://192.168.1.100:8080/": "192.168.1.100:8080",
		"https://[fd00::1]/":         "[fd00::1]:443",
		"http://localhost:9000/":     "localhost:9000",
		"http://169.254.169.254/":    "",
		"http://127.0.0.1:6379/":     "",
		"http://localhost:6379/":     "",
		"http://100.100.100.200/x":   "",
	} {
		c := New(Options{Reserved: &reserved})
		registered := c.Validate(raw)
		_, called := c.Do(t.Context(), Call{URL: raw})
		if !errors.Is(registered, ErrPrivate) || !errors.Is(called, ErrRefusedAddress) {
			t.Fatalf("%s: %v, %v", raw, registered, called)
		}
		for _, err := range []error{registered, called} {
			if _, named, _ := strings.Cut(err.Error(), "ROUNDS_ALLOW_NETWORKS="); !strings.HasPrefix(named, entry) || (named == "") != (entry == "") {
				t.Errorf("%s: %v, want %q", raw, err, entry)
			}
		}
		// The part of the error that the ring stores has the whole cure.
		if kept := "refused_address: config.url: " + registered.Error(); len(kept) > circulate.MaxError {
			t.Errorf("%s: only a part is kept of %q", raw, kept)
		}
		if entry == "" {
			continue
		}
		// The value that the error names does allow it.
		allowed := New(Options{Reserved: &reserved, Networks: networks(entry)})
		if err := allowed.Validate(raw); err != nil {
			t.Errorf("%s with %s: %v", raw, entry, err)
		}
		if _, err := allowed.Do(t.Context(), Call{URL: raw, MaxBody: 1}); errors.Is(err, ErrRefusedAddress) {
			t.Errorf("%s with %s: %v", raw, entry, err)
		}
		allowed.Close()
		// Where the setting has entries, this one comes to them.
		more := New(Options{Reserved: &reserved, Networks: networks("192.0.2.0/24")})
		if err := more.Validate(raw); err == nil || !strings.Contains(err.Error(), "; add "+entry) || !strings.HasSuffix(err.Error(), " to ROUNDS_ALLOW_NETWORKS of rounds serve") {
			t.Errorf("%s, in addition: %v", raw, err)
		}
		more.Close()
		for program, want := range map[string]string{"": "; rounds serve needs ROUNDS", "this command": "; this command needs ROUNDS"} {
			c := New(Options{Program: program})
			registered := c.Validate(raw)
			_, called := c.Do(t.Context(), Call{URL: raw})
			if !strings.Contains(registered.Error(), want) || !strings.Contains(called.Error(), want) {
				t.Errorf("%q: %v, %v", program, registered, called)
			}
			c.Close()
		}
	}
	for list, want := range map[string]error{"127.0.0.0/8": nil, "::1": nil, "localhost": nil, "localhost:80": ErrPrivate, "10.0.0.0/8": ErrPrivate} {
		if err := New(Options{Networks: networks(list)}).Validate("http://localhost:9000/"); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", list, err, want)
		}
	}
}

package secret

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseBinding(t *testing.T) {
	for text, want := range map[string]Binding{
		"hosts=api.example.com":                            {Hosts: []string{"api.example.com"}},
		" hosts=API.Example.com.,*.weixin.qq.com\n":        {Hosts: []string{"api.example.com", "*.weixin.qq.com"}},
		"kinds=imap,http hosts=10.1.0.7":                   {Hosts: []string{"10.1.0.7"}, Kinds: []string{"imap", "http"}},
		"kinds=wecom-kf kinds-":                            {},
		"hosts=[::1]:8443,::1,::ffff:10.0.0.1,a:1,a:1,b_c": {Hosts: []string{"[::1]:8443", "[::1]", "10.0.0.1", "a:1", "b_c"}},
		"hosts=bücher.example":                             {Hosts: []string{"xn--bcher-kva.example"}},
		"hosts=api。example．com。":                           {Hosts: []string{"api.example.com"}},
	} {
		got, err := ParseBinding(text)
		if want.IsZero() != (err != nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, %v", text, got, err)
			continue
		}
		if again, err := ParseBinding(got.String()); !want.IsZero() && (err != nil || !reflect.DeepEqual(again, got)) {
			t.Errorf("%q: written as %q and read as %+v, %v", text, got, again, err)
		}
	}
}

func TestBindingThatIsNone(t *testing.T) {
	for _, text := range []string{
		"", " \n", "api.example.com", "host=a", "hosts", "hosts=", "hosts=a,,b", "hosts=https://a", "hosts=a/b", "hosts=a@b", "hosts=*", "hosts=*.",
		"hosts=a*.example", "hosts=a:0", "hosts=a:x", "hosts=a:70000", "hosts=fe80::1%eth0", "hosts=..", "hosts=a..b", "hosts=Ƽ..", "hosts=a。.", "hosts=" + strings.Repeat("a", 254),
		"hosts=a hosts=b", "kinds=", "kinds=a,", "kinds=a/b", "hosts=" + strings.Repeat("a,", maxHosts) + "a", "kinds=" + strings.Repeat("a,", maxKinds) + "a",
	} {
		if b, err := ParseBinding(text); err == nil || !b.IsZero() {
			t.Errorf("%q: got %+v, %v", text, b, err)
		}
	}
}

func TestAllows(t *testing.T) {
	b := Binding{Hosts: []string{"api.example.com", "*.qq.com", "10.1.0.7:8080", "[::1]"}, Kinds: []string{"http"}}
	for hostport, want := range map[string]bool{
		"api.example.com:443": true, "api.example.com": true, "API.EXAMPLE.COM.:443": true, "api.example.com:8443": true,
		"x.api.example.com:443": false, "example.com": false, "api.example.com.evil.test:443": false, "evilapi.example.com": false,
		"a.qq.com": true, "a.b.qq.com:1": true, "qq.com": false, "aqq.com": false, ".qq.com": false,
		"10.1.0.7:8080": true, "10.1.0.7:80": false, "10.1.0.7": false, "[::ffff:10.1.0.7]:8080": true, "0x0a010007:8080": false,
		"[::1]:9000": true, "[::2]:9000": false, "": false, ":443": false, "a b": false, "*.qq.com": false,
	} {
		if got := b.AllowsHost(hostport); got != want {
			t.Errorf("%q: %t", hostport, got)
		}
	}
	if !b.AllowsKind("http") || b.AllowsKind("imap") || b.AllowsKind("") {
		t.Error("kinds")
	}
	if !b.Names("api.example.com:443") || b.Names("a.qq.com:443") {
		t.Error("a pattern names nothing in full")
	}
	if none := (Binding{}); !none.AllowsHost("anywhere:1") || !none.AllowsKind("any") || none.Names("anywhere") {
		t.Error("the zero binding")
	}
}

func TestHosts(t *testing.T) {
	if got, err := Hosts("connector, 10.1.0.7:9000"); err != nil || !reflect.DeepEqual(got, []string{"connector", "10.1.0.7:9000"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := Hosts(""); err != nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Hosts("http://connector"); err == nil {
		t.Error("a URL passes for a host")
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string][2]bool{
		"A-b_9": {true, true}, "service.A": {false, true}, "service.": {false, false}, "": {false, false}, "a.binding": {false, false},
		"service.service.a": {false, false}, "../a": {false, false}, strings.Repeat("a", 65): {false, false},
	} {
		if got := [2]bool{ValidateName(name) == nil, ValidateFullName(name) == nil}; got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	if !errors.Is(ValidateName("s3cret value"), ErrName) {
		t.Error("another error")
	}
}

// A text that is accepted as a binding is the same after it was written and read again. It
// allows what it names.
func FuzzParseBinding(f *testing.F) {
	for _, text := range []string{"hosts=api.example.com,*.qq.com kinds=http", "hosts=[::1]:8443", "hosts=bücher.example", "kinds=a", "hosts=::ffff:10.0.0.1", "hosts=a:1,,"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBinding(text)
		if err != nil {
			if !b.IsZero() {
				t.Errorf("%q: an error, and %+v", text, b)
			}
			return
		}
		again, err := ParseBinding(b.String())
		if err != nil || !reflect.DeepEqual(again, b) || b.IsZero() {
			t.Errorf("%q: %+v is written as %q and read as %+v, %v", text, b, b, again, err)
		}
		for _, host := range b.Hosts {
			if !isPattern(host) && !b.AllowsHost(host) {
				t.Errorf("%q: %+v does not allow %q", text, b, host)
			}
			if b.AllowsHost("evil.invalid") && !strings.Contains(text, "invalid") {
				t.Errorf("%q allows any host", text)
			}
		}
	})
}

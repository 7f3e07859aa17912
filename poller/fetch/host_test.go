package fetch

import (
	"errors"
	"net/url"
	"testing"
)

// A redirect to a name that becomes the first one only in lower case leads to another origin, and
// carries no credential.
func TestSameOriginIsWhatIsDialled(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"https://api.g\u0130thub.com/", "https://\u212Aapi.github.com/"} {
		if SameOrigin("https://api.github.com/", other) {
			t.Errorf("%q counts as the origin of api.github.com", other)
		}
	}
	if SameOrigin("https://api.github.com/", "https://ap\u0131.github.com/") {
		t.Error("a dotless i is none")
	}
	if !SameOrigin("https://api.github.com/", "https://API.GitHub.com:443/") {
		t.Error("case and the scheme's own port make another origin")
	}
}

// However a name is written, the name that is judged is the name that is dialled. Digits and full
// stops that only look different count as those of an address, also in front of a proxy. A name
// that no host can have is refused.
func TestHostsAreJudgedAsTheyAreDialled(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		host string
		err  error
	}{
		"https://api.g\u0130thub.com/":            {host: "api.xn--github-qyd.com"},
		"https://b\u00fccher.example:8443/":       {host: "xn--bcher-kva.example:8443"},
		"https://\uff11\uff12\uff17.0.0.1/":       {host: "127.0.0.1"},
		"https://169\u3002254\u3002169\u3002254/": {host: "169.254.169.254"},
		"https://\uff41pi.example/":               {host: "api.example"},
		"https://a\u202eb.example/":               {err: ErrName},
		"https://a\u00adb.example/":               {host: "ab.example"},
		"https://EXAMPLE.com/":                    {host: "example.com"},
		"https://[fe80::1]/":                      {host: "[fe80::1]"},
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkURL(u); !errors.Is(err, want.err) || want.err == nil && u.Host != want.host {
			t.Errorf("%q: %q, %v; want %q, %v", raw, u.Host, err, want.host, want.err)
		}
	}
	client := New(Options{})
	for _, raw := range []string{"https://\uff11\uff12\uff17.0.0.1/", "https://10\u30020\u30020\u30021/"} {
		if err := client.Validate(raw); !errors.Is(err, ErrPrivate) {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

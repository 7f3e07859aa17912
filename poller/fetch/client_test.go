package fetch

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestCall(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Answer", "yes")
		_, _ = fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Header.Get("X-Ask"), r.UserAgent(), body)
	})
	c := client(t, Options{UserAgent: UserAgent("1.2.3", "", "")})
	response, err := c.Do(t.Context(), Call{
		Method: http.MethodPost, URL: url, Body: []byte("hello"),
		Header: http.Header{"x-ask": {"a"}, "User-Agent": {"other"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "POST a rounds/1.2.3 (+https://github.com/rounds-dev/rounds) hello"
	if string(response.Body) != want || response.Status != 200 || response.Header.Get("X-Answer") != "yes" {
		t.Errorf("got %d %s", response.Status, response.Body)
	}
}

func TestBodyLimit(t *testing.T) {
	const limit = 1000
	for _, c := range []struct {
		size     int
		compress bool
		fits     bool
	}{
		{limit, false, true}, {limit + 1, false, false}, {limit, true, true}, {limit + 1, true, false}, {100 << 20, true, false},
	} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			var out io.Writer = w
			if c.compress {
				w.Header().Set("Content-Encoding", "gzip")
				zip := gzip.NewWriter(w)
				defer zip.Close()
				out = zip
			}
			chunk := make([]byte, 64<<10)
			for left := c.size; left > 0; left -= len(chunk) {
				if _, err := out.Write(chunk[:min(left, len(chunk))]); err != nil {
					return
				}
			}
		})
		response, err := client(t, Options{}).Do(t.Context(), Call{URL: url, MaxBody: limit})
		switch {
		case c.fits && (err != nil || len(response.Body) != c.size):
			t.Errorf("%+v: got %v", c, err)
		case !c.fits && !errors.Is(err, ErrTooLarge):
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func TestBodyOfAFailureIsCutNotRefused(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(bytes.Repeat([]byte("x"), errorBody+1))
	})
	response, err := client(t, Options{}).Do(t.Context(), Call{URL: url, MaxBody: 10})
	if err != nil || response.Status != 404 || len(response.Body) != errorBody {
		t.Errorf("got %v", err)
	}
}

func TestRedirectsAreCounted(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if left := strings.TrimPrefix(r.URL.Path, "/"); left != "" {
			http.Redirect(w, r, "/"+left[1:], http.StatusFound)
		}
	})
	for hops, want := range map[string]int{"": 200, "x": 200, "xxxxx": 200, "xxxxxx": 302} {
		response, err := client(t, Options{}).Do(t.Context(), Call{URL: url + "/" + hops, MaxRedirects: 5})
		if err != nil || response.Status != want {
			t.Errorf("%d redirects: got %v, %v", len(hops), response, err)
		}
	}
	response, err := client(t, Options{}).Do(t.Context(), Call{URL: url + "/x"})
	if err != nil || response.Status != 302 {
		t.Errorf("not followed: got %v, %v", response, err)
	}
}

func TestRedirectCarriesNoCredentialsToAnotherOrigin(t *testing.T) {
	var seen http.Header
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() })
	var back string
	hop := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, back, http.StatusFound) })
	own := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		switch r.URL.Path {
		case "/same":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/other":
			http.Redirect(w, r, other+"/end", http.StatusFound)
		case "/roundabout":
			http.Redirect(w, r, hop, http.StatusFound)
		}
	})
	back = own + "/end"
	header := http.Header{
		"Authorization": {"Bearer s3cret"}, "X-Api-Key": {"s3cret"}, "Webhook-Signature": {"v1,s3cret"},
		"Cookie": {"s3cret"}, "If-None-Match": {`"tag"`},
	}
	for path, kept := range map[string]bool{"/same": true, "/other": false, "/roundabout": false} {
		seen = nil
		if _, err := client(t, Options{}).Do(t.Context(), Call{URL: own + path + "?q=s3cret", Header: header, MaxRedirects: 5}); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got := strings.Contains(fmt.Sprint(seen), "s3cret"); got != kept {
			t.Errorf("%s: got %v", path, seen)
		}
		if seen.Get("If-None-Match") != `"tag"` || seen.Get("User-Agent") == "" || seen.Get("Referer") != "" {
			t.Errorf("%s: got %v", path, seen)
		}
	}
}

func TestValidate(t *testing.T) {
	c := New(Options{})
	for raw, want := range map[string]error{
		"http://example.com/feed?token=s3cret":   nil,
		"https://example.com:8443":               nil,
		"HTTPS://EXAMPLE.COM/":                   nil,
		"https://1.1.1.1/":                       nil,
		"":                                       ErrScheme,
		"example.com":                            ErrScheme,
		"ftp://example.com/":                     ErrScheme,
		"file:///etc/passwd":                     ErrScheme,
		"javascript:s3cret":                      ErrScheme,
		"http:///path":                           ErrHost,
		"http:example.com":                       ErrHost,
		"http://example.com:":                    ErrHost,
		"http://example.com:0/":                  ErrHost,
		"http://example.com:65536/":              ErrHost,
		"http://example.com:s3cret/":             ErrURL,
		"http://user:s3cret@example.com/":        ErrUserinfo,
		"http://user@example.com/":               ErrUserinfo,
		"http://exa mple.com/?token=s3cret":      ErrURL,
		"http://example.com/\x00?token=s3cret":   ErrURL,
		"http://127.0.0.1/":                      ErrPrivate,
		"http://[::1]:80/":                       ErrPrivate,
		"http://[fe80::1%25eth0]/":               ErrPrivate,
		"http://169.254.169.254/latest/metadata": ErrPrivate,
	} {
		err := c.Validate(raw)
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%q: got %v, want %v", raw, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error quotes it: %v", raw, err)
		}
	}
	if err := New(Options{AllowPrivate: true}).Validate("http://127.0.0.1/"); err != nil {
		t.Errorf("allowed: got %v", err)
	}
}

func TestHost(t *testing.T) {
	for raw, want := range map[string]string{
		"http://Example.com/a?b": "example.com", "https://example.com:443/": "example.com",
		"http://example.com:80": "example.com", "http://example.com:8080": "example.com:8080",
		"https://example.com.": "example.com", "http://[::1]:80/": "[::1]", "://": "", "x": "",
	} {
		if got := Host(raw); got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
	}
}

func TestUserAgent(t *testing.T) {
	for _, tt := range [][4]string{
		{"", "", "", "rounds (+https://github.com/rounds-dev/rounds)"},
		{"(devel)", "", "", "rounds/devel (+https://github.com/rounds-dev/rounds)"},
		{"v1.2.3", "0123456789ab", "", "rounds/v1.2.3 (0123456789ab; +https://github.com/rounds-dev/rounds)"},
		{"v1.2.3+dirty", "0123456789ab", "", "rounds/v1.2.3+dirty (0123456789ab; +https://github.com/rounds-dev/rounds)"},
		{"v0.0.0-20261122170825-0123456789ab", "0123456789ab", "", "rounds/v0.0.0-20261122170825-0123456789ab (+https://github.com/rounds-dev/rounds)"},
		{"1\r\nX: y", "a b)", "", "rounds/1Xy (ab; +https://github.com/rounds-dev/rounds)"},
		{"1.2.3", "", "mailto:ops@example.com", "rounds/1.2.3 (+mailto:ops@example.com)"},
	} {
		if got := UserAgent(tt[0], tt[1], tt[2]); got != tt[3] {
			t.Errorf("%q, %q, %q: %s", tt[0], tt[1], tt[2], got)
		}
	}
}

func TestContacts(t *testing.T) {
	for contact, good := range map[string]bool{
		"https://example.com/bot": true, "http://example.com": true, "mailto:ops@example.com": true,
		"": false, "ops@example.com": false, "mailto:ops": false, "example.com": false, "ftp://example.com": false,
		"https://example.com/a b": false, "https://example.com/(a)": false, "https://example.com/\r\nX: y": false, "https://exämple.com": false,
		"https://example.com/" + strings.Repeat("a", 256): false,
	} {
		if err := ValidateContact(contact); (err == nil) != good {
			t.Errorf("%q: %v", contact, err)
		}
	}
}

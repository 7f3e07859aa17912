package accounts

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/circulate"
)

func TestSimilarTextsFallTogether(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"http_404: Not Found", "http_404: not  found", "http_404: Not Found "},
		{"timeout: no answer within 30s", "timeout: no answer within 1m0s"},
		{"protocol: broken at line 12, column 5", "protocol: broken at line 7, column 11892"},
		{"tls: not valid until 2026-11-22T14:15:28Z", "tls: not valid until 2027-01-01T00:00:00+08:00"},
		{"dial: 10.0.0.1:443 refused", "dial: 192.168.100.20:8443 refused", "dial: fe80::1 refused"},
		{"gone: request 550e8400-e29b-41d4-a716-446655440000", "gone: request 123e4567-e89b-12d3-a456-426614174000"},
		{`bad: member "a" is missing`, `bad: member "next_cursor" is missing`},
		{"moved: see https://one.example/a?b", "moved: see http://other.example/path"},
		{"x: token " + strings.Repeat("abcd", 10), "x: token " + strings.Repeat("wxyz", 12)},
	} {
		for _, text := range same[1:] {
			if a, b := CauseOf(same[0], ""), CauseOf(text, ""); a.Name != b.Name {
				t.Errorf("%q is %s (%s), and %q is %s (%s)", same[0], a.Name, pattern(a.Text, ""), text, b.Name, pattern(b.Text, ""))
			}
		}
	}
	if a, b := CauseOf("dns: no host one.example", "one.example"), CauseOf("dns: no host Two.Example.org", "two.example.org"); a.Name != b.Name {
		t.Errorf("the account's own host tells %s from %s", a.Name, b.Name)
	}
}

func TestOtherTextsStayApart(t *testing.T) {
	t.Parallel()
	texts := []string{
		"http_404: Not Found", "http_410: Not Found", "http_404: no such feed", "Not Found", "",
		"45009: api freq out of limit", "45033: api freq out of limit", "protocol: an HTML page, not a feed",
	}
	names := make(map[string]string)
	for _, text := range texts {
		name := CauseOf(text, "").Name
		if before, twice := names[name]; twice {
			t.Errorf("%q and %q are both %s", before, text, name)
		}
		names[name] = text
	}
}

func TestCodeAndText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"http_503: Service Unavailable":         {"http_503", "Service Unavailable"},
		"timeout: read: a: b":                   {"timeout", "read: a: b"},
		"no code here":                          {unknownCause, "no code here"},
		"two words: and a text":                 {unknownCause, "two words: and a text"},
		strings.Repeat("c", 65) + ": a text":    {unknownCause, strings.Repeat("c", 65) + ": a text"},
		"<script>: alert":                       {unknownCause, "<script>: alert"},
		"":                                      {unknownCause, ""},
		"wecom.45009: the corporation is asked": {"wecom.45009", "the corporation is asked"},
	} {
		if name := CauseOf(text, "").Name; codeIn(name) != want[0] || codeOf(text) != want[0] {
			t.Errorf("%q: the code in %q is %q, of the text %q", text, name, codeIn(name), codeOf(text))
		}
		if got := CauseOf(text, ""); got.Code != want[0] || got.Text != want[1] || !strings.HasPrefix(got.Name, want[0]+"~") {
			t.Errorf("%q: got %+v, want %q", text, got, want)
		}
	}
}

// The ring stores fewer bytes of an error than of a reason.
func TestAReasonHasTheCauseOfItsLastCheck(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"http_410: Gone", "config: config.url: must be an address", "auth: the server refuses user 17",
		"http_500: " + strings.Repeat("the upstream is broken ", 20), "http_500: " + strings.Repeat("1234567 ", 40),
	} {
		kept := text[:min(len(text), circulate.MaxError)]
		for _, reason := range []string{"gone: ", "config: ", "auth: ", "retry budget: 16 failures in a row, the last: "} {
			if a, b := CauseOf(kept, ""), CauseOfReason(reason+text, ""); a.Name != b.Name {
				t.Errorf("%q: the check is %s, the reason %s", reason+text, a.Name, b.Name)
			}
		}
	}
	if got := CauseOfReason("quarantine: 5 requeues without a returned check", ""); got.Code != "quarantine" {
		t.Errorf("got %+v", got)
	}
}

func FuzzOf(f *testing.F) {
	for _, seed := range []string{"http_404: Not Found", `a: "`, "a: b://", "a: -", "a: \xff\xfe1-", "x: é-1"} {
		f.Add(seed, "host.example")
	}
	f.Fuzz(func(t *testing.T, text, host string) {
		c := CauseOf(text, host)
		if len(c.Name) > maxCode+9 || c.Name != CauseOf(text, host).Name {
			t.Errorf("%q: name %q", text, c.Name)
		}
		if p := pattern(text, host); utf8.RuneCountInString(p) > maxPattern {
			t.Errorf("%q: pattern %q", text, p)
		}
		CauseOfReason(text, host)
	})
}

package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
)

// forms are the ways in which a third party may repeat a secret.
func forms(secret string) map[string]string {
	quoted, _ := json.Marshal(secret)
	everyByte := func(format string) (text string) {
		for _, b := range []byte(secret) {
			text += fmt.Sprintf(format, b)
		}
		return text
	}
	everyRune := func(format string) (text string) {
		for _, r := range secret {
			text += fmt.Sprintf(format, r)
		}
		return text
	}
	found := map[string]string{
		"plain": secret, "query": url.QueryEscape(secret), "path": url.PathEscape(secret),
		"percent, all, upper": everyByte("%%%02X"), "percent, all, lower": everyByte("%%%02x"),
		"query twice": url.QueryEscape(url.QueryEscape(secret)), "userinfo": url.UserPassword("u", secret).String(),
		"hex": hex.EncodeToString([]byte(secret)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"json": string(quoted[1 : len(quoted)-1]), "json, slashes": strings.ReplaceAll(string(quoted), "/", `\/`),
		"json, all": everyUnit(secret), "html": html.EscapeString(secret),
		"html, decimal": everyRune("&#%d;"), "html, hex": everyRune("&#x%X;"), "html, padded": everyRune("&#x%06x;"),
		"json of html": strings.ReplaceAll(html.EscapeString(secret), "/", `\/`),
	}
	for name, encoding := range map[string]*base64.Encoding{
		"std": base64.StdEncoding, "url": base64.URLEncoding, "raw": base64.RawStdEncoding, "raw url": base64.RawURLEncoding,
	} {
		for _, before := range []string{"", "x", "xy", "xyz", "user:"} {
			for _, behind := range []string{"", "1", "12"} {
				encoded := encoding.EncodeToString([]byte(before + secret + behind))
				found[fmt.Sprintf("base64 %s of %q and %q", name, before, behind)] = encoded
				found[fmt.Sprintf("base64 %s of %q and %q, percent-encoded", name, before, behind)] = url.QueryEscape(encoded)
			}
		}
	}
	return found
}

// everyUnit writes all characters as JSON escapes.
func everyUnit(text string) (escaped string) {
	for _, r := range text {
		if r > 0xffff {
			r -= 0x10000
			escaped += fmt.Sprintf(`\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			continue
		}
		escaped += fmt.Sprintf(`\u%04x`, r)
	}
	return escaped
}

func TestScrubEveryForm(t *testing.T) {
	for _, secret := range []string{
		"s3cret-of-the-corporation", `a/b+c=d&e<f>"g'h\i j`, "50%41 off", "пароль-пароль", "emoji 😀 inside", "????>>>>~~~~",
		"AAAAAAAAAAAA", strings.Repeat("long", 75),
	} {
		for name, form := range forms(secret) {
			for _, around := range []string{"§", "before § behind", "a=§&b=c", `{"token":"§"}`, "§,§"} {
				text := strings.ReplaceAll(around, "§", form)
				got := Scrub(text, []string{secret})
				if strings.Contains(got, form) || tells(got, secret) {
					t.Errorf("%s of %.40q in %q: %.200q", name, secret, around, got)
				}
				if !strings.Contains(got, scrubbed) {
					t.Errorf("%s of %.40q in %q: nothing was found in %.200q", name, secret, around, text)
				}
			}
		}
	}
}

// tells reports whether a text still shows a secret, as it stands or decoded.
func tells(text, secret string) bool {
	for _, decode := range []func(string) string{
		func(s string) string { return s }, html.UnescapeString,
		func(s string) string { u, _ := url.QueryUnescape(s); return u },
		func(s string) string { u, _ := url.PathUnescape(s); return u },
	} {
		if strings.Contains(decode(text), secret) {
			return true
		}
	}
	return false
}

func TestScrubWordsOfASecret(t *testing.T) {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:correct horse battery"))
	key := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a key of twenty-four byt"))
	for secret, texts := range map[string][]string{
		"Bearer abcdefgh12": {"abcdefgh12", "the token abcdefgh12!", hex.EncodeToString([]byte("abcdefgh12"))},
		basic:               {"correct horse battery", "user:correct horse battery", "correct+horse+battery", strings.TrimPrefix(basic, "Basic ")},
		key:                 {key, strings.TrimPrefix(key, "whsec_"), hex.EncodeToString([]byte("a key of twenty-four byt")), url.QueryEscape(key)},
		"abc":               {"abc", "xabcx", "%61%62%63"},
	} {
		for _, text := range texts {
			if got := Scrub(text, []string{secret}); !strings.Contains(got, scrubbed) || strings.Contains(got, text) {
				t.Errorf("%q in %q: %q", secret, text, got)
			}
		}
	}
}

func TestScrubLeavesOtherTexts(t *testing.T) {
	for _, text := range []string{"", "an ordinary message, 100 % of it", `{"a":"\u0041"}`, "&amp;&nosuch;&#x;&#;&", `\`, `\u12`, "%", "%4", "+", "bearer"} {
		if got := Scrub(text, []string{"s3cret-of-the-corporation", "Bearer abcdefgh12", ""}); got != text {
			t.Errorf("%q became %q", text, got)
		}
		if got := Scrub(text, nil); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// A text of megabytes costs little time, and no part of a secret remains where the text is
// cut.
func TestScrubLongTexts(t *testing.T) {
	const secret = "s3cret-of-the-corporation"
	for offset := 0; offset <= len(secret); offset += 5 {
		text := strings.Repeat(".", maxScrubbed-offset) + secret
		if got := Scrub(text, []string{secret}); strings.ContainsAny(strings.ReplaceAll(got, scrubbed, ""), "3ecrt") || len(got) > maxScrubbed {
			t.Fatalf("cut at %d: …%q", offset, got[len(got)-30:])
		}
	}
}

func FuzzScrub(f *testing.F) {
	f.Add("a %61%62 &amp; \\u0061 YWJjZGVmZ2g", "abcdefgh")
	f.Add("%2541%41A", "AAA%41AAAA")
	f.Add("\xff%ff", "\xff\xff\xff\xff\xff\xff\xff\xff")
	f.Fuzz(func(t *testing.T, text, secret string) {
		if len(secret) < leastWord || strings.Contains(scrubbed, secret) {
			return
		}
		if got := Scrub(text, []string{secret}); strings.Contains(got, secret) && !strings.Contains(secret, "[") && !strings.Contains(secret, "]") {
			t.Errorf("%q in %q: %q", secret, text, got)
		}
	})
}

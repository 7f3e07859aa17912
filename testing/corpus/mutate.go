package corpus

import (
	"math/rand/v2"
	"net/url"
	"strings"

	"github.com/rounds-dev/rounds/accounts"
)

// Mutate returns a request that has come of a seed by one to four changes. They are drawn
// from rng alone.
func Mutate(rng *rand.Rand, seed Request) Request {
	r := seed.Clone()
	r.About = ""
	for range 1 + rng.IntN(4) {
		switch rng.IntN(10) {
		case 0:
			r.Target = Text(mutatePath(rng, string(r.Target)))
		case 1, 2, 3:
			r.Target = Text(mutateQuery(rng, string(r.Target)))
		case 4:
			r.Header = mutateHeader(rng, r.Header)
		case 5:
			r.Method = pick(rng, "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get", "CONNECT")
		default:
			r.Body = Text(mutateBody(rng, string(r.Body)))
		}
	}
	return r
}

func pick(rng *rand.Rand, words ...string) string { return words[rng.IntN(len(words))] }

// words are what stands where a name, an id or a number should.
func word(rng *rand.Rand) string {
	switch rng.IntN(8) {
	case 0:
		return strings.Repeat(pick(rng, "a", "é", "\x01", "%", "/", "😀"), 1+rng.IntN(300))
	case 1:
		return strings.Repeat("x", 255+rng.IntN(3))
	case 2:
		return pick(rng, "-1", "0", "1", "1001", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e9", "1e999", "-0", "0x10", "NaN", "١", "1.5", "+1")
	case 3:
		return pick(rng, "", " ", ".", "..", "/", "//", "-", "%", "\\", "*", "?", "#", ":", "|", "1|2|3|4", "{}", "[]", "null", "true", "\x00", "\r\n", "\u2028", "\ufeff", "\ud7ff", "\xff", "\xc0\x80", "\xed\xa0\x80")
	case 4:
		return pick(rng, "feed", "http", "imap", "wecom-kf", "paused", "auth", "parked", "now", "start", "cursor", "backfill", "one", "kept/1", "kept/2", "made/3", "local")
	case 5:
		if rng.IntN(2) == 0 { // its checksum is right
			content := make([]byte, rng.IntN(12))
			for i := range content {
				content[i] = byte([]int{0, 1, 2, 4, 4, 4, rng.IntN(256), 0xff}[rng.IntN(8)])
			}
			return accounts.SealCursor(accounts.CursorKind("mlpradt"[rng.IntN(7)]), content)
		}
		return pick(rng, "bQAAAAA", "bA", "cAAAAAAAAAA", "ZAAAAAAAAAAAAAAAAAAAAA", "rrrrrrrr", "AAAA", "0-0", "0-1-1", "0-18446744073709551615-1", "99999-0-0", "1-1", "dDEgMSAxAAAAAA")
	case 6:
		return pick(rng, "10s", "-1s", "1h", "999999h", "1ns", "every 1m", "every 0s", "cron * * * * *", "cron 0 0 31 2 *", "at 2001-01-01T00:00:00Z", "adaptive 1m..1h", "every 1m phase 0", "1s1s", "∞")
	default:
		text := make([]byte, rng.IntN(24))
		for i := range text {
			text[i] = byte(rng.IntN(256))
		}
		return string(text)
	}
}

// escaped writes a word as a part of an address: as it should be, or in some other way.
func escaped(rng *rand.Rand, text string) string {
	switch rng.IntN(8) {
	case 0: // as it is, as far as the first line can have it
		return strings.NewReplacer(" ", "%20", "\r", "%0d", "\n", "%0a").Replace(text)
	case 1:
		return url.PathEscape(url.PathEscape(text))
	case 2:
		var all strings.Builder
		for _, b := range []byte(text) {
			const digits = "0123456789abcdef"
			all.WriteString("%" + string(digits[b>>4]) + string(digits[b&15]))
		}
		return all.String()
	case 3:
		return url.QueryEscape(text)
	default:
		return url.PathEscape(text)
	}
}

func mutatePath(rng *rand.Rand, target string) string {
	path, query, asks := strings.Cut(target, "?")
	parts := strings.Split(path, "/")
	i := rng.IntN(len(parts))
	switch rng.IntN(6) {
	case 0:
		parts = append(parts, escaped(rng, word(rng)))
	case 1:
		parts = append(parts[:i], parts[min(i+1, len(parts)):]...)
	case 2:
		parts[i] += pick(rng, ":", ":pause", ":import", ":delete", "/", "//", "%", "%zz", "%2", "%00", ";a=b", "#", "?")
	case 3:
		parts[i] = strings.ToUpper(parts[i])
	default:
		parts[len(parts)-1-rng.IntN(min(2, len(parts)))] = escaped(rng, word(rng))
	}
	path = strings.Join(parts, "/")
	if !strings.HasPrefix(path, "/") && rng.IntN(4) > 0 {
		path = "/" + path
	}
	if asks {
		path += "?" + query
	}
	return path
}

func mutateQuery(rng *rand.Rand, target string) string {
	path, query, _ := strings.Cut(target, "?")
	var pairs []string
	if query != "" {
		pairs = strings.Split(query, "&")
	}
	names := []string{"limit", "cursor", "kind", "state", "label", "prefix", "reason", "error", "host", "since", "all", "dry_run", "from",
		"with_state", "after", "group", "account", "by", "msg_signature", "timestamp", "nonce", "echostr", "other", ""}
	name := names[rng.IntN(len(names))]
	switch rng.IntN(6) {
	case 0:
		if len(pairs) > 0 {
			i := rng.IntN(len(pairs))
			pairs = append(pairs[:i], pairs[i+1:]...)
		}
	case 1:
		if len(pairs) > 0 {
			pairs = append(pairs, pairs[rng.IntN(len(pairs))])
		}
	case 2:
		pairs = append(pairs, pick(rng, "a;b", "&&", "=", "%", "%zz=1", "limit=1;cursor=2", "a=b=c", "+", "kind[]=feed", "limit%00=1"))
	case 3:
		for range rng.IntN(400) {
			pairs = append(pairs, escaped(rng, name)+"="+escaped(rng, word(rng)))
		}
	default:
		pairs = append(pairs, escaped(rng, name)+"="+escaped(rng, word(rng)))
	}
	if len(pairs) == 0 {
		return path
	}
	return path + "?" + strings.Join(pairs, "&")
}

func mutateHeader(rng *rand.Rand, header []Header) []Header {
	oneLine := strings.NewReplacer("\r", "", "\n", "") // one more line would be another request
	add := func(name, value string) { header = append(header, Header{name, Text(oneLine.Replace(value))}) }
	switch rng.IntN(10) {
	case 0:
		add("Content-Type", pick(rng, "", "text/plain", "application/xml", "application/json; charset=utf-16", "multipart/form-data", "application/x-ndjson", "application/cbor", ";;;", "*/*", "a/b; c=\"", "text/csv"))
	case 1:
		add("Accept", pick(rng, "", "text/event-stream", "*/*;q=0", "application/cbor", "text/html", ",,,", strings.Repeat("a/b,", 500)))
	case 2:
		add("If-Match", pick(rng, "*", "", `"`, `""`, `W/"x"`, `"a","b"`, `"a" "b"`, "x", "\"\x01\"", strings.Repeat(`"x",`, 500), "*,*"))
	case 3:
		add("Last-Event-ID", word(rng))
	case 4:
		add("Content-Encoding", pick(rng, "gzip", "br", "identity", "zstd, gzip", ""))
		add("Accept-Encoding", pick(rng, "gzip", "*;q=0", ""))
	case 5:
		add("Authorization", pick(rng, "", "Bearer", "Bearer  ", "Basic eDp5", "bearer token", "Bearer rounds_", "Digest x", word(rng)))
	case 6:
		add("Host", pick(rng, "", "localhost:1", "127.0.0.1", "[::1]", "example.com", "localhost.example.com", "127.0.0.1.", "LOCALHOST", "[", "a b"))
	case 7:
		add(pick(rng, "Origin", "Sec-Fetch-Site", "Referer", "Cookie", "X-Forwarded-For", "X-HTTP-Method-Override", "Range", "Expect", "Upgrade", "Connection", "Te"),
			pick(rng, "null", "cross-site", "same-origin", "https://example.com", "a=b; a=c; session=x", "bytes=0-1,2-", "100-continue", "websocket", word(rng)))
	case 8:
		add("Content-Length", pick(rng, "0", "1", "-1", "99", "99999999999", "x", "1,1"))
	default:
		add("X-"+strings.Repeat("a", 1+rng.IntN(100)), strings.Repeat("b", rng.IntN(20_000)))
	}
	return header
}

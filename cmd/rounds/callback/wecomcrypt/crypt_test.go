package wecomcrypt_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/callback/wecomcrypt"
	"github.com/rounds-dev/rounds/testing/upstream/wecomseal"
)

// The credentials of WeCom's own sample.
const (
	sampleToken = "QDG6eK"
	sampleKey   = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
	sampleCorp  = "wx5823bf96d3bd56c7"
)

func crypt(t testing.TB, token, key, receiver string) *wecomseal.Crypt {
	t.Helper()
	c, err := wecomseal.New(token, key, receiver)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestOfficialSamples opens the requests of WeCom's sample programs.
func TestOfficialSamples(t *testing.T) {
	c := crypt(t, sampleToken, sampleKey, sampleCorp)
	echo, err := c.Open("5c45ff5e21c57e6ad56bac8758b79b1d9ac89fd3", "1409659589", "263014780",
		"P9nAzCzyDtyTWESHep1vC5X9xho/qYX3Zpb4yKa9SKld1DsH3Iyt3tP3zNdtp+4RPcs8TgAE7OaBO+FZXvnaqQ==")
	if err != nil || string(echo) != "1616140317555161061" {
		t.Errorf("the echo is %q, %v", echo, err)
	}
	const body = `<xml><ToUserName><![CDATA[wx5823bf96d3bd56c7]]></ToUserName><Encrypt><![CDATA[` +
		`RypEvHKD8QQKFhvQ6QleEB4J58tiPdvo+rtK1I9qca6aM/wvqnLSV5zEPeusUiX5L5X/0lWfrf0QADHHhGd3QczcdCUpj911L3vg3W/sYYvuJTs3TUUkSUXxaccAS0qhxchrRYt66wiSpGLYL42aM6A8dTT+6k4aSknmPj48kzJs8qLjvd4Xgpue06DOdnLxAUHzM6+kDZ+HMZfJYuR+LtwGc2hgf5gsijff0ekUNXZiqATP7PF5mZxZ3Izoun1s4zG4LUMnvw2r+KqCKIw+3IQH03v+BCA9nMELNqbSf6tiWSrXJB3LAVGUcallcrw8V2t9EL4EhzJWrQUax5wLVMNS0+rUPA3k22Ncx4XXZS9o0MBH27Bo6BpNelZpS+/uh9KsNlY6bHCmJU9p8g7m3fVKn28H3KDYA5Pl/T8Z1ptDAVe0lXdQ2YoyyH2uyPIGHBZZIs2pDBS8R07+qN+E7Q==` +
		`]]></Encrypt><AgentID><![CDATA[218]]></AgentID></xml>`
	encrypted, err := wecomcrypt.ParseBody([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	message, err := c.Open("477715d11cdb4164915debcba66cb864d751f3e6", "1409659813", "1372623149", encrypted)
	if err != nil {
		t.Fatal(err)
	}
	event, err := wecomcrypt.ParseEvent(message)
	if err != nil || event.ToUserName != sampleCorp || event.CreateTime != 1409659813 || event.MsgType != "text" {
		t.Errorf("%+v, %v, of %s", event, err, message)
	}
}

func TestWhatIsSealedOpens(t *testing.T) {
	c := crypt(t, "token", strings.Repeat("a", 43), "ww1")
	at := time.Unix(1_700_000_000, 0)
	for length := range 100 {
		message := bytes.Repeat([]byte("m"), length)
		got, err := c.Decrypt(c.Encrypt(message))
		if err != nil || !bytes.Equal(got, message) {
			t.Fatalf("%d bytes: %q, %v", length, got, err)
		}
	}
	want := wecomcrypt.Event{ToUserName: "ww1", CreateTime: at.Unix(), MsgType: "event", Event: wecomcrypt.EventMessages, Token: "<&>", OpenKfID: "wk1"}
	query, body, err := c.Seal(want, "n1", at)
	if err != nil {
		t.Fatal(err)
	}
	encrypted, err := wecomcrypt.ParseBody(body)
	if err != nil {
		t.Fatal(err)
	}
	message, err := c.Open(query.Get("msg_signature"), query.Get("timestamp"), query.Get("nonce"), encrypted)
	if err != nil {
		t.Fatal(err)
	}
	got, err := wecomcrypt.ParseEvent(message)
	got.XMLName = want.XMLName
	if err != nil || got != want || !got.At().Equal(at) {
		t.Errorf("%+v, %v", got, err)
	}
	echo := c.SealEcho("hello", "n2", at)
	if got, err := c.Open(echo.Get("msg_signature"), echo.Get("timestamp"), echo.Get("nonce"), echo.Get("echostr")); err != nil || string(got) != "hello" {
		t.Errorf("the echo is %q, %v", got, err)
	}
}

func TestWhatIsNotSignedOrMeantForUsDoesNotOpen(t *testing.T) {
	c := crypt(t, sampleToken, sampleKey, sampleCorp)
	encrypted := c.Encrypt([]byte("m"))
	sign := c.Sign("1409659813", "n", encrypted)
	open := func(signature, timestamp, nonce, encrypted string, want error) {
		t.Helper()
		if got, err := c.Open(signature, timestamp, nonce, encrypted); !errors.Is(err, want) || got != nil {
			t.Errorf("%q, %v, want %v", got, err, want)
		}
	}
	open(sign, "1409659814", "n", encrypted, wecomcrypt.ErrSignature)
	open(sign, "1409659813", "m", encrypted, wecomcrypt.ErrSignature)
	open(sign[:39], "1409659813", "n", encrypted, wecomcrypt.ErrSignature)
	open("", "1409659813", "n", encrypted, wecomcrypt.ErrSignature)
	open(strings.ToUpper(sign), "1409659813", "n", encrypted, wecomcrypt.ErrSignature)
	other := crypt(t, sampleToken, sampleKey, "ww0").Encrypt([]byte("m"))
	open(c.Sign("1", "n", other), "1", "n", other, wecomcrypt.ErrReceiver)
	wrongKey := crypt(t, sampleToken, strings.Repeat("b", 43), sampleCorp).Encrypt([]byte("m"))
	if _, err := c.Decrypt(wrongKey); err == nil {
		t.Error("another key's text was read")
	}
	for _, text := range []string{"", "A", "====", encrypted[:len(encrypted)-4], encrypted + "\n", encrypted[:8] + "\n" + encrypted[8:], strings.Repeat("A", wecomcrypt.MaxEncrypted+4)} {
		open(c.Sign("1", "n", text), "1", "n", text, wecomcrypt.ErrText)
	}
}

// TestLengthsThatLie encrypts texts that WeCom never sends: a length beyond the text, and
// invalid paddings.
func TestLengthsThatLie(t *testing.T) {
	key, _ := base64.StdEncoding.DecodeString(sampleKey + "=")
	c := crypt(t, sampleToken, sampleKey, sampleCorp)
	for name, plain := range map[string][]byte{
		"no length":            append(bytes.Repeat([]byte{1}, 10), bytes.Repeat([]byte{22}, 22)...),
		"a length beyond":      append(append(bytes.Repeat([]byte{1}, 16), 0xff, 0xff, 0xff, 0xff), bytes.Repeat([]byte{12}, 12)...),
		"padding of 0":         make([]byte, 32),
		"padding of 33":        bytes.Repeat([]byte{33}, 64),
		"padding of two kinds": append(bytes.Repeat([]byte{1}, 30), 3, 2),
		"padding beyond":       bytes.Repeat([]byte{32}, 16),
	} {
		text := make([]byte, len(plain))
		b, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		cipher.NewCBCEncrypter(b, key[:16]).CryptBlocks(text, plain)
		if got, err := c.Decrypt(base64.StdEncoding.EncodeToString(text)); !errors.Is(err, wecomcrypt.ErrText) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestCredentialsAreJudged(t *testing.T) {
	for _, c := range []struct {
		token, key string
		want       error
	}{
		{"", sampleKey, wecomcrypt.ErrToken},
		{"with space", sampleKey, wecomcrypt.ErrToken},
		{strings.Repeat("a", 33), sampleKey, wecomcrypt.ErrToken},
		{sampleToken, sampleKey[:42], wecomcrypt.ErrKey},
		{sampleToken, sampleKey + "=", wecomcrypt.ErrKey},
		{sampleToken, sampleKey[:42] + "/", wecomcrypt.ErrKey},
	} {
		_, err := wecomseal.New(c.token, c.key, sampleCorp)
		if !errors.Is(err, c.want) {
			t.Errorf("%q, %q: %v, want %v", c.token, c.key, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), sampleKey[:20]) || strings.Contains(err.Error(), sampleToken)) {
			t.Errorf("the error has a secret: %v", err)
		}
	}
}

func TestBodiesThatAreNone(t *testing.T) {
	for _, body := range []string{
		"", "{}", "<xml/>", "<xml><Encrypt></Encrypt></xml>", "<xml><Encrypt>a", "<other><Encrypt>a</Encrypt></other>",
		"<xml><Encrypt>a</Encrypt></xml><xml/>", "<xml><Encrypt>&undefined;</Encrypt></xml>",
	} {
		if got, err := wecomcrypt.ParseBody([]byte(body)); !errors.Is(err, wecomcrypt.ErrXML) {
			t.Errorf("%q: %q, %v", body, got, err)
		}
	}
	if _, err := wecomcrypt.ParseEvent([]byte("<xml><CreateTime>x</CreateTime></xml>")); !errors.Is(err, wecomcrypt.ErrXML) {
		t.Errorf("a time that is none: %v", err)
	}
}

// FuzzOpen expects that no text causes a panic, and that every text that opens once opens
// again.
func FuzzOpen(f *testing.F) {
	c := crypt(f, sampleToken, sampleKey, sampleCorp)
	f.Add("P9nAzCzyDtyTWESHep1vC5X9xho/qYX3Zpb4yKa9SKld1DsH3Iyt3tP3zNdtp+4RPcs8TgAE7OaBO+FZXvnaqQ==", []byte("<xml><Encrypt>a</Encrypt></xml>"))
	f.Add(c.Encrypt([]byte("<xml><Event>e</Event></xml>")), []byte("<xml>"))
	f.Add("AAAA", []byte("<!DOCTYPE x>"))
	f.Fuzz(func(t *testing.T, encrypted string, body []byte) {
		message, err := c.Open(c.Sign("1", "n", encrypted), "1", "n", encrypted)
		if err == nil {
			if again, err := c.Decrypt(c.Encrypt(message)); err != nil || !bytes.Equal(again, message) {
				t.Errorf("%q became %q, %v", message, again, err)
			}
			_, _ = wecomcrypt.ParseEvent(message)
		} else if !errors.Is(err, wecomcrypt.ErrText) && !errors.Is(err, wecomcrypt.ErrReceiver) {
			t.Errorf("%v", err)
		}
		_, _ = wecomcrypt.ParseEvent(body)
		if text, err := wecomcrypt.ParseBody(body); err == nil && text == "" {
			t.Error("no text, and no error")
		}
	})
}

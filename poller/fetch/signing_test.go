package fetch

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func encoded(n int) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n)))
}

func TestParseKey(t *testing.T) {
	for text, size := range map[string]int{
		encoded(24):            24,
		"whsec_" + encoded(24): 24,
		encoded(200):           200,
		encoded(23):            0,
		"":                     0,
		"whsec_":               0,
		"WHSEC_" + encoded(24): 0,
		"not base64, but longer than a key must be": 0,
		encoded(24) + "\n\n x":                      0,
	} {
		key, err := ParseSigningKey(text)
		switch {
		case size == 0 && !errors.Is(err, ErrKey):
			t.Errorf("%q: got %v, %v", text, key, err)
		case size > 0 && (err != nil || key.Size() != size):
			t.Errorf("%q: got %v, %v", text, key, err)
		}
	}
}

// A receiver with one of the keys accepts the request. A receiver with another key does not.
func TestSign(t *testing.T) {
	var keys []*SigningKey
	for _, n := range []int{24, 32} {
		key, err := ParseSigningKey(encoded(n))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	now, body := time.Now(), []byte(`{"a":1}`)
	header := http.Header{"X-Other": {"kept"}}
	if err := Sign(header, "id-1", now, body, keys...); err != nil {
		t.Fatal(err)
	}
	if header.Get("X-Other") != "kept" || header.Get("Webhook-Id") != "id-1" || header.Get("Webhook-Timestamp") != strconv.FormatInt(now.Unix(), 10) {
		t.Errorf("got %v", header)
	}
	for n, taken := range map[int]bool{24: true, 32: true, 33: false} {
		verifier, err := standardwebhooks.NewWebhook(encoded(n))
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify(body, header); (err == nil) != taken {
			t.Errorf("a key of %d bytes: %v", n, err)
		}
		if verifier.Verify([]byte(`{"a":2}`), header) == nil {
			t.Errorf("a key of %d bytes takes another body", n)
		}
	}
	unsigned := http.Header{}
	if err := Sign(unsigned, "id-1", now, body); err != nil || unsigned.Get(HeaderID) == "" || unsigned.Values(HeaderSignature) != nil {
		t.Errorf("no key: got %v, %v", unsigned, err)
	}
}

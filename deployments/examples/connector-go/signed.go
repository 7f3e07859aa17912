package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// tolerance is how old a signature may be, or how far ahead.
const tolerance = 5 * time.Minute

// signed reports whether a request has a valid signature of Standard Webhooks.
func signed(key []byte, header http.Header, body []byte, now time.Time) bool {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	expected := mac.Sum(nil)
	// While secrets are changed there may be several, one for each secret.
	for signature := range strings.FieldsSeq(header.Get("webhook-signature")) {
		value, ok := strings.CutPrefix(signature, "v1,")
		if given, err := base64.StdEncoding.DecodeString(value); ok && err == nil && hmac.Equal(given, expected) {
			return true
		}
	}
	return false
}

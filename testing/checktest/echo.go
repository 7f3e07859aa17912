package checktest

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
)

// Echoes are the forms in which another side may repeat what it was sent.
func Echoes(secret string) []string {
	if secret == "" {
		return nil
	}
	quoted, err := json.Marshal(secret)
	if err != nil {
		panic(err) // a string can always be marshalled
	}
	every := ""
	for _, b := range []byte(secret) {
		every += fmt.Sprintf("%%%02x", b)
	}
	return []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), every, strings.ToUpper(every),
		strings.Trim(string(quoted), `"`), html.EscapeString(secret),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte("a" + secret)), base64.StdEncoding.EncodeToString([]byte("ab" + secret + "c")),
		base64.RawURLEncoding.EncodeToString([]byte("user:" + secret)),
	}
}

package oauth

import (
	"encoding/json"
	"errors"
	"strings"
)

const (
	maxRefresh = 8 << 10  // bytes of a refresh token
	maxAccess  = 12 << 10 // bytes of an access token
)

// Grant is what a sign-in has led to. Its JSON is the value of a stored secret.
type Grant struct {
	Provider string   `json:"provider"`  // google, microsoft, or the issuer's URL
	ClientID string   `json:"client_id"` // the client that the refresh token was issued to
	Refresh  string   `json:"refresh_token"`
	Scopes   []string `json:"scopes,omitempty"`
	// Key is random and stays when the refresh token is rotated. It seals the access tokens, and
	// distinguishes a sign-in from an earlier one.
	Key string `json:"key"`

	// Hosts are the provider's, as HOST:PORT, to which the refresh token goes.
	Hosts []string `json:"-"`
}

var errGrant = errors.New("is not a sign-in: sign the account in again")

// parseGrant reads a grant. The error quotes nothing of it.
func parseGrant(text string) (Grant, error) {
	var g Grant
	if json.Unmarshal([]byte(text), &g) != nil || g.Provider == "" || g.Key == "" || !isToken(g.Refresh, maxRefresh) {
		return Grant{}, errGrant
	}
	return g, nil
}

// Text returns the grant as the value of a secret.
func (g Grant) Text() (string, error) {
	text, err := json.Marshal(g)
	return string(text), err
}

// isToken reports whether a text can be a token (RFC 6749, appendix A.12 and A.17): printable ASCII.
func isToken(text string, most int) bool {
	return text != "" && len(text) <= most && !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}

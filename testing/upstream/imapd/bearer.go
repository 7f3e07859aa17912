package imapd

import (
	"strings"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
	"github.com/emersion/go-sasl"
)

const xoauth2 = "XOAUTH2"

// AuthenticateMechanisms returns how one may log in besides LOGIN.
func (s *session) AuthenticateMechanisms() []string {
	if s.server.options.Valid == nil {
		return []string{sasl.Plain}
	}
	return []string{sasl.Plain, sasl.OAuthBearer, xoauth2}
}

// Authenticate begins a login by a mechanism.
func (s *session) Authenticate(mechanism string) (sasl.Server, error) {
	switch {
	case mechanism == sasl.Plain:
		return sasl.NewPlainServer(func(_, name, password string) error { return s.Login(name, password) }), nil
	case (mechanism == sasl.OAuthBearer || mechanism == xoauth2) && s.server.options.Valid != nil:
		return &bearer{session: s}, nil
	}
	return nil, &imap.Error{Type: imap.StatusResponseTypeNo, Text: "SASL mechanism not supported"}
}

// bearer takes an access token, by OAUTHBEARER (RFC 7628) or XOAUTH2
// (https://developers.google.com/workspace/gmail/imap/xoauth2-protocol). A token that it refuses it
// answers with a challenge, and refuses for good once the client has answered that.
type bearer struct {
	session *session
	refused bool
}

// Next implements sasl.Server.
func (b *bearer) Next(response []byte) (challenge []byte, done bool, err error) {
	if b.refused {
		return nil, false, &imap.Error{Type: imap.StatusResponseTypeNo, Code: imap.ResponseCodeAuthenticationFailed, Text: "Invalid credentials (Failure)"}
	}
	if response == nil {
		return []byte{}, false, nil
	}
	var name, token string
	for field := range strings.SplitSeq(string(response), "\x01") {
		if user, ok := strings.CutPrefix(field, "user="); ok {
			name = user
		} else if user, ok := strings.CutPrefix(field, "n,a="); ok {
			name = strings.TrimSuffix(user, ",")
		} else if bearer, ok := strings.CutPrefix(field, "auth=Bearer "); ok {
			token = bearer
		}
	}
	s := b.session
	if s.server.options.Valid(name, token) {
		return nil, true, s.enter(name, func(*imapmemserver.User) error { return nil })
	}
	s.server.mu.Lock()
	s.server.logins++
	s.server.expired++
	s.server.mu.Unlock()
	b.refused = true
	return []byte(`{"status":"invalid_token"}`), false, nil
}

// RefusedTokens returns how many access tokens were refused.
func (s *Server) RefusedTokens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expired
}

// Dismiss ends an account's connections with words, in the middle of whatever they do.
func (s *Server) Dismiss(name, words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.account(name).conns {
		_, _ = conn.Write([]byte("* BYE " + words + "\r\n"))
		_ = conn.Close()
	}
}

package api

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
)

// IfMatch is the condition of a change of an account. It is exported because huma ignores
// unexported embedded fields.
type IfMatch struct {
	IfMatch string `header:"If-Match" example:"\"3-0c5f8f6b2f2e1d7a\"" doc:"Change the account only if it has this ETag, or one of several separated by commas; *: only if it exists. Otherwise 412."`
}

// entityTag is one tag of the list, in the form of RFC 9110.
var entityTag = regexp.MustCompile(`^(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*(?:,\s*|$)`)

// match reads the header. A weak tag never matches, because If-Match compares strongly. Without the
// header everything matches.
func (r IfMatch) match() (accounts.Match, error) {
	text := strings.TrimSpace(r.IfMatch)
	switch text {
	case "":
		return accounts.Match{}, nil
	case "*":
		return accounts.Match{Any: true}, nil
	}
	tags := []string{}
	for text != "" {
		found := entityTag.FindStringSubmatch(text)
		if found == nil {
			return accounts.Match{}, newErrorReply(http.StatusBadRequest, "the request cannot be read",
				&huma.ErrorDetail{Location: "header.If-Match", Message: `must be an ETag in quotes, such as "3-0c5f8f6b2f2e1d7a", several of them, or *`})
		}
		if found[1] == "" {
			tags = append(tags, found[2])
		}
		text = text[len(found[0]):]
	}
	return accounts.Match{Tags: tags}, nil
}

// misses reports whether the server demands the header and the request has none.
func (s *Server) misses(r IfMatch) bool {
	return s.options.RequireMatch && strings.TrimSpace(r.IfMatch) == ""
}

// matchOf reads the header of a change of an account that must exist.
func (s *Server) matchOf(r IfMatch) (accounts.Match, error) {
	if s.misses(r) {
		return accounts.Match{}, matchMissing()
	}
	return r.match()
}

func matchMissing() *errorReply {
	return newErrorReply(http.StatusPreconditionRequired,
		"this server changes and deletes an account only with If-Match: send the ETag that GET returns, or * for any")
}

// etagOf returns the ETag of an account's record. It changes only with the record, and not with
// the account's place.
func etagOf(v *accounts.View) string {
	if v.Tag == "" {
		return ""
	}
	return `"` + v.Tag + `"`
}

// changedReply is the reply when an account is not as the caller demands.
func changedReply() *errorReply {
	return newErrorReply(http.StatusPreconditionFailed,
		"the account is not as If-Match demands: somebody changed or deleted it, or it does not exist; get it again and repeat the change")
}

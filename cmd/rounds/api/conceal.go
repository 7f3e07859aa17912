package api

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/rounds-dev/rounds/accounts"
)

// A page may end after an account that its caller does not see. Its cursor names that
// account, so it is sealed for callers that are bound to labels.

// conceal returns the cursor in the form that the caller gets.
func (s *Server) conceal(ctx context.Context, cursor string) (string, error) {
	labels := boundTo(ctx)
	if labels == "" || cursor == "" {
		return cursor, nil
	}
	sealer, err := s.options.Keys.Sealer(ctx)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sealer.Seal(nil, nil, []byte(cursor), []byte(labels))), nil
}

// reveal returns the cursor that conceal was given, for the same labels. The error for any other
// text is accounts.ErrCursor.
func (s *Server) reveal(ctx context.Context, cursor string) (string, error) {
	labels := boundTo(ctx)
	if labels == "" || cursor == "" {
		return cursor, nil
	}
	sealer, err := s.options.Keys.Sealer(ctx)
	if err != nil {
		return "", err
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", fmt.Errorf("%w: it is cut off or mistyped", accounts.ErrCursor)
	}
	opened, err := sealer.Open(nil, nil, sealed, []byte(labels))
	if err != nil {
		return "", fmt.Errorf("%w: it is cut off or mistyped, or was given for other labels", accounts.ErrCursor)
	}
	return string(opened), nil
}

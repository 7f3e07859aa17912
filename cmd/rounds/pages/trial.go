package pages

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// trialReport is what a trial found.
type trialReport struct {
	RateKey string `json:"rate_key"`
	Pages   []struct {
		Messages []struct {
			ID        string          `json:"id"`
			Type      string          `json:"type"`
			Time      *time.Time      `json:"time"`
			Data      json.RawMessage `json:"data"`
			DataBytes int             `json:"data_bytes"`
		} `json:"messages"`
		LeftOut       int      `json:"left_out"`
		NextCursor    string   `json:"next_cursor"`
		HasMore       bool     `json:"has_more"`
		CursorReset   bool     `json:"cursor_reset"`
		NextPollAfter float64  `json:"next_poll_after"`
		Warnings      []string `json:"warnings"`
		Milliseconds  int      `json:"milliseconds"`
	} `json:"pages"`
	Error *struct {
		Kind         string  `json:"kind"`
		Scope        string  `json:"scope"`
		Code         string  `json:"code"`
		Message      string  `json:"message"`
		RetryAfter   float64 `json:"retry_after"`
		Then         string  `json:"then"`
		Budget       int     `json:"budget"`
		Milliseconds int     `json:"milliseconds"`
	} `json:"error"`
}

// try asks the API for a trial, and shows its report beside the form.
func (e *edited) try(v *visit, r record) error {
	e.Tried = new(trialReport)
	err := v.do(http.MethodPost, "/v1/accounts:check", map[string]any{"account": r}, e.Tried)
	var refused *problem
	switch {
	case errors.As(err, &refused):
		e.Tried = nil
		e.refuse(refused)
		return e.again(v, refused.Status)
	case err != nil:
		return err
	}
	for _, page := range e.Tried.Pages {
		for i := range page.Messages {
			var lines bytes.Buffer
			if json.Indent(&lines, page.Messages[i].Data, "", "  ") == nil {
				page.Messages[i].Data = lines.Bytes()
			}
		}
	}
	return e.again(v, http.StatusOK)
}

package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller"
)

// checkRun is a check by hand, as it is printed.
type checkRun struct {
	Kind    string          `json:"kind"`
	Account string          `json:"account"`
	Config  json.RawMessage `json:"config"` // masked
	RateKey string          `json:"rate_key"`
	Limit   int             `json:"limit"`
	Timeout string          `json:"timeout"`
	Pages   []checkPage     `json:"pages"`
	Error   *checkFailure   `json:"error"`
}

type checkPage struct {
	Cursor        string         `json:"cursor"` // empty: none
	Messages      []checkMessage `json:"messages"`
	NextCursor    string         `json:"next_cursor"`
	HasMore       bool           `json:"has_more"`
	CursorReset   bool           `json:"cursor_reset"`
	NextPollAfter float64        `json:"next_poll_after"` // seconds
	Warnings      []string       `json:"warnings,omitempty"`
	Milliseconds  int64          `json:"milliseconds"`
}

type checkMessage struct {
	ID   string          `json:"id"`
	Type string          `json:"type"`
	Time *time.Time      `json:"time"`
	Data json.RawMessage `json:"data"`
}

// checkFailure is a check's error, and what a poller would do about it.
type checkFailure struct {
	Kind         poller.ErrorKind  `json:"kind"`
	Scope        poller.ErrorScope `json:"scope"`
	Code         string            `json:"code"`
	Message      string            `json:"message"`
	RetryAfter   float64           `json:"retry_after"` // seconds; 0: not given
	Final        bool              `json:"final"`       // for auth: parked at once
	Pool         string            `json:"pool"`
	Milliseconds int64             `json:"milliseconds"`
}

// failureOf describes an error as a poller does. An error that no checker made may hold a
// secret, so its text is left out.
func failureOf(err error) *checkFailure {
	known := &poller.CheckError{Code: "unknown", Message: "the check failed"}
	errors.As(err, &known)
	f := &checkFailure{
		Kind: cmp.Or(known.Kind, poller.Transient), Scope: cmp.Or(known.Scope, poller.ScopeAccount),
		Code: known.Code, Message: known.Message, RetryAfter: known.RetryAfter.Seconds(), Final: known.Final,
	}
	f.Pool = poolWould(f, known.RetryAfter)
	return f
}

// poolWould returns what a poller does about a failure; cadence has the rules.
func poolWould(f *checkFailure, after time.Duration) string {
	again := "checks again after a backoff"
	if after > 0 {
		again = fmt.Sprintf("checks again after %v at the earliest", after)
	}
	switch {
	case f.Kind == poller.RateLimited:
		return again + "; does not count against the account"
	case f.Scope != poller.ScopeAccount:
		return again + "; does not count against the account, which is not to blame"
	case f.Kind == poller.AuthFailed && f.Final:
		return "parks the account at once, because trying again may do harm"
	case f.Kind == poller.AuthFailed:
		return fmt.Sprintf("checks again, and parks the account after %d refusals over at least %v", cadence.AuthBudget, cadence.AuthOver)
	case f.Kind == poller.Gone, f.Kind == poller.ConfigInvalid:
		return "parks the account at once"
	case f.Kind == poller.CursorInvalid:
		return fmt.Sprintf("drops the cursor, and %s without one; parks the account after %d failures in a row", again, cadence.RetryBudget)
	}
	return fmt.Sprintf("%s; parks the account after %d failures in a row", again, cadence.RetryBudget)
}

func (run *checkRun) print(w io.Writer, jsonOutput bool) error {
	if jsonOutput {
		if run.Pages == nil {
			run.Pages = []checkPage{}
		}
		return printJSON(w, run)
	}
	fmt.Fprintf(w, "kind     %s, account %s, limit %d, timeout %s\n", run.Kind, oneLine(run.Account), run.Limit, run.Timeout)
	fmt.Fprintf(w, "config   %s\n", oneLine(string(run.Config)))
	fmt.Fprintf(w, "limits   %s\n", cmp.Or(oneLine(run.RateKey), "shared with nobody"))
	for n, page := range run.Pages {
		fmt.Fprintf(w, "\npage %d   %d messages in %d ms, from %s\n", n+1, len(page.Messages), page.Milliseconds, cmp.Or(oneLine(page.Cursor), "the beginning"))
		for _, m := range page.Messages {
			when := "-"
			if m.Time != nil {
				when = clockTime(*m.Time)
			}
			fmt.Fprintf(w, "  %s  %s  %s  %s\n", when, quoted(m.Type), quoted(m.ID), shorten(string(m.Data)))
		}
		for _, warning := range page.Warnings {
			fmt.Fprintf(w, "warning  %s\n", oneLine(warning))
		}
		if page.CursorReset {
			fmt.Fprintln(w, "reset    the third party no longer knew the cursor: messages may be missing or repeated")
		}
		if page.NextPollAfter > 0 {
			fmt.Fprintf(w, "wait     at least %v until the next check\n", time.Duration(page.NextPollAfter*float64(time.Second)))
		}
		fmt.Fprintf(w, "cursor   %s\n", cmp.Or(oneLine(page.NextCursor), "none"))
		if page.HasMore {
			fmt.Fprintln(w, "more     there is another page: use --pages, or --cursor with the cursor above")
		}
	}
	if f := run.Error; f != nil {
		fmt.Fprintf(w, "\nfailed   %s, scope %s, code %s, in %d ms\n", f.Kind, f.Scope, oneLine(f.Code), f.Milliseconds)
		fmt.Fprintf(w, "         %s\n", oneLine(f.Message))
		if f.RetryAfter > 0 {
			fmt.Fprintf(w, "wait     %v, as the third party asks\n", time.Duration(f.RetryAfter*float64(time.Second)))
		}
		fmt.Fprintf(w, "a poller %s\n", f.Pool)
	}
	return nil
}

// masked hides what may be secret in a config although it is plain text: the user and the
// query of a URL. References to secrets are names, and stay.
func masked(config json.RawMessage) json.RawMessage {
	var value any
	if decodeExactly(config, &value) != nil {
		return json.RawMessage("null")
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(maskedValue(value)) != nil {
		return json.RawMessage("null")
	}
	return json.RawMessage(strings.TrimSpace(b.String()))
}

func maskedValue(value any) any {
	switch v := value.(type) {
	case string:
		if strings.Contains(v, "://") {
			return settings.MaskURL(v)
		}
	case []any:
		for i := range v {
			v[i] = maskedValue(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = maskedValue(v[name])
		}
	}
	return value
}

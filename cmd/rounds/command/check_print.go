package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// checkRun is a check by hand, as it is printed.
type checkRun trial.Report

func (run *checkRun) print(w io.Writer, jsonOutput bool) error {
	if jsonOutput {
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

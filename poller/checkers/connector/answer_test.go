package connector

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
)

func TestPage(t *testing.T) {
	result, err := ask(t, 200, nil, `{"messages": [
		{"id": "1", "type": "text", "time": "2026-01-31T12:00:00.5+01:00", "data": {"a": [1]}, "later": true},
		{"id": "2", "data": null}
	], "next_cursor": {"n": 10000000000000000001, "s": "<"}, "has_more": true, "next_poll_after": 1.5, "cursor_reset": true, "later": 1}`)
	if err != nil {
		t.Fatal(err)
	}
	first, second := result.Messages[0], result.Messages[1]
	if first.ID != "1" || first.Type != "text" || string(first.Data) != `{"a": [1]}` || first.Time.Format(time.RFC3339Nano) != "2026-01-31T11:00:00.5Z" {
		t.Errorf("got %+v", first)
	}
	if second.ID != "2" || second.Type != "" || string(second.Data) != "null" || !second.Time.IsZero() {
		t.Errorf("got %+v", second)
	}
	if string(result.Cursor) != `{"n": 10000000000000000001, "s": "<"}` || !result.HasMore || !result.CursorReset || result.NextPollAfter != 1500*time.Millisecond {
		t.Errorf("got %+v", result)
	}
}

func TestCursor(t *testing.T) {
	for answer, want := range map[string]string{
		`{"messages": []}`:                          "",
		`{"messages": null, "next_cursor": null}`:   "",
		`{"messages": [], "next_cursor": "a"}`:      `"a"`,
		`{"messages": [], "next_cursor": ""}`:       `""`,
		`{"messages": [], "next_cursor": 7}`:        `7`,
		`{"messages": [], "next_cursor": false}`:    `false`,
		`{"messages": [], "next_cursor": [1, "x"]}`: `[1, "x"]`,
	} {
		result, err := decode([]byte(answer), 10)
		if err != nil || string(result.Cursor) != want || (result.Cursor == nil) != (want == "") {
			t.Errorf("%s: got %q, %v", answer, result.Cursor, err)
		}
	}
	result, err := decode([]byte(`{"messages": [], "has_more": true}`), 10)
	if err != nil || !result.HasMore || len(result.Messages) != 0 {
		t.Errorf("more of nothing: got %+v, %v", result, err)
	}
}

// A page with a field that is probably misspelt is read without that field, and a warning says so.
func TestMisspeltFieldsWarn(t *testing.T) {
	for answer, want := range map[string]string{
		`{"messages": [{"id": "1", "data": 1}], "nextCursor": 1}`:                     "field_name: nextCursor: no field has this name, next_cursor is likely meant",
		`{"messages": [], "hasMore": true, "next_cursor": 1}`:                         "field_name: hasMore: no field has this name, has_more is likely meant",
		`{"messages": [{"id": "1", "data": 1}, {"id": "2", "data": 1, "Time": "x"}]}`: "field_name: messages[1].Time: no field has this name, time is likely meant",
		`{"messages": [{"id": "1", "data": 1, "later": 1}], "took": 1}`:               "",
	} {
		result, err := ask(t, 200, nil, answer)
		got := ""
		for _, w := range result.Warnings {
			got += w.String()
		}
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", answer, got, err, want)
		}
	}
}

func TestAnswersThatBreakTheRules(t *testing.T) {
	message := func(fields string) string { return `{"messages": [{"id": "0", "data": 1}, {` + fields + `}]}` }
	long := strings.Repeat("x", 70<<10)
	for answer, want := range map[string]string{
		``:                                    "not a JSON object",
		`null`:                                "not a JSON object",
		`[]`:                                  "not a JSON object",
		`<html>`:                              "not a JSON object",
		`{"messages": []} {}`:                 "not a JSON object",
		"{\"messages\": [], \"a\": \"\xff\"}": "not UTF-8",
		`{}`:                                  "messages: missing",
		`{"Messages": []}`:                    "messages: missing",
		`{"messages": {}}`:                    "messages: must be an array",
		`{"messages": [7]}`:                   "messages[0]: must be an object",
		`{"messages": [null]}`:                "messages[0]: must be an object",
		`{"messages": [{"id":"1","data":1},{"id":"2","data":1},{"id":"3","data":1}]}`: "messages: 3 of them, over the limit of 2",

		message(`"data": 1`):                                                 "messages[1].id: missing",
		message(`"id": null, "data": 1`):                                     "messages[1].id: missing",
		message(`"id": "", "data": 1`):                                       "messages[1].id: missing",
		message(`"id": 7, "data": 1`):                                        "messages[1].id: must be a string",
		message(`"id": "` + long[:257] + `", "data": 1`):                     "messages[1].id: over 256 bytes",
		message(`"id": "a\nb", "data": 1`):                                   "messages[1].id: must not hold control characters",
		message(`"id": "0", "data": 1`):                                      "messages[1].id: comes twice on this page",
		message(`"id": "1"`):                                                 "messages[1].data: missing",
		message(`"id": "1", "data": "` + strings.Repeat("x", maxData) + `"`): "messages[1].data: over 262144 bytes",
		message(`"id": "1", "data": 1, "type": 7`):                           "messages[1].type: must be a string",
		message(`"id": "1", "data": 1, "type": "` + long[:257] + `"`):        "messages[1].type: over 256 bytes",
		message(`"id": "1", "data": 1, "time": 7`):                           "messages[1].time: must be a string",
		message(`"id": "1", "data": 1, "time": "yesterday"`):                 "messages[1].time: must be RFC 3339, as in 2026-01-31T12:00:00Z",
		message(`"id": "1", "data": 1, "time": "9999-12-31T23:00:00-02:00"`): "messages[1].time: must be RFC 3339, as in 2026-01-31T12:00:00Z",

		`{"messages": [], "next_cursor": "` + long + `"}`:    "next_cursor: over 65536 bytes",
		`{"messages": [], "has_more": 1}`:                    "has_more: must be true or false",
		`{"messages": [], "cursor_reset": "no"}`:             "cursor_reset: must be true or false",
		`{"messages": [], "next_poll_after": -1}`:            "next_poll_after: must be a number of seconds from 0 to 31622400",
		`{"messages": [], "next_poll_after": 1e300}`:         "next_poll_after: must be a number of seconds from 0 to 31622400",
		`{"messages": [], "next_poll_after": "60"}`:          "next_poll_after: must be a number of seconds from 0 to 31622400",
		`{"error": "no"}`:                                    "error: must be an object",
		`{"error": {}}`:                                      "error.kind: missing",
		`{"error": {"kind": 7}}`:                             "error.kind: must be a string",
		`{"error": {"kind": "other"}}`:                       "error.kind: must be auth, gone, config, rate_limited, cursor_invalid or transient",
		`{"error": {"kind": "auth", "code": 7}}`:             "error.code: must be a string",
		`{"error": {"kind": "auth", "message": 7}}`:          "error.message: must be a string",
		`{"error": {"kind": "auth"}, "retry_after": "soon"}`: "retry_after: must be a number of seconds from 0 to 31622400",
	} {
		result, err := decode([]byte(answer), 2)
		if err == nil || err.Error() != want {
			t.Errorf("%.80s: got %v, want %s", answer, err, want)
		}
		if result.Messages != nil || result.Cursor != nil {
			t.Errorf("%.80s: something of the page is used: %+v", answer, result)
		}
	}
	_, err := ask(t, 200, nil, `{}`)
	if got := checktest.Failure(t, err); got.Kind != poller.Protocol || got.Scope != poller.ScopeChecker || !strings.Contains(got.Message, "messages: missing") {
		t.Errorf("got %v, scope %s", got, got.Scope)
	}
	_, err = ask(t, 200, nil, strings.Repeat(" ", maxBody+1))
	if got := checktest.Failure(t, err); got.Kind != poller.Protocol || got.Code != "too_large" {
		t.Errorf("too large: got %v", got)
	}
}

// The error for an answer that is no JSON object shows where it breaks and how it goes on there,
// and never a secret.
func TestUnreadableAnswersAreShown(t *testing.T) {
	long := strings.Repeat("x", 100)
	for body, want := range map[string]string{
		"":                                    "empty, and not a JSON object: answer 204 where nothing is new",
		" \n":                                 "empty, and not a JSON object: answer 204 where nothing is new",
		`{"messages":[`:                       "not a JSON object: it ends at byte 13, within its JSON",
		`{"messages":[],"next_cursor":NaN}`:   `not a JSON object: not JSON at byte 29: "NaN}" (text/plain)`,
		"\ufeff{\"messages\":[]}":             "begins with a byte order mark, which JSON must not have",
		`{"messages":[]} and more`:            `not a JSON object: more follows behind it at byte 16: "and more"`,
		`[]`:                                  "not a JSON object: it is an array",
		`"text"`:                              "not a JSON object: it is a string",
		`7`:                                   "not a JSON object: it is a number",
		`null`:                                "not a JSON object: it is null",
		`true`:                                "not a JSON object: it is a truth value",
		"oh\x1b[2Jno":                         `not a JSON object: not JSON at byte 0: "oh\x1b[2Jno" (text/plain)`,
		long:                                  `not a JSON object: not JSON at byte 0: "` + long[:24] + `"… (text/plain)`,
		"{\"messages\": \"\xff\"}":            "not UTF-8 at byte 14",
		apiToken:                              "not a JSON object: not JSON at byte 1 (text/plain)",
		`{"messages":[], "x": ` + apiToken:    "not a JSON object: not JSON at byte 22 (text/plain)",
		"<!doctype html>\n<html>" + long[:60]: `not a JSON object: text/html, begins with "<!doctype html>\n<html>xx"…`,
		"see https://x.example/?q=1":          "not a JSON object: not JSON at byte 0 (text/plain)",
		"<html>" + apiToken:                   "not a JSON object: text/html",
	} {
		header := http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
		if strings.HasPrefix(body, "<") {
			header.Set("Content-Type", "text/html")
		}
		_, err := ask(t, 200, header, body)
		got := checktest.Failure(t, err)
		if got.Message != "the connector's answer: "+want || got.Scope != poller.ScopeChecker {
			t.Errorf("%q:\ngot  %s\nwant %s", body, got.Message, want)
		}
	}
}

// The error for a bare status says what helps against it, and shows nothing that the address holds.
func TestStatusesSayWhatHelps(t *testing.T) {
	for location, want := range map[string]string{
		"https://me:pw@other.example/check/?token=hush#x": "redirects are not followed: set the account's url to https://other.example/check/ (the connector answered 307 Temporary Redirect)",
		"/a/" + apiToken: "redirects are not followed: set the account's url to the address that answers (the connector answered 307 Temporary Redirect)",
		"":               "redirects are not followed: set the account's url to the address that answers (the connector answered 307 Temporary Redirect)",
	} {
		_, err := ask(t, 307, http.Header{"Location": {location}}, "")
		if got := checktest.Failure(t, err); !strings.HasPrefix(got.Message, want) || got.Code != "http_307" {
			t.Errorf("%s: got %s", location, got.Message)
		}
	}
	for signed, want := range map[bool]string{true: "the connector answered 401 Unauthorized", false: "the connector answered 401 Unauthorized; the account has no signing_secret, so the request was not signed"} {
		sent := resolved{}
		if signed {
			sent.keys = []*fetch.SigningKey{nil}
		}
		if got := statusError(&fetch.Response{Status: 401}, sent); got.Message != want {
			t.Errorf("signed %v: got %s", signed, got.Message)
		}
	}
}

func TestReportedErrors(t *testing.T) {
	for kind, want := range map[string]poller.ErrorKind{
		"auth": poller.AuthFailed, "gone": poller.Gone, "config": poller.ConfigInvalid,
		"rate_limited": poller.RateLimited, "cursor_invalid": poller.CursorInvalid, "transient": poller.Transient,
	} {
		for _, status := range []int{200, 400, 404, 410, 429, 500, 503} {
			_, err := ask(t, status, http.Header{"Retry-After": {"9"}}, `{"error": {"kind": "`+kind+`", "code": "E1", "message": "it broke"}, "retry_after": 30}`)
			got := checktest.Failure(t, err)
			if got.Kind != want || got.Scope != poller.ScopeAccount || got.Code != "E1" || got.Message != "it broke" || got.RetryAfter != 30*time.Second {
				t.Errorf("%s, %d: got %+v", kind, status, got)
			}
		}
	}
	for wait, want := range map[string]time.Duration{`0`: time.Second, `1e6`: 24 * time.Hour, `1.5`: 1500 * time.Millisecond, `null`: 9 * time.Second} {
		_, err := ask(t, 200, http.Header{"Retry-After": {"9"}}, `{"error": {"kind": "rate_limited"}, "retry_after": `+wait+`}`)
		if got := checktest.Failure(t, err); got.RetryAfter != want || got.Code != "rate_limited" {
			t.Errorf("retry_after %s: got %+v", wait, got)
		}
	}
}

// A wait in the wrong place is not obeyed, and the error says so before the connector's own text.
func TestAMisplacedWaitIsNamed(t *testing.T) {
	_, err := ask(t, 200, nil, `{"error": {"kind": "rate_limited", "message": "slow", "retry_after": 30}}`)
	if got := checktest.Failure(t, err); got.Kind != poller.RateLimited || got.RetryAfter != 0 || got.Message != "error.retry_after is ignored: it belongs beside error: slow" {
		t.Errorf("got %+v", got)
	}
	if got := misspelt([]byte(`{"error": {"kind": "rate_limited", "retry_after": 30}}`)); got != "error.retry_after is ignored: it belongs beside error" {
		t.Errorf("verify says %q", got)
	}
}

// An error object without a kind counts as its status does, and its message is not lost.
func TestAnErrorWithoutAKindIsNamed(t *testing.T) {
	for body, want := range map[string]string{
		`{"error": {"message": "database is down, token=` + apiToken + `", "code": "db"}}`: "500 without an error.kind: database is down, token=[secret]",
		`{"error": {"code": "db"}}`:            "the connector answered 500 Internal Server Error; its error has no kind, which would say whose fault it is",
		`{"error": {"text": "x"}}`:             "the connector answered 500 Internal Server Error",
		`{"error": {"message": 7}}`:            "the connector answered 500 Internal Server Error",
		"{\"error\": {\"message\": \"\xff\"}}": "the connector answered 500 Internal Server Error",
		`{"message": "x"}`:                     "the connector answered 500 Internal Server Error",
	} {
		_, err := ask(t, 500, nil, body)
		if got := checktest.Failure(t, err); got.Message != want || got.Kind != poller.Transient || got.Scope != poller.ScopeRateKey || got.Code != "http_500" {
			t.Errorf("%s: got %+v", body, got)
		}
	}
}

// Without an error object, a failure does not count against the account, except for 410.
func TestBareStatus(t *testing.T) {
	for status, want := range map[int]struct {
		kind  poller.ErrorKind
		scope poller.ErrorScope
	}{
		302: {poller.Transient, poller.ScopeChecker},
		304: {poller.Transient, poller.ScopeChecker},
		400: {poller.Transient, poller.ScopeChecker},
		401: {poller.Transient, poller.ScopeChecker},
		403: {poller.Transient, poller.ScopeChecker},
		404: {poller.Transient, poller.ScopeChecker},
		410: {poller.Gone, poller.ScopeAccount},
		429: {poller.RateLimited, poller.ScopeRateKey},
		500: {poller.Transient, poller.ScopeRateKey},
		502: {poller.Transient, poller.ScopeRateKey},
		503: {poller.Transient, poller.ScopeRateKey},
	} {
		for _, body := range []string{``, `{"detail": "x"}`, `{"error": "x"}`, `{"error": {"text": "x"}}`, `<html>`} {
			_, err := ask(t, status, nil, body)
			if got := checktest.Failure(t, err); got.Kind != want.kind || got.Scope != want.scope {
				t.Errorf("%d %s: got %v, scope %s", status, body, got, got.Scope)
			}
		}
	}
	_, err := ask(t, 500, nil, `{"error": {"kind": "other"}}`)
	if got := checktest.Failure(t, err); got.Kind != poller.Protocol {
		t.Errorf("unknown kind: got %v", got)
	}
}

func TestWhatAConnectorSaysIsScrubbed(t *testing.T) {
	raw, err := json.Marshal("GET https://me:pw@api.example.com/x?access=hush failed\nwith Bearer " + apiToken + " and " + signingKey + " at /y?hush")
	if err != nil {
		t.Fatal(err)
	}
	_, err = ask(t, 200, nil, `{"error": {"kind": "auth", "code": "`+apiToken+`", "message": `+string(raw)+`}}`)
	got := checktest.Failure(t, err)
	want := "GET https://…@api.example.com/x?… failed with [secret] and [secret] at /y?…"
	if got.Message != want || got.Code != "auth" {
		t.Errorf("got  %s %s\nwant %s", got.Code, got.Message, want)
	}
	if got := scrub(strings.Repeat("ä", maxMessage), nil); len(got) > maxMessage+3 || !strings.HasSuffix(got, "ä…") {
		t.Errorf("got %d bytes", len(got))
	}
}

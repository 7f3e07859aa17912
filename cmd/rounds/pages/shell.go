package pages

import (
	"strings"
	"unicode"
)

// Lines returns what a shell does with the account: commands of rounds, and requests to the API. The
// token and the service's address stay in the environment, where the commands look for them, too.
func (a *oneAccount) Lines() []string {
	path := `"$ROUNDS_API_URL/v1/accounts/` + strings.ReplaceAll(segment(a.ID), "$", "%24")
	const curl = `curl --fail-with-body -H "Authorization: Bearer $ROUNDS_API_TOKEN" `
	requests := []string{curl + path + `/schedule"`, curl + path + `"`, curl + "-X POST " + path + `/nudge"`}
	id, ok := quoted(a.ID)
	if !ok {
		return requests
	}
	return append([]string{"rounds account why -- " + id, "rounds account get -- " + id, "rounds account nudge -- " + id}, requests...)
}

// quoted returns a text as one word of a POSIX shell, or false for a text that could look other than
// it is, such as one with a line break.
func quoted(text string) (string, bool) {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return "", false
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'", true
}

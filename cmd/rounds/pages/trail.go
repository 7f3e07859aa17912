package pages

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// trailShown is how many entries a page of the trail has.
const trailShown = 50

// trailPage is a page of the trail: who changed what.
type trailPage struct {
	api.TrailPage
	Entries []trailEntry `json:"entries"`

	First, Older string   // addresses of other pages; empty: there are none
	Refused      *problem // why the API did not list them
}

// trailEntry is one change that somebody ordered.
type trailEntry struct{ api.TrailEntry }

// Named returns some of the accounts that the entry names.
func (e *trailEntry) Named() []string {
	if e.Account != "" {
		return []string{e.Account}
	}
	return e.Accounts[:min(len(e.Accounts), 3)]
}

// More returns how many further accounts the entry names.
func (e *trailEntry) More() int { return max(0, len(e.Accounts)-len(e.Named())) }

// Kind returns the kind of thing that the entry is about, such as webhook. It is empty for an account.
func (e *trailEntry) Kind() string {
	if strings.HasPrefix(e.Subject, deadLetters) {
		return "letters"
	}
	kind, _, _ := strings.Cut(e.Subject, " ")
	return kind
}

// Thing returns the name of that thing.
func (e *trailEntry) Thing() string {
	if of, dead := strings.CutPrefix(e.Subject, deadLetters); dead {
		return of
	}
	_, thing, _ := strings.Cut(e.Subject, " ")
	return thing
}

// deadLetters begins the subject of an entry about the dead letters of a group.
const deadLetters = "dead letters "

// Class returns how well it ended.
func (e *trailEntry) Class() string {
	switch e.Outcome {
	case "done":
		return "good"
	case "refused":
		return "warn"
	}
	return "bad"
}

func trailOfAllPage() *page {
	return &page{name: "trail", path: "/trail", menu: "system", data: func(v *visit) (any, error) {
		var t trailPage
		asked := link("/v1/trail", "limit", strconv.Itoa(trailShown), "by", v.Query("by"), "account", v.Query("account"), "since", v.Query("since"), "cursor", v.Query("cursor"))
		if err := v.get(asked, &t); err != nil {
			if t.Refused = refusedFor(err, http.StatusUnprocessableEntity); t.Refused != nil {
				return &t, nil
			}
			return nil, err
		}
		if v.Query("cursor") != "" {
			t.First = v.With()
		}
		if t.Next != "" {
			t.Older = v.With("cursor", t.Next)
		}
		return &t, nil
	}}
}

// Spans returns how far back the page can look.
func (t *trailPage) Spans() []string { return slices.Clone([]string{"1h", "24h", "168h", "720h"}) }

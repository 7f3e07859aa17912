package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// bulkRate is how many nudged accounts become due in a second, unless the form says otherwise.
const bulkRate = 10

// bulk is what the page shows that asks whether many accounts shall be changed.
type bulk struct {
	Do      string
	All     bool // every account
	Selects []choiceOf
	IDs     []string
	Fields  []choiceOf // hidden fields of the form
	Count   api.AccountCount
	Rate    string
	Set     struct{ Cadence, Priority, Labels, Unlabel string } // what is set
	Undo    int                                                 // up to how many changed accounts it can be taken back; 0: it cannot
	Back    string                                              // the list of the selected accounts
	Refused *problem
	Changes bool // there is something to do
}

func bulkPage() *page {
	return &page{name: "bulk", path: "/accounts/bulk", menu: "accounts", actions: map[string]action{"/accounts/bulk": orderBulk},
		data: func(v *visit) (any, error) { return askBulk(v, v.r.URL.Query()) }}
}

// mostUndone is the most accounts that a job may have changed to be taken back.
const mostUndone = 100_000

// Paced reports whether the accounts become due at a rate.
func (b *bulk) Paced() bool { return b.Do == "nudge" || b.Do == "retry" }

// Priorities are the words that the form offers.
func (b *bulk) Priorities() []string { return priorityNames }

// readBulk reads an order from a query or a form.
func readBulk(v *visit, q url.Values) (*bulk, error) {
	b := &bulk{Do: q.Get("do"), Rate: q.Get("rate")}
	b.Set.Cadence, b.Set.Priority, b.Set.Labels, b.Set.Unlabel = q.Get("set.cadence"), q.Get("set.priority"), q.Get("set.labels"), q.Get("set.unlabel")
	if !slices.Contains(bulkActions, b.Do) {
		return nil, refusal(http.StatusUnprocessableEntity, v.lang.text("bulk.unknown"))
	}
	if b.Rate == "" {
		b.Rate = strconv.Itoa(bulkRate)
	}
	if b.Do == "pause" || b.Do == "set" {
		b.Undo = mostUndone
	}
	chosen := selected(q)
	b.All = len(chosen) == 0 && q.Get("all") != ""
	b.Back = address("/accounts", chosen)
	for _, name := range filterNames {
		for _, value := range chosen[name] {
			b.Fields = append(b.Fields, choiceOf{Name: name, Value: value})
		}
	}
	b.IDs = chosen["id"]
	delete(chosen, "id")
	b.Selects = chipsOf(chosen, func(string, []string) string { return "" })
	if b.All {
		b.Fields = append(b.Fields, choiceOf{Name: "all", Value: "true"})
	}
	return b, nil
}

// route returns the route for the change.
func (b *bulk) route() string { return "POST /v1/accounts:" + b.Do }

// query returns the API's parameters for the selected accounts.
func (b *bulk) query() url.Values {
	q := url.Values{}
	for _, f := range b.Fields {
		q.Add(f.Name, f.Value)
	}
	return q
}

// askBulk makes the page that asks for confirmation, with the number of accounts that the change
// concerns. A selection that the API refuses is shown with its faults.
func askBulk(v *visit, q url.Values) (*bulk, error) {
	b, err := readBulk(v, q)
	if err != nil {
		return nil, err
	}
	if !v.May(b.route()) {
		return nil, refusal(http.StatusForbidden, v.lang.text("bulk.forbidden"))
	}
	if len(b.Fields) == 0 {
		return nil, refusal(http.StatusUnprocessableEntity, v.lang.text("bulk.nothing"))
	}
	selection := b.query()
	selection.Del("all")
	selection.Set("looks", countLooks)
	err = v.get(address("/v1/accounts:count", selection), &b.Count)
	if b.Refused = refusedFor(err, http.StatusUnprocessableEntity); b.Refused != nil {
		return b, nil
	}
	b.Changes = b.Count.Count > 0 || !b.Count.Complete
	return b, err
}

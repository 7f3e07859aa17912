package pages

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	bulkRun  = "/accounts/bulk/run" // the reply is written while the change goes on
	bulkRate = 10                   // how many nudged accounts become due in a second
)

// bulk is what the pages show that change many accounts: first what will be done, and then how far
// it has got.
type bulk struct {
	Do       string
	All      bool // every account
	Selects  []choiceOf
	IDs      []string
	Fields   []choiceOf // hidden fields of the form
	Count    api.AccountCount
	Rate     string
	Back     string // the list of the selected accounts
	Refused  *problem
	Changes  bool // there is something to do
	Progress api.BulkProgress
	Failed   string // why the change stopped
	Ended    bool
}

func bulkPage() *page {
	return &page{name: "bulk", path: "/accounts/bulk", menu: "accounts", data: func(v *visit) (any, error) { return askBulk(v, v.r.URL.Query()) }}
}

// bulkRunPage is the page of a change under way. Readers cannot open it by an address.
func bulkRunPage() *page {
	p := &page{name: "bulkrun", path: bulkRun, menu: "accounts", data: unopened("bulkrun.again")}
	p.raw = map[string]func(*visit, http.ResponseWriter){"POST " + bulkRun: func(v *visit, w http.ResponseWriter) { v.runBulk(w, p) }}
	return p
}

// readBulk reads an order from a query or a form.
func readBulk(v *visit, q url.Values) (*bulk, error) {
	b := &bulk{Do: q.Get("do"), Rate: q.Get("rate")}
	if !slices.Contains(bulkActions, b.Do) && b.Do != revive {
		return nil, refusal(http.StatusUnprocessableEntity, v.lang.text("bulk.unknown"))
	}
	if b.Rate == "" {
		b.Rate = strconv.Itoa(bulkRate)
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
func (b *bulk) route() string {
	if b.Do == revive {
		return "POST /v1/parked:revive"
	}
	return "POST /v1/accounts:" + b.Do
}

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
	if b.Do == revive {
		err = b.countRevived(v)
	} else {
		selection := b.query()
		selection.Del("all")
		selection.Set("looks", countLooks)
		err = v.get(address("/v1/accounts:count", selection), &b.Count)
	}
	if b.Refused = refusedFor(err, http.StatusUnprocessableEntity); b.Refused != nil {
		return b, nil
	}
	b.Changes = b.Count.Count > 0 || !b.Count.Complete
	return b, err
}

// runBulk carries out the confirmed change, and writes the page meanwhile: each line of progress
// hides the one before. When the visitor leaves the page, or stops loading it, the change stops
// too.
func (v *visit) runBulk(w http.ResponseWriter, p *page) {
	if !v.readForm(w) {
		return
	}
	b, err := readBulk(v, v.r.PostForm)
	if err != nil {
		v.fail(w, v, err)
		return
	}
	q := b.query()
	if b.Do == "nudge" {
		q.Set("rate", b.Rate)
	}
	b.Count.Count, _ = strconv.Atoi(v.r.PostForm.Get("of")) // for the bar alone
	page := &bulkWriter{v.asItGoes(w, p, v.lang.text("bulk.do."+b.Do), b), b}
	if b.Do == revive {
		err = page.revive()
	} else {
		err = v.stream(http.MethodPost, address("/v1/accounts:"+b.Do, q), page.line)
	}
	switch refused := refusedFor(err); {
	case refused != nil && !page.begun:
		v.fail(w, v, err)
		return
	case refused != nil:
		b.Failed = refused.Error()
	case err != nil && !b.Ended:
		b.Failed = v.lang.text("bulkrun.cut")
	}
	_ = page.end() // a visitor who has gone needs no end
}

// bulkWriter writes the page of a change under way.
type bulkWriter struct {
	*steps
	bulk *bulk
}

// line writes one line of progress, which the API sends twice a second.
func (b *bulkWriter) line(text []byte) error {
	var line api.BulkLine
	if err := json.Unmarshal(text, &line); err != nil {
		return fmt.Errorf("a line of progress: %w", err)
	}
	switch {
	case line.Summary != nil:
		b.bulk.Progress, b.bulk.Failed, b.bulk.Ended = *line.Summary, line.Error, true
		return b.begin()
	case line.Progress != nil:
		b.bulk.Progress = *line.Progress
	}
	return b.step("progress")
}

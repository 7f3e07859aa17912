package scene

import (
	"bytes"
	"context"
	"fmt"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// hosts are where the sample's feeds are, by their share of all feeds.
var hosts = []string{"press.example", "press.example", "city.example", "blogs.example", "weather.example", "shops.example"}

// Failing is an account of the sample that fails, and what its address is when it is put
// right.
type Failing struct {
	ID    string
	Kind  string
	URL   string
	Right string
}

// failing fail in every way that an operator meets often.
var failing = []Failing{
	{"press-closed", "feed", "http://press.example/status/410/closed", "http://press.example/feeds/closed"},
	{"press-moved", "feed", "http://press.example/page/moved", "http://press.example/feeds/moved"},
	{"blogs-missing", "feed", "http://blogs.example/status/404/missing", "http://blogs.example/feeds/missing"},
	{"blogs-broken", "feed", "http://blogs.example/status/500/broken", "http://blogs.example/feeds/broken"},
	{"blogs-broken-2", "feed", "http://blogs.example/status/500/broken-2", "http://blogs.example/feeds/broken-2"},
	{"weather-busy", "feed", "http://weather.example/slow/busy", "http://weather.example/feeds/busy"},
	{"inbox-refused", "http", "http://crm.example/refused/inbox", "http://crm.example/connector/inbox"},
	{"inbox-away", "http", "http://crm.example/status/503/away", "http://crm.example/connector/away"},
}

// Populate registers n accounts that are well, some more that fail, and one that is
// paused, and returns those that fail. Each is checked every so often, as a cadence has
// it.
func (s *Scene) Populate(ctx context.Context, n int, cadence string) ([]Failing, error) {
	var records bytes.Buffer
	add := func(a accounts.Account) error {
		record, err := a.Encode()
		if err != nil {
			return err
		}
		records.Write(record)
		return records.WriteByte('\n')
	}
	for i := range n {
		host := hosts[i%len(hosts)]
		a := accounts.Account{
			ID: fmt.Sprintf("%s-%04d", host[:len(host)-len(".example")], i+1), Kind: "feed", Cadence: cadence,
			Config: fmt.Appendf(nil, `{"url":"http://%s/feeds/%d"}`, host, i+1), Labels: map[string]string{"team": "press"},
		}
		if i%4 == 3 {
			a.ID, a.Kind, a.Labels = fmt.Sprintf("inbox-%04d", i+1), "http", map[string]string{"team": "support", "plan": []string{"basic", "gold"}[i/4%2]}
			a.Config = fmt.Appendf(nil, `{"url":"http://crm.example/connector/%d"}`, i+1)
		}
		if i%10 == 0 {
			a.Priority = accounts.PriorityUrgent
		}
		if err := add(a); err != nil {
			return nil, err
		}
	}
	for _, f := range failing {
		if err := add(accounts.Account{ID: f.ID, Kind: f.Kind, Cadence: cadence, Config: fmt.Appendf(nil, `{"url":%q}`, f.URL), Labels: map[string]string{"team": "press"}}); err != nil {
			return nil, err
		}
	}
	if err := add(accounts.Account{ID: "city-paused", Kind: "feed", Cadence: cadence, Config: []byte(`{"url":"http://city.example/feeds/paused"}`)}); err != nil {
		return nil, err
	}
	refused := func(b api.BadLine) error { return fmt.Errorf("line %d of the sample is refused: %+v", b.Line, b) }
	if _, err := s.Calls.Import(ctx, &records, "", refused); err != nil {
		return nil, err
	}
	return failing, s.Calls.Pause(ctx, "city-paused")
}

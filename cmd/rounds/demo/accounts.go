package demo

import (
	"encoding/json"
	"fmt"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/sample"
)

// batch is some accounts of a site, numbered from 1.
type batch struct {
	site  sample.Site
	name  string // of an account, before its number
	path  string // of an account's address, with %s for its id; empty if its config has none
	kind  string
	count int
	team  string
	// cadences and priorities are the accounts', in turn.
	cadences, priorities []string
	token                bool // its config has the token of WeChat's account
	login                bool // its config has a login that the site accepts
	wrong                bool // its config has a login that the site refuses
}

// batches are all accounts of the demo. The accounts of the sites Blogs, Wiki and
// Weather, and those with a wrong login, fail on purpose.
func batches() []batch {
	return []batch{
		{
			site: sample.News, name: "news", path: "/%s.xml", kind: "feed", count: 24, team: "press",
			cadences:   []string{"every 5s", "every 10s", "every 30s", "every 1m", "adaptive 5s..2m", "cron * * * * *"},
			priorities: []string{"", "", "urgent", "", "low"},
		},
		{
			site: sample.Shops, name: "shop", path: "/%s", kind: "http", count: 30, team: "sales",
			cadences: []string{"every 5s", "every 10s"}, priorities: []string{"", "urgent", ""},
		},
		{site: sample.WeChat, name: "weixin", kind: "weixin", count: 1, team: "sales", cadences: []string{"every 0"}, token: true},
		{site: sample.Members, name: "club", path: "/%s.xml", kind: "feed", count: 4, team: "press", cadences: []string{"every 10s"}, login: true},
		{site: sample.Blogs, name: "blog", path: "/%s", kind: "feed", count: 5, team: "press", cadences: []string{"every 10s"}},
		{site: sample.Wiki, name: "wiki", path: "/%s.xml", kind: "feed", count: 6, team: "support", cadences: []string{"every 5s"}},
		{site: sample.Wiki, name: "closed", path: "/%s.xml", kind: "feed", count: 2, team: "support", cadences: []string{"every 10s"}},
		{site: sample.Weather, name: "weather", path: "/%s.xml", kind: "feed", count: 4, team: "support", cadences: []string{"every 15s"}},
		{site: sample.Members, name: "lounge", path: "/%s.xml", kind: "feed", count: 3, team: "sales", cadences: []string{"every 10s"}, wrong: true},
	}
}

// fails reports whether the accounts of a batch fail.
func (b batch) fails() bool {
	return b.wrong || b.site == sample.Blogs || b.site == sample.Wiki || b.site == sample.Weather
}

// records returns the accounts of a batch.
func (b batch) records(world *sample.Upstream) []accounts.Account {
	records := make([]accounts.Account, b.count)
	for i := range records {
		id := fmt.Sprintf("%s-%d", b.name, i+1)
		config := map[string]any{"url": world.URL(b.site, fmt.Sprintf(b.path, id))}
		switch {
		case b.token:
			config = map[string]any{"base_url": world.URL(b.site, ""), "token": map[string]string{"secret": tokenSecret}}
		case b.login:
			config["login"] = login("reader")
		case b.wrong:
			config["login"] = login("guest")
		}
		raw, err := json.Marshal(config)
		if err != nil {
			panic(err) // it consists of strings
		}
		records[i] = accounts.Account{ID: id, Kind: b.kind, Config: raw, Cadence: b.cadences[i%len(b.cadences)], Labels: map[string]string{"team": b.team}}
		if len(b.priorities) > 0 {
			records[i].Priority = b.priorities[i%len(b.priorities)]
		}
	}
	return records
}

func login(user string) map[string]any {
	return map[string]any{"user": user, "password": map[string]string{"secret": loginSecret}}
}

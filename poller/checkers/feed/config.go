package feed

import (
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// config is a record's parsed config.
type config struct {
	url     string
	headers fetch.Headers
}

// form reads configs.
type form = strict.Form[config]

func newForm(client *fetch.Client) *form {
	headers := func(c *config) *fetch.Headers { return &c.headers }
	return strict.NewForm([]strict.Entry[config]{
		{
			Field: strict.Field{
				Name: "url", Type: strict.URL, Required: true, Example: "https://example.com/feed.xml",
				Label: strict.Words{EN: "Address", ZH: "地址"},
				Help:  strict.Words{EN: "Where the feed is: RSS, Atom or JSON Feed.", ZH: "订阅源的地址：RSS、Atom 或 JSON Feed。"},
			},
			Read: func(v strict.Value, c *config) { c.url = client.ReadURL(v) },
		},
		fetch.LoginEntry(headers), fetch.HeadersEntry(headers, "If-None-Match", "If-Modified-Since"),
	})
}

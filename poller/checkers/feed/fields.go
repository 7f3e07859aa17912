package feed

import (
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// Fields are the fields of the config, for people.
func (*Checker) Fields() []strict.Field {
	return []strict.Field{
		{
			Name: "url", Type: strict.URL, Required: true, Example: "https://example.com/feed.xml",
			Label: strict.Words{EN: "Address", ZH: "地址"},
			Help:  strict.Words{EN: "Where the feed is: RSS, Atom or JSON Feed.", ZH: "订阅源的地址：RSS、Atom 或 JSON Feed。"},
		},
		fetch.LoginField(), fetch.HeadersField(),
	}
}

package feed

import (
	"github.com/rounds-dev/rounds/accounts/form"
	"github.com/rounds-dev/rounds/poller/header"
)

// Fields are the fields of the config, for people.
func (*Checker) Fields() []form.Field {
	return []form.Field{
		{
			Name: "url", Type: form.URL, Required: true, Example: "https://example.com/feed.xml",
			Label: form.Words{EN: "Address", ZH: "地址"},
			Help:  form.Words{EN: "Where the feed is: RSS, Atom or JSON Feed.", ZH: "订阅源的地址：RSS、Atom 或 JSON Feed。"},
		},
		header.LoginField(), header.Field(),
	}
}

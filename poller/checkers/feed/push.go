package feed

import (
	"encoding/json"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/websub"
)

// PushedTo has the checker subscribe at the hubs that feeds name. They call below the URL; see
// websub.NewClient. Without it, feeds are only polled.
func (c *Checker) PushedTo(url string) *Checker {
	c.hubs = websub.NewClient(c.client, url)
	return c
}

// Subscription returns the subscription in a feed's cursor, or nil.
func Subscription(cursor []byte) *websub.Subscription {
	known, err := decodeCursor(cursor)
	if err != nil {
		return nil
	}
	return known.push
}

// jsonHubs reads the hubs and feed_url of a JSON Feed (version 1.1), which the parser does not know.
func jsonHubs(text []byte) (l websub.Links) {
	var document struct {
		Self string `json:"feed_url"`
		Hubs []struct {
			Type string `json:"type"`
			URL  string `json:"url"`
		} `json:"hubs"`
	}
	if json.Unmarshal(text, &document) != nil {
		return l
	}
	for _, one := range document.Hubs {
		if strings.EqualFold(one.Type, "WebSub") {
			l.Add("hub", one.URL)
		}
	}
	l.Add("self", document.Self)
	return l
}

// Whether a feed's hub may announce what is new.
const (
	pushAuto = "auto"
	pushOff  = "off"
)

var pushEntry = strict.Entry[config]{
	Field: strict.Field{
		Name: "push", Type: strict.Choice, Example: pushAuto, Default: pushAuto,
		Label: strict.Words{EN: "Push", ZH: "推送"},
		Help:  strict.Words{EN: "Whether the feed's hub may announce what is new.", ZH: "订阅源的 hub 是否可以通知有新内容。"},
		Choices: []strict.Option{
			{Value: pushAuto, Label: strict.Words{EN: "If the feed names a hub (WebSub)", ZH: "如果订阅源指定了 hub（WebSub）"}},
			{Value: pushOff, Label: strict.Words{EN: "Never", ZH: "从不"}},
		},
	},
	Read: func(v strict.Value, c *config) {
		c.push = v.Matching(func(which string) bool { return which == pushAuto || which == pushOff }, "must be auto or off")
	},
}

package connector

import (
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// Fields are the fields of the config, for people.
func (*Checker) Fields() []strict.Field {
	return []strict.Field{
		{
			Name: "url", Type: strict.URL, Required: true, Example: "https://connector.example.com/check",
			Label: strict.Words{EN: "Address", ZH: "地址"},
			Help:  strict.Words{EN: "Where the connector answers. Each check is a POST to it.", ZH: "连接器的地址，每次检查向它发一个 POST 请求。"},
		},
		{
			Name: "signing_secret", Type: strict.Secret, Secret: true, Example: strict.Ref("CONNECTOR_KEY"),
			Label: strict.Words{EN: "Signing secret", ZH: "签名密钥"},
			Help: strict.Words{
				EN: "With it, requests carry the Standard Webhooks signature, so that the connector knows who asks. The secret itself is not sent.",
				ZH: "设置后，请求带 Standard Webhooks 签名，连接器据此确认请求方。密钥本身不会发送。",
			},
		},
		fetch.HeadersField(),
		{
			Name: "hold", Type: strict.Number, Example: 30,
			Label: strict.Words{EN: "Hold, in seconds", ZH: "挂起时间（秒）"},
			Help: strict.Words{
				EN: "How long the connector holds a request until it has something to answer, from 1 to 120 seconds. Left out: it answers at once.",
				ZH: "连接器在有内容可答之前挂起请求的时间，1 到 120 秒。留空表示立即回答。",
			},
		},
		{
			Name: "settings", Type: strict.ObjectType, Example: map[string]any{"folder": "inbox"},
			Label: strict.Words{EN: "Settings", ZH: "设置"},
			Help:  strict.Words{EN: "A JSON object for the connector alone.", ZH: "只给连接器用的 JSON 对象。"},
		},
	}
}

package connector

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// config is a record's parsed config.
type config struct {
	url     string
	signing secrets.Ref
	headers fetch.Headers
	hold    time.Duration // how long the connector holds a call; 0: it holds none
	send    string        // where sends go; empty: the account cannot send
	once    bool          // the connector takes a send once, however often it comes
	files   bool          // it takes files

	remember string // by what the account remembers its messages; empty: not at all
}

// By what an account remembers its messages.
const (
	byIDs     = "ids"
	byContent = "content"
)

// maxHold is the longest that a connector may hold a call.
const maxHold = 2 * time.Minute

// form reads configs.
type form = strict.Form[config]

// newForm returns the form of configs as they are registered, or, if kept, as they are stored. A
// stored config may have references to secrets within its settings, where nobody resolves them. Its
// account is still checked.
func newForm(client *fetch.Client, kept bool) *form {
	return strict.NewForm([]strict.Entry[config]{
		{
			Field: strict.Field{
				Name: "url", Type: strict.URL, Required: true, Example: "https://connector.example.com/check",
				Label: strict.Words{EN: "Address", ZH: "地址"},
				Help:  strict.Words{EN: "Where the connector answers. Each check is a POST to it.", ZH: "连接器的地址，每次检查向它发一个 POST 请求。"},
			},
			Read: func(v strict.Value, c *config) { c.url = client.ReadURL(v) },
		},
		{
			Field: strict.Field{
				Name: "signing_secret", Type: strict.Secret, Secret: true, Example: strict.Ref("CONNECTOR_KEY"),
				Label: strict.Words{EN: "Signing secret", ZH: "签名密钥"},
				Help: strict.Words{
					EN: "With it, requests carry the Standard Webhooks signature, so that the connector knows who asks. The secret itself is not sent.",
					ZH: "设置后，请求带 Standard Webhooks 签名，连接器据此确认请求方。密钥本身不会发送。",
				},
			},
			Read: func(v strict.Value, c *config) { c.signing = secrets.ReadRef(v) },
		},
		fetch.HeadersEntry(func(c *config) *fetch.Headers { return &c.headers }),
		{
			Field: strict.Field{
				Name: "hold", Type: strict.Number, Example: 30,
				Label: strict.Words{EN: "Hold, in seconds", ZH: "挂起时间（秒）"},
				Help: strict.Words{
					EN: "How long the connector holds a request until it has something to answer, from 1 to 120 seconds. Left out: it answers at once.",
					ZH: "连接器在有内容可答之前挂起请求的时间，1 到 120 秒。留空表示立即回答。",
				},
			},
			Read: func(v strict.Value, c *config) { c.hold = readHold(v) },
		},
		{
			Field: strict.Field{
				Name: "remember", Type: strict.Choice, Example: byIDs,
				Label: strict.Words{EN: "Remember messages", ZH: "记住消息"},
				Help: strict.Words{
					EN: "For a connector that may give a message again: what is known is not written twice. Each account remembers 512 messages or more, for two days. Left out: nothing is remembered.",
					ZH: "用于可能重复给出消息的连接器：已知的消息不会重复写入。每个账号至少记住 512 条消息、两天。留空表示不记。",
				},
				Choices: []strict.Option{
					{Value: byIDs, Label: strict.Words{EN: "By their ids", ZH: "按 id"}},
					{Value: byContent, Label: strict.Words{EN: "By type, time and data: the ids change", ZH: "按类型、时间和数据：id 会变"}},
				},
			},
			Read: func(v strict.Value, c *config) {
				c.remember = v.Matching(func(by string) bool { return by == byIDs || by == byContent }, "must be ids or content")
			},
		},
		{
			Field: strict.Field{
				Name: "send_url", Type: strict.URL, Example: "https://connector.example.com/send",
				Label: strict.Words{EN: "Address for sends", ZH: "发送地址"},
				Help:  strict.Words{EN: "Where the connector takes sends. Left out: the account cannot send.", ZH: "连接器接收待发消息的地址。留空表示账号不能发送。"},
			},
			Read: func(v strict.Value, c *config) { c.send = client.ReadURL(v) },
		},
		{
			Field: strict.Field{
				Name: "deduplicates", Type: strict.Choice, Example: true, Default: false,
				Label: strict.Words{EN: "Repeated sends", ZH: "重复的发送"},
				Help: strict.Words{
					EN: "Whether the connector delivers a send once, even if it comes again with the same send_id. Only then is a send repeated whose answer was lost.",
					ZH: "同一 send_id 的消息再次到达时，连接器是否保证只投递一次。只有这样，丢失应答的发送才会自动重试。",
				},
				Choices: []strict.Option{
					{Value: false, Label: strict.Words{EN: "May be delivered twice", ZH: "可能投递两次"}},
					{Value: true, Label: strict.Words{EN: "Are delivered once", ZH: "只投递一次"}},
				},
			},
			Read: func(v strict.Value, c *config) { readTruth(v, &c.once) },
		},
		{
			Field: strict.Field{
				Name: "send_files", Type: strict.Choice, Example: true, Default: false,
				Label: strict.Words{EN: "Sends with files", ZH: "带文件的发送"},
				Help: strict.Words{
					EN: "Whether the connector takes sends of the types image, voice, video and file, which have the file's bytes.",
					ZH: "连接器是否接收 image、voice、video 和 file 类型的发送，其中带有文件的内容。",
				},
				Choices: []strict.Option{
					{Value: false, Label: strict.Words{EN: "Are not taken", ZH: "不接收"}},
					{Value: true, Label: strict.Words{EN: "Are taken", ZH: "接收"}},
				},
			},
			Read: func(v strict.Value, c *config) { readTruth(v, &c.files) },
		},
		{
			Field: strict.Field{
				Name: "settings", Type: strict.ObjectType, Example: map[string]any{"folder": "inbox"},
				Label: strict.Words{EN: "Settings", ZH: "设置"},
				Help:  strict.Words{EN: "A JSON object for the connector alone.", ZH: "只给连接器用的 JSON 对象。"},
			},
			Read: func(v strict.Value, _ *config) {
				settings := v.Raw()
				if settings != nil && settings[0] != '{' {
					v.Fault("must be an object")
				}
				if kept || settings == nil {
					return
				}
				if path := refWithin("settings", settings); path != "" {
					v.Reader().Fault(path, "refers to a secret, and the connector gets settings as they are: only headers and signing_secret are resolved, so put it into headers, such as headers.Authorization")
				}
			},
		},
	}).Elsewhere("what the connector itself needs goes into settings, such as settings.project, and what is secret into headers")
}

// refWithin returns the path of the first value within a JSON text that refers to a secret, in the
// order of the paths. It returns an empty text if there is none.
func refWithin(path string, raw json.RawMessage) string {
	if ref, err := secrets.ParseRef(raw); err == nil && !ref.IsZero() {
		return path
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if found := refWithin(path+"."+strict.Printable(name), object[name]); found != "" {
				return found
			}
		}
		return ""
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for i := range list {
			if found := refWithin(fmt.Sprintf("%s[%d]", path, i), list[i]); found != "" {
				return found
			}
		}
	}
	return ""
}

func readHold(v strict.Value) time.Duration {
	raw := v.Raw()
	if raw == nil {
		return 0
	}
	var seconds int
	if json.Unmarshal(raw, &seconds) != nil || seconds < 1 || seconds > int(maxHold.Seconds()) {
		v.Fault(fmt.Sprintf("must be a whole number of seconds from 1 to %.0f", maxHold.Seconds()))
	}
	return time.Duration(seconds) * time.Second
}

// readTruth reads true or false, and leaves out what is missing.
func readTruth(v strict.Value, into *bool) {
	if raw := v.Raw(); raw != nil && json.Unmarshal(raw, into) != nil {
		v.Fault("must be true or false")
	}
}

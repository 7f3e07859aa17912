package telegram

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// defaultBaseURL is where Telegram's Bot API is.
const defaultBaseURL = "https://api.telegram.org"

// config is a record's parsed config.
type config struct {
	token   secrets.Ref
	base    string   // without a slash at its end
	host    string   // of base, with its port
	allowed []string // nil: the last list that Telegram got
}

// maxAllowed is the most kinds of updates that may be named. There are about two dozen.
const maxAllowed = 64

var updatePattern = regexp.MustCompile(`^[a-z_]{1,64}$`)

// form reads configs.
type form = strict.Form[config]

func newForm(client *fetch.Client) *form {
	return strict.NewForm([]strict.Entry[config]{
		{
			Field: strict.Field{
				Name: "token", Type: strict.Secret, Secret: true, Required: true, Example: strict.Ref("TELEGRAM_BOT"),
				Label: strict.Words{EN: "Token", ZH: "令牌"},
				Help:  strict.Words{EN: "The name of the secret that has the bot's token, as BotFather gave it.", ZH: "保存机器人令牌（由 BotFather 提供）的密钥名称。"},
			},
			Read: func(v strict.Value, c *config) { c.token = secrets.ReadRef(v) },
		},
		{
			Field: strict.Field{
				Name: "allowed_updates", Type: strict.TextType, Example: "message,edited_message,callback_query",
				Label: strict.Words{EN: "Updates", ZH: "更新类型"},
				Help:  strict.Words{EN: "The kinds of updates that are wanted, with commas between them. Telegram remembers the last choice.", ZH: "需要的更新类型，用逗号分隔。Telegram 会记住上一次的选择。"},
			},
			Read: func(v strict.Value, c *config) { c.allowed = readAllowed(v) },
		},
		{
			Field: strict.Field{
				Name: "base_url", Type: strict.URL, Example: defaultBaseURL, Default: defaultBaseURL,
				Label: strict.Words{EN: "API address", ZH: "接口地址"},
				Help:  strict.Words{EN: "Where the Bot API is. The token is sent there.", ZH: "Bot API 的地址。令牌会发往这里。"},
			},
			Read: func(v strict.Value, c *config) { c.base, c.host = client.ReadBaseURL(v) },
		},
	})
}

// readAllowed reads an array of names, or a text with commas between them.
func readAllowed(v strict.Value) []string {
	raw := v.Raw()
	if raw == nil {
		return nil
	}
	names := []string{}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		for name := range strings.SplitSeq(text, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	} else if json.Unmarshal(raw, &names) != nil {
		v.Fault("must be an array of names, or a text with commas between them")
		return nil
	}
	for _, name := range names {
		if len(names) > maxAllowed || !updatePattern.MatchString(name) {
			v.Fault("must name at most 64 kinds of updates, such as message or callback_query")
			return nil
		}
	}
	return names
}

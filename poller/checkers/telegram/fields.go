package telegram

import "github.com/rounds-dev/rounds/accounts/form"

// Fields are the fields of the config, for people.
func (*Checker) Fields() []form.Field {
	return []form.Field{
		{
			Name: "token", Type: form.Secret, Secret: true, Required: true, Example: form.Ref("TELEGRAM_BOT"),
			Label: form.Words{EN: "Token", ZH: "令牌"},
			Help:  form.Words{EN: "The name of the secret that has the bot's token, as BotFather gave it.", ZH: "保存机器人令牌（由 BotFather 提供）的密钥名称。"},
		},
		{
			Name: "allowed_updates", Type: form.Text, Example: "message,edited_message,callback_query",
			Label: form.Words{EN: "Updates", ZH: "更新类型"},
			Help:  form.Words{EN: "The kinds of updates that are wanted, with commas between them. Telegram remembers the last choice.", ZH: "需要的更新类型，用逗号分隔。Telegram 会记住上一次的选择。"},
		},
		{
			Name: "base_url", Type: form.URL, Example: DefaultBaseURL, Default: DefaultBaseURL,
			Label: form.Words{EN: "API address", ZH: "接口地址"},
			Help:  form.Words{EN: "Where the Bot API is. The token is sent there.", ZH: "Bot API 的地址。令牌会发往这里。"},
		},
	}
}

package telegram

import "github.com/rounds-dev/rounds/accounts/strict"

// Fields are the fields of the config, for people.
func (*Checker) Fields() []strict.Field {
	return []strict.Field{
		{
			Name: "token", Type: strict.Secret, Secret: true, Required: true, Example: strict.Ref("TELEGRAM_BOT"),
			Label: strict.Words{EN: "Token", ZH: "令牌"},
			Help:  strict.Words{EN: "The name of the secret that has the bot's token, as BotFather gave it.", ZH: "保存机器人令牌（由 BotFather 提供）的密钥名称。"},
		},
		{
			Name: "allowed_updates", Type: strict.TextType, Example: "message,edited_message,callback_query",
			Label: strict.Words{EN: "Updates", ZH: "更新类型"},
			Help:  strict.Words{EN: "The kinds of updates that are wanted, with commas between them. Telegram remembers the last choice.", ZH: "需要的更新类型，用逗号分隔。Telegram 会记住上一次的选择。"},
		},
		{
			Name: "base_url", Type: strict.URL, Example: DefaultBaseURL, Default: DefaultBaseURL,
			Label: strict.Words{EN: "API address", ZH: "接口地址"},
			Help:  strict.Words{EN: "Where the Bot API is. The token is sent there.", ZH: "Bot API 的地址。令牌会发往这里。"},
		},
	}
}

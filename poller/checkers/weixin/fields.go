package weixin

import "github.com/rounds-dev/rounds/accounts/strict"

// Fields are the fields of the config, for people.
func (*Checker) Fields() []strict.Field {
	return []strict.Field{
		{
			Name: "token", Type: strict.Secret, Secret: true, Required: true, Example: strict.Ref("WEIXIN_ME"),
			Label: strict.Words{EN: "Token", ZH: "令牌"},
			Help:  strict.Words{EN: "The name of the secret that has the account's token. Signing in by a scan stores it.", ZH: "保存账号令牌的密钥名称。扫码登录时会自动保存。"},
		},
		{
			Name: "base_url", Type: strict.URL, Example: DefaultBaseURL, Default: DefaultBaseURL,
			Label: strict.Words{EN: "Server", ZH: "服务器地址"},
			Help:  strict.Words{EN: "The account's server, as signing in has told. The token is sent there.", ZH: "登录时返回的服务器地址。令牌会发往这里。"},
		},
		{
			Name: "bot_agent", Type: strict.TextType, Example: defaultAgent, Default: defaultAgent,
			Label: strict.Words{EN: "Our name", ZH: "客户端名称"},
			Help:  strict.Words{EN: "How we name ourselves to the server: Name/Version, ASCII.", ZH: "向服务器报告的客户端名称：Name/Version，仅限 ASCII。"},
		},
	}
}

package weixin

import "github.com/rounds-dev/rounds/accounts/form"

// Fields are the fields of the config, for people.
func (*Checker) Fields() []form.Field {
	return []form.Field{
		{
			Name: "token", Type: form.Secret, Secret: true, Required: true, Example: form.Ref("WEIXIN_ME"),
			Label: form.Words{EN: "Token", ZH: "令牌"},
			Help:  form.Words{EN: "The name of the secret that has the account's token. Signing in by a scan stores it.", ZH: "保存账号令牌的密钥名称。扫码登录时会自动保存。"},
		},
		{
			Name: "base_url", Type: form.URL, Example: DefaultBaseURL, Default: DefaultBaseURL,
			Label: form.Words{EN: "Server", ZH: "服务器地址"},
			Help:  form.Words{EN: "The account's server, as signing in has told. The token is sent there.", ZH: "登录时返回的服务器地址。令牌会发往这里。"},
		},
		{
			Name: "bot_agent", Type: form.Text, Example: defaultAgent, Default: defaultAgent,
			Label: form.Words{EN: "Our name", ZH: "客户端名称"},
			Help:  form.Words{EN: "How we name ourselves to the server: Name/Version, ASCII.", ZH: "向服务器报告的客户端名称：Name/Version，仅限 ASCII。"},
		},
	}
}

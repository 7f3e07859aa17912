package wecomkf

import "github.com/rounds-dev/rounds/accounts/strict"

// Fields are the fields of the config, for people.
func (*Checker) Fields() []strict.Field {
	return []strict.Field{
		{
			Name: "corp_id", Type: strict.TextType, Required: true, Example: "ww1234567890abcdef",
			Label: strict.Words{EN: "Corporation", ZH: "企业 ID"},
			Help:  strict.Words{EN: "The corporation's id in WeCom.", ZH: "企业微信的企业 ID（corpid）。"},
		},
		{
			Name: "open_kfid", Type: strict.TextType, Required: true, Example: "wkAJ2GCAAAZSfhHCt7IFSvLKtMPxyJTw",
			Label: strict.Words{EN: "Customer-service account", ZH: "客服账号 ID"},
			Help:  strict.Words{EN: "Its open_kfid. Another one begins without a cursor.", ZH: "客服账号的 open_kfid。换成另一个时，游标从头开始。"},
		},
		{
			Name: "secret", Type: strict.Secret, Secret: true, Required: true, Example: strict.Ref("KF"),
			Label: strict.Words{EN: "Secret", ZH: "应用 Secret"},
			Help:  strict.Words{EN: "The name of the secret of the application that may read the account.", ZH: "有权读取该客服账号的应用，其 Secret 的密钥名称。"},
		},
		{
			Name: "voice_format", Type: strict.Choice, Example: 0, Default: 0,
			Label: strict.Words{EN: "Voice messages", ZH: "语音格式"},
			Help:  strict.Words{EN: "The format of voice messages.", ZH: "语音消息的格式。"},
			Choices: []strict.Option{
				{Value: 0, Label: strict.Words{EN: "AMR", ZH: "AMR"}},
				{Value: 1, Label: strict.Words{EN: "Silk", ZH: "Silk"}},
			},
		},
		{
			Name: "base_url", Type: strict.URL, Example: DefaultBaseURL, Default: DefaultBaseURL,
			Label: strict.Words{EN: "API address", ZH: "接口地址"},
			Help:  strict.Words{EN: "Where WeCom's API is. The secret is sent there.", ZH: "企业微信接口的地址。应用 Secret 会发往这里。"},
		},
	}
}

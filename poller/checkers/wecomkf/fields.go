package wecomkf

import "github.com/rounds-dev/rounds/accounts/form"

// Fields are the fields of the config, for people.
func (*Checker) Fields() []form.Field {
	return []form.Field{
		{
			Name: "corp_id", Type: form.Text, Required: true, Example: "ww1234567890abcdef",
			Label: form.Words{EN: "Corporation", ZH: "企业 ID"},
			Help:  form.Words{EN: "The corporation's id in WeCom.", ZH: "企业微信的企业 ID（corpid）。"},
		},
		{
			Name: "open_kfid", Type: form.Text, Required: true, Example: "wkAJ2GCAAAZSfhHCt7IFSvLKtMPxyJTw",
			Label: form.Words{EN: "Customer-service account", ZH: "客服账号 ID"},
			Help:  form.Words{EN: "Its open_kfid. Another one begins without a cursor.", ZH: "客服账号的 open_kfid。换成另一个时，游标从头开始。"},
		},
		{
			Name: "secret", Type: form.Secret, Secret: true, Required: true, Example: form.Ref("KF"),
			Label: form.Words{EN: "Secret", ZH: "应用 Secret"},
			Help:  form.Words{EN: "The name of the secret of the application that may read the account.", ZH: "有权读取该客服账号的应用，其 Secret 的密钥名称。"},
		},
		{
			Name: "voice_format", Type: form.Choice, Example: 0, Default: 0,
			Label: form.Words{EN: "Voice messages", ZH: "语音格式"},
			Help:  form.Words{EN: "The format of voice messages.", ZH: "语音消息的格式。"},
			Choices: []form.Option{
				{Value: 0, Label: form.Words{EN: "AMR", ZH: "AMR"}},
				{Value: 1, Label: form.Words{EN: "Silk", ZH: "Silk"}},
			},
		},
		{
			Name: "base_url", Type: form.URL, Example: DefaultBaseURL, Default: DefaultBaseURL,
			Label: form.Words{EN: "API address", ZH: "接口地址"},
			Help:  form.Words{EN: "Where WeCom's API is. The secret is sent there.", ZH: "企业微信接口的地址。应用 Secret 会发往这里。"},
		},
	}
}

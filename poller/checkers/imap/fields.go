package imap

import "github.com/rounds-dev/rounds/accounts/form"

// Fields are the fields of the config, for people.
func (*Checker) Fields() []form.Field {
	return []form.Field{
		{
			Name: "host", Type: form.Text, Required: true, Example: "imap.example.com",
			Label: form.Words{EN: "Host", ZH: "主机"},
			Help:  form.Words{EN: "The mail server's name or address, without a port.", ZH: "邮件服务器的名称或地址，不带端口。"},
		},
		{
			Name: "user", Type: form.Text, Required: true, Example: "me@example.com",
			Label: form.Words{EN: "User", ZH: "用户名"},
			Help:  form.Words{EN: "The name to log in with.", ZH: "登录用的用户名。"},
		},
		{
			Name: "password", Type: form.Secret, Secret: true, Required: true, Example: form.Ref("MAIL"),
			Label: form.Words{EN: "Password", ZH: "密码"},
			Help:  form.Words{EN: "The name of the secret that holds the password.", ZH: "存放密码的密钥的名称。"},
		},
		{
			Name: "mailbox", Type: form.Text, Example: "INBOX", Default: "INBOX",
			Label: form.Words{EN: "Mailbox", ZH: "邮箱文件夹"},
			Help:  form.Words{EN: "The mailbox to read. Nothing in it changes.", ZH: "要读取的文件夹，其中的内容不会改变。"},
		},
		{
			Name: "tls", Type: form.Choice, Example: tlsImplicit, Default: tlsImplicit,
			Label: form.Words{EN: "Encryption", ZH: "加密"},
			Help:  form.Words{EN: "How the connection is encrypted.", ZH: "连接的加密方式。"},
			Choices: []form.Option{
				{Value: tlsImplicit, Label: form.Words{EN: "TLS from the start", ZH: "一开始就用 TLS"}},
				{Value: tlsStart, Label: form.Words{EN: "STARTTLS", ZH: "STARTTLS"}},
				{Value: tlsNone, Label: form.Words{EN: "None: in private networks only", ZH: "不加密：只限内网"}},
			},
		},
		{
			Name: "port", Type: form.Number, Example: portImplicit,
			Label: form.Words{EN: "Port", ZH: "端口"},
			Help:  form.Words{EN: "Left out: 993 with TLS from the start, otherwise 143.", ZH: "不填时：一开始就用 TLS 为 993，否则为 143。"},
		},
	}
}

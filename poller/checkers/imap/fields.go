package imap

import "github.com/rounds-dev/rounds/accounts/strict"

// Fields are the fields of the config, for people.
func (*Checker) Fields() []strict.Field {
	return []strict.Field{
		{
			Name: "host", Type: strict.TextType, Required: true, Example: "imap.example.com",
			Label: strict.Words{EN: "Host", ZH: "主机"},
			Help:  strict.Words{EN: "The mail server's name or address, without a port.", ZH: "邮件服务器的名称或地址，不带端口。"},
		},
		{
			Name: "user", Type: strict.TextType, Required: true, Example: "me@example.com",
			Label: strict.Words{EN: "User", ZH: "用户名"},
			Help:  strict.Words{EN: "The name to log in with.", ZH: "登录用的用户名。"},
		},
		{
			Name: "password", Type: strict.Secret, Secret: true, Required: true, Example: strict.Ref("MAIL"),
			Label: strict.Words{EN: "Password", ZH: "密码"},
			Help:  strict.Words{EN: "The name of the secret that holds the password.", ZH: "存放密码的密钥的名称。"},
		},
		{
			Name: "mailbox", Type: strict.TextType, Example: "INBOX", Default: "INBOX",
			Label: strict.Words{EN: "Mailbox", ZH: "邮箱文件夹"},
			Help:  strict.Words{EN: "The mailbox to read. Nothing in it changes.", ZH: "要读取的文件夹，其中的内容不会改变。"},
		},
		{
			Name: "tls", Type: strict.Choice, Example: tlsImplicit, Default: tlsImplicit,
			Label: strict.Words{EN: "Encryption", ZH: "加密"},
			Help:  strict.Words{EN: "How the connection is encrypted.", ZH: "连接的加密方式。"},
			Choices: []strict.Option{
				{Value: tlsImplicit, Label: strict.Words{EN: "TLS from the start", ZH: "一开始就用 TLS"}},
				{Value: tlsStart, Label: strict.Words{EN: "STARTTLS", ZH: "STARTTLS"}},
				{Value: tlsNone, Label: strict.Words{EN: "None: in private networks only", ZH: "不加密：只限内网"}},
			},
		},
		{
			Name: "port", Type: strict.Number, Example: portImplicit,
			Label: strict.Words{EN: "Port", ZH: "端口"},
			Help:  strict.Words{EN: "Left out: 993 with TLS from the start, otherwise 143.", ZH: "不填时：一开始就用 TLS 为 993，否则为 143。"},
		},
	}
}

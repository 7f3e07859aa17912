package broker

import "github.com/rounds-dev/rounds/accounts/strict"

// Form returns the fields of endpoints that may be added while the service runs: the servers, those of a
// type's own, and TLS.
func (o Options) Form(own ...strict.Field) []strict.Field {
	fields := append([]strict.Field{{
		Name: o.List, Type: strict.Texts, Required: true, Example: []string{"one.example.com:" + o.Port, "two.example.com:" + o.Port},
		Label: strict.Words{EN: "Servers", ZH: "服务器"},
		Help:  strict.Words{EN: "Each as HOST or HOST:PORT. Addresses that accounts may not reach are refused.", ZH: "每个写作 HOST 或 HOST:PORT。账号不可访问的地址会被拒绝。"},
	}}, own...)
	return append(fields,
		strict.Field{
			Name: "tls", Type: strict.Choice, Default: false, Example: true,
			Label: strict.Words{EN: "TLS", ZH: "TLS"},
			Help:  strict.Words{EN: "Towards the public internet it must be used.", ZH: "面向公共互联网时必须使用。"},
			Choices: []strict.Option{
				{Value: false, Label: strict.Words{EN: "no", ZH: "否"}},
				{Value: true, Label: strict.Words{EN: "yes, with the servers' certificates verified", ZH: "是，并验证服务器的证书"}},
			},
		},
		SecretField("ca_certificate", "ROUNDS_CA", strict.Words{EN: "Certificates of the authority", ZH: "证书颁发机构的证书"},
			strict.Words{EN: "The certificates that sign the servers', in PEM; left out: the system's.", ZH: "签发服务器证书的证书，PEM 格式；留空则使用系统的证书。"}),
		SecretField("client_certificate", "ROUNDS_CLIENT", strict.Words{EN: "Client certificate", ZH: "客户端证书"},
			strict.Words{EN: "A certificate and its key, both in PEM, for servers that ask for one.", ZH: "证书及其私钥，均为 PEM 格式，用于要求客户端证书的服务器。"}),
	)
}

// SecretField returns a field of a form that refers to a secret, which the servers' binding must allow.
func SecretField(name, example string, label, help strict.Words) strict.Field {
	return strict.Field{Name: name, Type: strict.Secret, Secret: true, Example: strict.Ref(example), Label: label, Help: strict.Words{
		EN: help.EN + " The name of a secret of the service, without service., bound to the servers.", ZH: help.ZH + "填写服务自身密钥的名称（不带 service.），该密钥须绑定到这些服务器。",
	}}
}

// UserField returns the field of the user that signs in.
func UserField(required bool, help strict.Words) strict.Field {
	return strict.Field{Name: "user", Type: strict.TextType, Required: required, Example: "rounds", Label: strict.Words{EN: "User", ZH: "用户"}, Help: help}
}

// PasswordField returns the field of that user's password.
func PasswordField(example string) strict.Field {
	return SecretField("password", example, strict.Words{EN: "Password", ZH: "密码"}, strict.Words{EN: "The user's.", ZH: "该用户的密码。"})
}

package fetch

import "github.com/rounds-dev/rounds/accounts/strict"

// Field describes the field headers, for people.
func HeadersField() strict.Field {
	return strict.Field{
		Name: "headers", Type: strict.Headers, Secret: true, Example: map[string]any{"X-Api-Key": strict.Ref("API_KEY")},
		Label: strict.Words{EN: "Headers", ZH: "请求头"},
		Help: strict.Words{
			EN: "Headers that each request gets. A credential must be a secret's name. They are sent only to the address above.",
			ZH: "每个请求附加的请求头。凭据只能填密钥的名称。只发往上面的地址。",
		},
	}
}

// LoginField describes the field login, for people.
func LoginField() strict.Field {
	return strict.Field{
		Name: "login", Type: strict.Login, Secret: true, Example: map[string]any{"user": "me", "password": strict.Ref("PASSWORD")},
		Label: strict.Words{EN: "Login", ZH: "登录"},
		Help: strict.Words{
			EN: "User and the name of the secret with the password, for basic authentication.",
			ZH: "用户名，以及存放密码的密钥名称，用于 Basic 认证。",
		},
	}
}

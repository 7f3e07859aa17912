package header

import "github.com/rounds-dev/rounds/accounts/form"

// Field describes the field headers, for people.
func Field() form.Field {
	return form.Field{
		Name: "headers", Type: form.Headers, Secret: true, Example: map[string]any{"X-Api-Key": form.Ref("API_KEY")},
		Label: form.Words{EN: "Headers", ZH: "请求头"},
		Help: form.Words{
			EN: "Headers that each request gets. A credential must be a secret's name. They are sent only to the address above.",
			ZH: "每个请求附加的请求头。凭据只能填密钥的名称。只发往上面的地址。",
		},
	}
}

// LoginField describes the field login, for people.
func LoginField() form.Field {
	return form.Field{
		Name: "login", Type: form.Login, Secret: true, Example: map[string]any{"user": "me", "password": form.Ref("PASSWORD")},
		Label: form.Words{EN: "Login", ZH: "登录"},
		Help: form.Words{
			EN: "User and the name of the secret with the password, for basic authentication.",
			ZH: "用户名，以及存放密码的密钥名称，用于 Basic 认证。",
		},
	}
}

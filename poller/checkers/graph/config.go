package graph

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/checkers/email"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	defaultBaseURL = "https://graph.microsoft.com"
	defaultFolder  = "inbox"
	maxFolder      = 512 // bytes
	maxFrom        = 1024
)

// config is a record's parsed config.
type config struct {
	oauth  secrets.Ref
	from   *mail.Address // of what the account sends; nil: it cannot send
	folder string
	base   string // without a slash at its end
	host   string // of base, with its port
}

// form reads configs.
type form = strict.Form[config]

func newForm(client *fetch.Client) *form {
	return strict.NewForm([]strict.Entry[config]{
		{
			Field: strict.Field{
				Name: "oauth", Type: strict.Secret, Secret: true, Required: true, Example: strict.Ref("mail-me"),
				Label: strict.Words{EN: "Sign-in", ZH: "登录授权"},
				Help:  strict.Words{EN: "The name of the secret that a sign-in at Microsoft has stored.", ZH: "在 Microsoft 登录后存下的密钥的名称。"},
			},
			Read: func(v strict.Value, c *config) { c.oauth = secrets.ReadRef(v) },
		},
		{
			Field: strict.Field{
				Name: "folder", Type: strict.TextType, Example: defaultFolder, Default: defaultFolder,
				Label: strict.Words{EN: "Folder", ZH: "文件夹"},
				Help:  strict.Words{EN: "The folder to read: its id, or a name such as inbox or junkemail. Nothing in it changes.", ZH: "要读取的文件夹：它的 id，或 inbox、junkemail 这样的名称。其中的内容不会改变。"},
			},
			Read: func(v strict.Value, c *config) { c.folder = readFolder(v) },
		},
		{
			Field: strict.Field{
				Name: "from", Type: strict.TextType, Example: "Support <support@example.com>",
				Label: strict.Words{EN: "Sender", ZH: "发件人"},
				Help:  strict.Words{EN: "The address that answers come from, with or without a name: one of the mailbox. Left out: the account cannot send.", ZH: "回复的发件地址，可带名称：必须是该邮箱的地址。不填则账号不能发送。"},
			},
			Read: func(v strict.Value, c *config) { c.from = readFrom(v) },
		},
		{
			Field: strict.Field{
				Name: "base_url", Type: strict.URL, Example: defaultBaseURL, Default: defaultBaseURL,
				Label: strict.Words{EN: "API address", ZH: "接口地址"},
				Help:  strict.Words{EN: "Where Microsoft Graph is. The access token is sent there.", ZH: "Microsoft Graph 的地址。访问令牌会发往这里。"},
			},
			Read: func(v strict.Value, c *config) { c.base, c.host = client.ReadBaseURL(v) },
		},
	})
}

// Host returns the host, perhaps with a port, to which an account's access tokens are sent, by its config.
func Host(raw json.RawMessage) string {
	var config struct {
		Base string `json:"base_url"`
	}
	_ = json.Unmarshal(raw, &config) // what cannot be read is missing
	return fetch.Host(cmp.Or(config.Base, defaultBaseURL))
}

// readFolder reads the id or the name of a folder.
func readFolder(v strict.Value) string {
	return v.Matching(func(name string) bool {
		return name != "" && len(name) <= maxFolder && name != "." && name != ".." && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
	}, fmt.Sprintf("must be the id or the name of a folder, of at most %d bytes", maxFolder))
}

// readFrom reads the address that the account sends from; nil: none.
func readFrom(v strict.Value) *mail.Address {
	given := v.Text()
	if given == "" {
		return nil
	}
	from, ok := email.ReadFrom(given)
	if !ok || len(given) > maxFrom || strings.ContainsFunc(given, unicode.IsControl) {
		v.Fault("must be an address such as support@example.com or Support <support@example.com>")
	}
	return &from
}

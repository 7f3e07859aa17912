package wecomkf

import (
	"encoding/json"
	"errors"
	"regexp"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// defaultBaseURL is where WeCom's API is.
const defaultBaseURL = "https://qyapi.weixin.qq.com"

// config is a record's parsed config.
type config struct {
	corp        string
	openKfID    string
	secret      secrets.Ref
	baseURL     string // without a slash at its end
	voiceFormat int
}

// idPattern allows the characters of WeCom's ids, and a few more.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// form reads configs.
type form = strict.Form[config]

func newForm(client *fetch.Client) *form {
	return strict.NewForm([]strict.Entry[config]{
		{
			Field: strict.Field{
				Name: "corp_id", Type: strict.TextType, Required: true, Example: "ww1234567890abcdef",
				Label: strict.Words{EN: "Corporation", ZH: "企业 ID"},
				Help:  strict.Words{EN: "The corporation's id in WeCom.", ZH: "企业微信的企业 ID（corpid）。"},
			},
			Read: func(v strict.Value, c *config) { c.corp = readID(v) },
		},
		{
			Field: strict.Field{
				Name: "open_kfid", Type: strict.TextType, Required: true, Example: "wkAJ2GCAAAZSfhHCt7IFSvLKtMPxyJTw",
				Label: strict.Words{EN: "Customer-service account", ZH: "客服账号 ID"},
				Help:  strict.Words{EN: "Its open_kfid. Another one begins without a cursor.", ZH: "客服账号的 open_kfid。换成另一个时，游标从头开始。"},
			},
			Read: func(v strict.Value, c *config) { c.openKfID = readID(v) },
		},
		{
			Field: strict.Field{
				Name: "secret", Type: strict.Secret, Secret: true, Required: true, Example: strict.Ref("KF"),
				Label: strict.Words{EN: "Secret", ZH: "应用 Secret"},
				Help:  strict.Words{EN: "The name of the secret of the application that may read the account.", ZH: "有权读取该客服账号的应用，其 Secret 的密钥名称。"},
			},
			Read: func(v strict.Value, c *config) { c.secret = secrets.ReadRef(v) },
		},
		{
			Field: strict.Field{
				Name: "voice_format", Type: strict.Choice, Example: 0, Default: 0,
				Label: strict.Words{EN: "Voice messages", ZH: "语音格式"},
				Help:  strict.Words{EN: "The format of voice messages.", ZH: "语音消息的格式。"},
				Choices: []strict.Option{
					{Value: 0, Label: strict.Words{EN: "AMR", ZH: "AMR"}},
					{Value: 1, Label: strict.Words{EN: "Silk", ZH: "Silk"}},
				},
			},
			Read: func(v strict.Value, c *config) {
				if raw := v.Raw(); raw != nil && (json.Unmarshal(raw, &c.voiceFormat) != nil || c.voiceFormat != 0 && c.voiceFormat != 1) {
					v.Fault("must be 0 (AMR) or 1 (Silk)")
				}
			},
		},
		{
			Field: strict.Field{
				Name: "base_url", Type: strict.URL, Example: defaultBaseURL, Default: defaultBaseURL,
				Label: strict.Words{EN: "API address", ZH: "接口地址"},
				Help:  strict.Words{EN: "Where WeCom's API is. The secret is sent there.", ZH: "企业微信接口的地址。应用 Secret 会发往这里。"},
			},
			Read: func(v strict.Value, c *config) { c.baseURL, _ = client.ReadBaseURL(v) },
		},
	})
}

func readID(v strict.Value) string {
	id := v.Text()
	if id != "" && !idPattern.MatchString(id) {
		v.Fault("must be 1 to 128 letters, digits, dashes or underscores")
	}
	return id
}

// cursorVersion is the version of the cursor's format.
const cursorVersion = 1

// cursor is what is stored between checks.
type cursor struct {
	Version int    `json:"v"`
	KfID    string `json:"kf"`     // the account that it belongs to
	Next    string `json:"cursor"` // WeCom's own
}

// decodeCursor returns WeCom's cursor for an account. It is empty if there is none or
// it belongs to another account.
func decodeCursor(raw []byte, openKfID string) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	var c cursor
	if err := json.Unmarshal(raw, &c); err != nil {
		return "", err
	}
	if c.Version != cursorVersion || c.Next == "" {
		return "", errors.New("not a cursor of this version")
	}
	if c.KfID != openKfID {
		return "", nil
	}
	return c.Next, nil
}

func encodeCursor(next, openKfID string) ([]byte, error) {
	return json.Marshal(cursor{Version: cursorVersion, KfID: openKfID, Next: next})
}

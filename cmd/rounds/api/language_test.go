package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/cmd/rounds/locale"
)

// A problem is written in the language that its request asks for, whichever way it is written: by
// huma, by our own handlers, and in place of one of huma's.
func TestProblemsFollowAcceptLanguage(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = "0123456789abcdef" })
	for _, c := range []struct {
		method, path, body string
		status             int
		anonymous          bool

		title, detail string
		faults        map[string]string // message by location
	}{
		{"GET", "/v1/accounts/none", "", 404, false, "未找到", "没有账号使用此 ID", nil},
		{"PUT", "/v1/accounts/a", `{"kind":"web","cadence":"often","priority":"x","label":{}}`, 422, false, "内容无法处理", "校验未通过", map[string]string{
			"body.cadence":    `"often" 不是周期：周期以 "every"、"adaptive"、"cron" 或 "at" 开头，例如 "every 1m"`,
			"body.priority":   `必须是 "urgent"、"normal" 或 "low"`,
			"body.label":      "不是记录的字段；字段有 id, kind, config, cadence, labels, priority, retry_budget 和 on_unknown",
			"body.config.url": "不能为空",
		}},
		{"PUT", "/v1/accounts/a", `[]`, 400, false, "请求有误", "无法读取请求内容", map[string]string{"body": "必须是 JSON 对象"}},
		{"GET", "/v1/accounts?limit=0", "", 422, false, "内容无法处理", "校验未通过", map[string]string{"query.limit": "必须不小于 1"}},
		{"GET", "/v1/messages?limit=0", "", 422, false, "内容无法处理", "校验未通过", map[string]string{"query.limit": "必须在 1 到 1000 之间"}},
		{"GET", "/v1/accounts", "", 401, true, "未认证", "需要令牌：Authorization: Bearer TOKEN，其中 TOKEN 是 ROUNDS_API_TOKEN 的令牌或一个 API 密钥", nil},
		{"GET", "/v1/nowhere", "", 404, false, "未找到", "没有这个路由；全部路由见 /docs", nil},
		{"PATCH", "/v1/accounts", "", 405, false, "不支持此方法", "此路由不接受 PATCH", nil},
	} {
		ask := func(accept string) (reply, huma.ErrorModel) {
			r := f.request(c.method, c.path, c.body)
			r.Header.Set("Accept-Language", accept)
			if c.body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			if c.anonymous {
				r.Header.Del("Authorization")
			}
			got := f.do(r)
			var p huma.ErrorModel
			if err := json.Unmarshal([]byte(got.body), &p); err != nil || got.status != c.status || p.Status != c.status {
				t.Fatalf("%s %s in %s: %d %s, %v", c.method, c.path, accept, got.status, got.body, err)
			}
			if vary := strings.Join(got.header.Values("Vary"), ", "); !strings.Contains(vary, "Accept-Language") {
				t.Errorf("%s %s: Vary %q", c.method, c.path, vary)
			}
			return got, p
		}
		got, p := ask("zh-CN,zh;q=0.9")
		if p.Title != c.title || p.Detail != c.detail || got.header.Get("Content-Language") != string(locale.Chinese) {
			t.Errorf("%s %s: %q, %s", c.method, c.path, got.header.Get("Content-Language"), got.body)
		}
		found := make(map[string]string)
		for _, detail := range p.Errors {
			found[detail.Location] = detail.Message
		}
		for at, want := range c.faults {
			if found[at] != want {
				t.Errorf("%s %s: %s: %q, want %q", c.method, c.path, at, found[at], want)
			}
		}

		english, q := ask("en")
		if q.Title != http.StatusText(c.status) || english.header.Get("Content-Language") != string(locale.English) {
			t.Errorf("%s %s in English: %q, %s", c.method, c.path, english.header.Get("Content-Language"), english.body)
		}
		if locale.Chinese.Translate(q.Detail) != p.Detail || len(q.Errors) != len(p.Errors) {
			t.Errorf("%s %s: in English %s, in Chinese %s", c.method, c.path, english.body, got.body)
		}
	}
}

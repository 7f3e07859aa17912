package signin

import (
	"net/http"
	"slices"

	"github.com/rounds-dev/rounds/cmd/rounds/locale"
)

// text has the texts of the pages in one language.
type text struct {
	Lang string

	Title, SignedIn, SignOut, SignIn, Secret, People, GoOn, StillKnown, Elsewhere, Unneeded, Dashboard, Guide, API string

	Refused, Foreign, TooMany, Plain, Away, ProviderAway, Stale, NotVouched, NoGrant, NoProvider, ProviderSays, TooLarge string

	AwayTitle, Since, LoadsAgain string // of the page about an outage

	OnwardTitle, Linked, Open string // of the page to which a link from elsewhere leads
}

// head is what every page begins with.
type head struct{ Lang, Title string }

// Head returns the beginning of a page with a title.
func (t text) Head(title string) head { return head{t.Lang, title} }

// texts returns all languages. The first one is the default.
func texts() []text {
	return []text{{
		Lang: string(locale.English), Title: "Sign in", SignedIn: "You are signed in as", SignOut: "Sign out", SignIn: "Sign in",
		Secret: "Key, or the API's token", People: "Sign in with your organisation", GoOn: "Go on",
		StillKnown: "You are signed out here. Your organisation still has you signed in: whoever uses this browser next can sign in as you.", Elsewhere: "Sign out of your organisation too",
		Unneeded: "Nobody needs to sign in here: no token is set, and the service answers this machine alone.", Dashboard: "Dashboard", Guide: "Guide", API: "API",
		Refused:      "This key or token lets nobody in: it was mistyped, revoked, or has expired.",
		Foreign:      "Another page sent you here. Sign in from this page.",
		TooMany:      "This key or token lets nobody in, and too many sign-ins from your address have failed. Wait %d seconds, or use another one.",
		Plain:        "Your browser would not keep the session: from another machine it must reach rounds by https.",
		Away:         "Redis cannot be used now. Try again.",
		ProviderAway: "The identity provider cannot be reached now, or does not answer as it should. Try again, or use a key.",
		Stale:        "This sign-in took too long, was ended before, or began in another browser or under another name of this service. Begin again, at %s.",
		NotVouched:   "The identity provider does not vouch for you. Begin again. The log of the service has more.",
		NoGrant:      "The identity provider knows you as %s, but none of your groups may use this service. Ask who runs it to add one to ROUNDS_OIDC_ROLES.",
		NoProvider:   "No identity provider is set here. Sign in with a key.",
		ProviderSays: "The identity provider says: %s",
		TooLarge:     "What was sent cannot be read.",
		AwayTitle:    "Redis cannot be used now", Since: "since",
		LoadsAgain:  "This page loads again by itself, until Redis is back. The service goes on by itself then.",
		OnwardTitle: "Open a page of rounds", Linked: "A link outside of this service leads to one of its pages.", Open: "Open",
	}, {
		Lang: string(locale.Chinese), Title: "登录", SignedIn: "您已登录为", SignOut: "退出登录", SignIn: "登录",
		Secret: "密钥，或 API 的令牌", People: "使用组织账号登录", GoOn: "继续",
		StillKnown: "您已在此退出登录，但组织账号仍处于登录状态：之后使用此浏览器的人可以以您的身份登录。", Elsewhere: "同时退出组织账号",
		Unneeded: "这里无需登录：没有设置令牌，服务只响应本机。", Dashboard: "管理页面", Guide: "指南", API: "API",
		Refused:      "此密钥或令牌无效：输入有误、已被吊销，或已过期。",
		Foreign:      "您是从其他页面被带到这里的。请在本页登录。",
		TooMany:      "此密钥或令牌无效，且来自您的地址的登录失败次数过多。请等待 %d 秒，或使用有效的密钥。",
		Plain:        "浏览器不会保存会话：从其他机器必须通过 https 访问 rounds。",
		Away:         "Redis 目前无法使用，请重试。",
		ProviderAway: "身份提供方目前无法访问，或应答不正确。请重试，或使用密钥。",
		Stale:        "此次登录耗时过长、已经结束，或是在另一浏览器中、以本服务的另一名称开始的。请从 %s 重新开始。",
		NotVouched:   "身份提供方未能证明您的身份。请重新开始。详情见服务的日志。",
		NoGrant:      "身份提供方确认您是 %s，但您所在的组均无权使用本服务。请联系运维人员在 ROUNDS_OIDC_ROLES 中添加。",
		NoProvider:   "这里没有设置身份提供方。请使用密钥登录。",
		ProviderSays: "身份提供方返回：%s",
		TooLarge:     "无法读取所发送的内容。",
		AwayTitle:    "Redis 目前无法使用", Since: "始于",
		LoadsAgain:  "本页会自动刷新，直到 Redis 恢复。届时服务会自行继续。",
		OnwardTitle: "打开 rounds 的页面", Linked: "您点击的链接来自本服务之外，指向本服务的一个页面。", Open: "打开",
	}}
}

// textFor returns the texts in the language that a browser asks for.
func textFor(r *http.Request) text {
	asked := locale.Asked(r.Header)
	all := texts()
	return all[slices.IndexFunc(all, func(t text) bool { return t.Lang == string(asked) })]
}

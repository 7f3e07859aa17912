package scene

import "net/url"

// Page is a page of the service.
type Page struct {
	Name string // for files and subtests
	Path string
}

// Pages are all pages that a person opens. Account is the id of the account whose page is
// one of them.
func Pages(account string) []Page {
	return []Page{
		{"overview", "/"},
		{"problems", "/problems"},
		{"accounts", "/accounts"},
		{"account", "/account?id=" + url.QueryEscape(account)},
		{"charts", "/charts"},
		{"messages", "/messages"},
		{"delivery", "/delivery"},
		{"sends", "/delivery/sends"},
		{"limits", "/limits"},
		{"system", "/system"},
		{"signin", "/signin"},
	}
}

// Forms are the pages where a person changes something, or sees who changed what. Only those
// with the right to do so can open them.
func Forms(account string) []Page {
	id := url.QueryEscape(account)
	return []Page{
		{"new", "/account/new?kind=feed"},
		{"weixin", "/account/weixin"},
		{"mail", "/account/mail"},
		{"edit", "/account/edit?id=" + id},
		{"edit as JSON", "/account/edit?as=json&id=" + id},
		{"versions", "/account/versions?id=" + id},
		{"moving", "/accounts/moving"},
		{"pause many", "/accounts/bulk?do=pause&kind=feed"},
		{"administration", "/administration"},
		{"trail", "/trail"},
	}
}

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
		{"messages", "/messages"},
		{"delivery", "/delivery"},
		{"limits", "/limits"},
		{"system", "/system"},
		{"signin", "/signin"},
	}
}

// Forms are the pages where a person changes something, which only those with the right to
// do so can open.
func Forms(account string) []Page {
	return []Page{
		{"add", "/accounts/add"},
		{"edit", "/account/edit?id=" + url.QueryEscape(account)},
	}
}

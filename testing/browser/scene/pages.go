package scene

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
		{"account", "/accounts/" + account},
		{"messages", "/messages"},
		{"delivery", "/delivery"},
		{"limits", "/limits"},
		{"system", "/system"},
		{"signin", "/signin"},
	}
}

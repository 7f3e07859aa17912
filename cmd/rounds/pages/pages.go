package pages

import "net/url"

// allPages returns all pages.
func allPages() []*page {
	return []*page{
		overviewPage(),
		messagesPage(), messagePage(), deliveryPage(), letterPage(), webhookPage(), limitsPage(),
		problemsPage(),
		accountsPage(), bulkPage(), bulkRunPage(), revivePage(), newPage(), editPage(), weixinPage(), scanPage(),
		systemPage(),
		auditRunPage(),
		trailOfAllPage(),
		accountPage(),
		failurePage(),
	}
}

// link returns an address within the dashboard: a path and pairs of a parameter and a value.
// Empty values are left out.
func link(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return address(path, q)
}

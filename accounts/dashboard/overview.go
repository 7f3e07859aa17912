package dashboard

import "net/http"

// overview is what the Overview shows.
type overview struct {
	Stats stats
}

// stats are those of GET /v1/stats, as far as the Overview shows them.
type stats struct {
	Accounts struct {
		Registered int `json:"registered"`
		Scheduled  int `json:"scheduled"`
		Waiting    int `json:"waiting"`
		Claimed    int `json:"claimed"`
		Parked     int `json:"parked"`
	} `json:"accounts"`
}

func overviewPage() *page {
	return &page{name: "overview", path: "/{$}", menu: "overview", raw: map[string]func(*visit, http.ResponseWriter){"GET /search": search}, data: func(v *visit) (any, error) {
		var o overview
		err := v.shared("/v1/stats", &o.Stats)
		return &o, err
	}}
}

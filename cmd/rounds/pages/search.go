package pages

import (
	"net/http"
	"strings"
)

// search sends the browser to the account whose id was searched for, or else to the
// accounts whose ids begin with it.
func search(v *visit, w http.ResponseWriter) {
	id := strings.TrimSpace(v.Query("q"))
	to := link("/accounts", "prefix", id)
	if id != "" {
		err := v.get(accountPath(id), nil)
		switch refused := refusedFor(err); {
		case err == nil:
			to = link("/account", "id", id)
		case refused == nil || refused.Status != http.StatusNotFound && refused.Status < 500:
			v.fail(w, v, err)
			return
		}
	}
	http.Redirect(w, v.r, to, http.StatusSeeOther)
}

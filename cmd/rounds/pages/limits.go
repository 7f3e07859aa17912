package pages

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// limits is what the page of limits and credentials shows.
type limits struct {
	api.LimitList
	Limits []*limit `json:"limits"`

	Known struct {
		api.CredentialList
		Credentials []*credential `json:"credentials"`
	} `json:"-"`
	Maintenance *api.MaintenanceList `json:"-"` // nil: it is unknown now

	Page bool   `json:"-"` // this is not the first page of credentials
	Next string `json:"-"` // the address of the next page of credentials
}

// spends is the budget of adaptive accounts and what they spend of it, for people.
type spends struct{ Budget, Spent, Share, Interval, Sign, Verdict string }

// Spends returns nil if there is no budget.
func (l *limits) Spends() *spends {
	b := l.Budget
	if b == nil {
		return nil
	}
	s := &spends{
		Share: fmt.Sprintf("%.0f", 100*b.Spent/b.Budget), Interval: time.Duration(b.Interval * float64(time.Second)).Round(time.Second).String(),
		Sign: "good", Verdict: b.Verdict(),
	}
	s.Budget, s.Spent = b.Texts()
	switch {
	case b.Price == 0:
		s.Verdict = "learning"
	case b.Short():
		s.Sign = "warn"
	}
	return s
}

// limit is a limit that replicas share.
type limit struct{ api.Limit }

// Sign returns the colour of the limit's state.
func (l *limit) Sign() string {
	switch {
	case l.Waiting > 0 || l.Denied > 0:
		return "warn"
	case l.Full():
		return "chosen"
	}
	return "good"
}

// Full reports whether the limit lets nothing start now.
func (l *limit) Full() bool {
	return l.Concurrency > 0 && l.Running >= l.Concurrency || l.Every > 0 && l.Taken >= l.Burst
}

// Rate returns how many checks may start, in the largest unit in which that number is at least one.
// It returns the number, and the unit as a part of a text's key.
func (l *limit) Rate() (rate struct{ N, Per string }) {
	for _, unit := range []struct {
		seconds float64
		key     string
	}{{1, "s"}, {60, "m"}, {3600, "h"}, {86400, "d"}} {
		if n := unit.seconds / l.Every; n >= 0.9995 || unit.key == "d" {
			rate.N, rate.Per = strings.TrimSuffix(fmt.Sprintf("%.1f", math.Round(n*10)/10), ".0"), unit.key
			break
		}
	}
	return rate
}

// credential is a credential that a third party issued, without its value.
type credential struct{ api.Credential }

// Sign returns the colour of the state.
func (c *credential) Sign() string {
	switch c.State {
	case "valid":
		return "good"
	case "refused":
		return "bad"
	case "failed", "paused":
		return "warn"
	}
	return "chosen"
}

func limitsPage() *page {
	return &page{name: "limits", path: "/limits", menu: "limits", data: func(v *visit) (any, error) {
		l := &limits{}
		if err := v.shared("/v1/limits", l); err != nil {
			return nil, err
		}
		v.ifMay("GET /v1/maintenance", "/v1/maintenance", &l.Maintenance)
		cursor := v.Query("cursor")
		if err := v.shared(link("/v1/credentials", "cursor", cursor), &l.Known); err != nil {
			return nil, err
		}
		if l.Page = cursor != ""; l.Known.Next != "" {
			l.Next = v.With("cursor", l.Known.Next)
		}
		return l, nil
	}, actions: map[string]action{"/limits/maintenance": doMaintenance}}
}

// otherThanName is what no name of a maintenance window has.
var otherThanName = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// windowName returns the name of the window that the form sets: one for each host or label, so that
// the same form changes it.
func windowName(text string) string {
	name := strings.Trim(otherThanName.ReplaceAllString(text, "-"), "-._")
	return name[:min(len(name), 64)]
}

// doMaintenance sets or ends a maintenance window.
func doMaintenance(v *visit) (string, error) {
	form := v.r.PostForm
	switch form.Get("do") {
	case "end":
		if err := v.do(http.MethodDelete, "/v1/maintenance/"+segment(form.Get("name")), nil, nil); err != nil {
			return "", err
		}
		return withSaid("/limits", "limits.ended"), nil
	case "set":
		about := strings.TrimSpace(form.Get("about"))
		body := api.MaintenanceRequest{Lasts: form.Get("lasts"), Reason: form.Get("reason"), Host: about}
		if name, value, ok := strings.Cut(about, "="); ok {
			body.Host, body.Labels = "", map[string]string{name: value}
		}
		name := windowName(about)
		if name == "" && v.May("PUT /v1/maintenance/{name}") { // otherwise the API refuses it
			return "", refusal(http.StatusUnprocessableEntity, v.lang.text("limits.no_host"))
		}
		if err := v.do(http.MethodPut, "/v1/maintenance/"+segment(cmp.Or(name, "-")), body, nil); err != nil {
			return "", err
		}
		return withSaid("/limits", "limits.set"), nil
	}
	return "", v.unknownAction()
}

// Terms returns how long something that a form sets may last.
func (v *visit) Terms() []string { return []string{"1h", "4h", "12h", "1d", "3d", "7d", "30d"} }

package pages

import (
	"fmt"
	"math"
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
		cursor := v.Query("cursor")
		if err := v.shared(link("/v1/credentials", "cursor", cursor), &l.Known); err != nil {
			return nil, err
		}
		if l.Page = cursor != ""; l.Known.Next != "" {
			l.Next = v.With("cursor", l.Known.Next)
		}
		return l, nil
	}}
}

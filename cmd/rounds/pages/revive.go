package pages

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// revive is the action on parked accounts: they circulate again, at a rate.
const revive = "revive"

// revivePage is the page that asks for confirmation before parked accounts are revived. The change
// under way is shown on the same page as the other changes of many accounts.
func revivePage() *page {
	return &page{name: "bulk", path: "/accounts/revive", menu: "accounts", data: func(v *visit) (any, error) {
		q := v.r.URL.Query()
		q.Set("do", revive)
		return askBulk(v, q)
	}}
}

// revival returns the request for the selected accounts. The route knows fewer filters than others,
// and accepts only one value of most.
func (b *bulk) revival(v *visit) (*api.ReviveRequest, error) {
	q := b.query()
	r := &api.ReviveRequest{IDs: q["id"], Reason: q.Get("reason"), Kind: q.Get("kind"), Cause: q.Get("cause"), Host: q.Get("host"), Except: q["except_host"]}
	var refused []*api.Fault
	for name, values := range q {
		known := slices.Contains([]string{"reason", "kind", "cause", "host"}, name) && len(values) == 1 ||
			slices.Contains([]string{"id", "except_host"}, name) || name == "state" && slices.Equal(values, []string{"parked"})
		if !known {
			refused = append(refused, &api.Fault{Location: name, Message: v.lang.text("bulk.norevive")})
		}
	}
	if len(refused) > 0 {
		slices.SortFunc(refused, func(a, b *api.Fault) int { return strings.Compare(a.Location, b.Location) })
		return nil, refusal(http.StatusUnprocessableEntity, v.lang.text("bulk.nothing"), refused...)
	}
	return r, nil
}

// countRevived counts the accounts that would be revived, as far as one call looks.
func (b *bulk) countRevived(v *visit) error {
	r, err := b.revival(v)
	if err != nil {
		return err
	}
	r.DryRun = true
	var would api.Revived
	if err := v.do(http.MethodPost, "/v1/parked:revive", r, &would); err != nil {
		return err
	}
	b.Count = api.AccountCount{Count: would.Revived, Complete: would.Next == ""}
	return nil
}

// revive revives the selected accounts, call by call, and writes the progress after each.
func (b *bulkWriter) revive() error {
	r, err := b.bulk.revival(b.visit)
	if err != nil {
		return err
	}
	r.Rate, err = strconv.ParseFloat(b.bulk.Rate, 64)
	if err != nil || math.IsNaN(r.Rate) || math.IsInf(r.Rate, 0) || r.Rate == 0 {
		return refusal(http.StatusUnprocessableEntity, b.lang.text("bulk.norate"))
	}
	for {
		var did api.Revived
		if err := b.do(http.MethodPost, "/v1/parked:revive", r, &did); err != nil {
			return err
		}
		p := &b.bulk.Progress
		p.Changed += did.Revived
		p.Unchanged += did.Skipped + did.NotFound
		p.Matched = p.Changed + p.Unchanged
		p.Seen = p.Matched
		if err := b.begin(); err != nil {
			return err
		}
		if r.Cursor = did.Next; r.Cursor == "" {
			b.bulk.Ended = true
			return nil
		}
		if err := b.step("progress"); err != nil {
			return err
		}
	}
}

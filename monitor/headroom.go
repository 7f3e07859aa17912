package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/maintenance"
	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// headroomFrom is how long an account must have gone without a complete success
	// before the scan looks at how long its third party retains messages.
	headroomFrom = time.Hour
	// retentionTries is how often a parked account is tried again while its third party
	// still has the messages that came since. WeCom retains messages for three days, so
	// that is every six hours.
	retentionTries = 12
	// hastenPage is how many accounts go before others in a step.
	hastenPage = 500
	// headroomRepeat is how often a warning is repeated.
	headroomRepeat = time.Hour
)

// headrooms is a scan's result for accounts whose third parties retain messages for a
// limited time.
type headrooms struct {
	known   accounts.Retentions  // nil: retention times are unknown
	excused []maintenance.Window // accounts in these do not count
	kinds   map[string]*accounts.Headroom
	soon    []forgetting // of the shard that is being scanned
}

// forgetting is an account that has less than a quarter of its retention time left.
type forgetting struct {
	id   string
	left time.Duration
}

func newHeadrooms(known accounts.Retentions, excused []maintenance.Window) *headrooms {
	return &headrooms{known: known, excused: excused, kinds: make(map[string]*accounts.Headroom)}
}

// excuses reports whether an account is in a maintenance window. What it shares with others besides
// its host or corporation is not known here.
func (h *headrooms) excuses(a *accounts.Account) bool {
	where := accounts.WhereConfig(a.Config)
	return slices.ContainsFunc(h.excused, func(w maintenance.Window) bool { return w.Covers(a, where, "") })
}

// tell returns which accounts the scan reports.
func (h *headrooms) tell() circulate.StaleFilter {
	if h.known == nil {
		return circulate.StaleFilter{}
	}
	return circulate.StaleFilter{Kinds: h.known.Retaining(), From: headroomFrom}
}

// add counts accounts that are in no maintenance window. It returns the ones to try again:
// accounts parked for a reason that may pass by itself, and for a certain part of the
// retention time. Those in a window are tried as well: their messages are lost as others are.
func (h *headrooms) add(now time.Time, told []circulate.Stale) (try []circulate.ParkedAccount) {
	for _, s := range told {
		var record struct {
			Kind   string            `json:"kind"`
			Config json.RawMessage   `json:"config"`
			Labels map[string]string `json:"labels"`
		}
		if json.Unmarshal(s.Record, &record) != nil {
			continue // the audit reports it
		}
		keeps := h.known.Retention(record.Kind, record.Config)
		if keeps <= 0 {
			continue
		}
		if !h.excuses(&accounts.Account{Config: record.Config, Labels: record.Labels}) {
			if h.kinds[record.Kind] == nil {
				h.kinds[record.Kind] = &accounts.Headroom{Kind: record.Kind}
			}
			h.kinds[record.Kind].Add(s.ID, keeps, s.Age, !s.Parked.IsZero())
		}
		if left := keeps - s.Age; s.Parked.IsZero() && left < keeps/4 {
			h.soon = append(h.soon, forgetting{s.ID, left})
		}
		if !s.Parked.IsZero() && problem.MayPass(s.Reason) && now.Sub(s.Parked) >= keeps/retentionTries {
			try = append(try, circulate.ParkedAccount{ID: s.ID, Since: s.Parked, Reason: s.Reason})
		}
	}
	return try
}

// takeSoon returns the accounts of the shard whose third parties forget messages soon, the
// soonest first, and forgets them.
func (h *headrooms) takeSoon() []string {
	slices.SortFunc(h.soon, func(a, b forgetting) int { return cmp.Compare(a.left, b.left) })
	ids := make([]string, len(h.soon))
	for i, f := range h.soon {
		ids[i] = f.id
	}
	h.soon = nil
	return ids
}

// sorted returns the headrooms by kind.
func (h *headrooms) sorted() []accounts.Headroom {
	var all []accounts.Headroom
	for _, kind := range slices.Sorted(maps.Keys(h.kinds)) {
		all = append(all, *h.kinds[kind])
	}
	return all
}

// tryAgain tries a shard's parked accounts again before their third parties forget
// messages, whatever Config.ProbeInterval is: an operator who leaves accounts parked for
// ever does not mean to lose their messages.
func (m *Monitor) tryAgain(ctx context.Context, shard int, try []circulate.ParkedAccount) error {
	if len(try) == 0 {
		return nil
	}
	n, err := m.probeAll(ctx, shard, try)
	if n > 0 {
		m.log.Info("parked accounts are tried again, because their third parties keep messages for a limited time", "accounts", n)
	}
	return err
}

// hasten has a shard's accounts go before others if they are overdue. Accounts that are not
// due yet stay where they are: their failures or their limits have them wait.
func (m *Monitor) hasten(ctx context.Context, shard int, ids []string) error {
	hastened := 0
	defer func() {
		if hastened > 0 {
			m.log.Info("overdue accounts go before others, because their third parties will soon forget messages", "accounts", hastened, "shard", shard)
		}
	}()
	for some := range slices.Chunk(ids, hastenPage) {
		n, err := m.ring.NudgeOverdue(ctx, shard, some)
		if err != nil {
			return err
		}
		hastened += n
		if ctx.Err() != nil || !m.duty.held() {
			return nil
		}
	}
	return nil
}

// warnOfLoss warns of accounts whose third party will soon forget messages. It warns when
// there are more of them than at the last warning, and from time to time while there are
// any.
func (m *Monitor) warnOfLoss(found []accounts.Headroom) {
	for _, h := range found {
		told := m.warned[h.Kind]
		if h.Low == 0 {
			delete(m.warned, h.Kind)
			continue
		}
		if !told.at.IsZero() && time.Since(told.at) < headroomRepeat && h.Low+h.Critical+h.Past <= told.weight {
			continue
		}
		m.warned[h.Kind] = warning{time.Now(), h.Low + h.Critical + h.Past}
		left := time.Duration(h.Least * float64(time.Second)).Round(time.Second)
		m.log.Warn("accounts were not checked for so long that messages will be lost: their third parties forget them",
			"kind", h.Kind, "accounts", h.Low, "parked", h.Parked, "critical", h.Critical, "past", h.Past, "first_in", left, "first", h.Account)
	}
	for kind := range m.warned {
		if !slices.ContainsFunc(found, func(h accounts.Headroom) bool { return h.Kind == kind }) {
			delete(m.warned, kind)
		}
	}
}

// warning is when a warning was logged, and for how many accounts.
type warning struct {
	at     time.Time
	weight int
}

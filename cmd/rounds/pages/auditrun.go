package pages

import (
	"net/http"
	"slices"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	auditRun   = "/system/audit"
	repairRun  = "/system/repair"
	auditShown = 50 // findings that are shown one by one
)

// auditing is how far an audit by hand has got.
type auditing struct {
	Repair   bool
	Accounts int
	Unjudged int
	Audited  int
	Shards   int
	Kinds    []api.FindingCount
	Findings []api.Finding
	Failed   string // why the audit stopped
	Ended    bool
}

// Left returns how many findings were not repaired.
func (a *auditing) Left() (n int) {
	for _, k := range a.Kinds {
		n += k.Found - k.Repaired
	}
	return n
}

// add adds what one call of the API has found.
func (a *auditing) add(done *api.Audit) {
	a.Accounts += done.Accounts
	a.Unjudged += done.Unjudged
	a.Audited, a.Shards = done.Audited, done.Shards
	for _, more := range done.Kinds {
		i := slices.IndexFunc(a.Kinds, func(k api.FindingCount) bool { return k.Kind == more.Kind })
		if i < 0 {
			a.Kinds = append(a.Kinds, more)
			continue
		}
		a.Kinds[i].Found += more.Found
		a.Kinds[i].Repaired += more.Repaired
	}
	a.Findings = append(a.Findings, done.Findings[:max(0, min(len(done.Findings), auditShown-len(a.Findings)))]...)
}

// auditRunPage is the page of an audit under way. Readers cannot open it by an address.
func auditRunPage() *page {
	p := &page{name: "auditrun", path: auditRun, menu: "system", data: unopened("auditrun.again")}
	p.raw = map[string]func(*visit, http.ResponseWriter){
		"POST " + auditRun:  func(v *visit, w http.ResponseWriter) { v.runAudit(w, p, false) },
		"POST " + repairRun: func(v *visit, w http.ResponseWriter) { v.runAudit(w, p, true) },
	}
	return p
}

// runAudit audits all accounts, and may repair what it finds. It writes the page as it goes.
// When the visitor leaves the page, the audit stops.
func (v *visit) runAudit(w http.ResponseWriter, p *page, repair bool) {
	a := &auditing{Repair: repair}
	out := v.asItGoes(w, p, v.lang.text("auditrun.title"), a)
	method, path := http.MethodGet, "/v1/audit"
	if a.Repair {
		method, path = http.MethodPost, "/v1/audit:repair"
	}
	for cursor := ""; ; {
		var done api.Audit
		err := v.do(method, link(path, "cursor", cursor), nil, &done)
		switch refused := refusedFor(err); {
		case err != nil && !out.begun:
			v.fail(w, v, err)
			return
		case refused != nil:
			a.Failed = refused.Error()
		case err != nil:
			a.Failed = v.lang.text("auditrun.cut")
		}
		if err != nil {
			break
		}
		a.add(&done)
		if cursor = done.Next; cursor == "" {
			a.Ended = true
			break
		}
		if out.step("progress") != nil {
			return // the visitor has gone, and so the audit stops
		}
	}
	_ = out.end() // a visitor who has gone needs no end
}

package browser

import (
	"strings"

	"github.com/rounds-dev/rounds/circulate"
)

// one adds an account by the form of its kind, and then checks, pauses and resumes it.
func (h *hands) one() {
	h.says("hand", "first")
	h.open("/accounts")
	h.goes(`.head a.primary`, "/account/new")
	h.goes(`.kinds a[href="/account/new?kind=http"]`, "/account/new")
	h.writes(`#id`, "hand")
	h.writes(`[id="config.url"]`, "http://crm.example/said/hand")
	h.writes(`#cadence`, "every 1h")
	h.goes(`#account .actions button[value=try]`, "/account/new")
	h.reads(`[aria-labelledby=tried-title]`, "first")
	if h.exists("hand") {
		h.t.Error("a trial has registered the account")
	}
	h.goes(`#account .actions button[value=save]`, "/account")
	if a := h.account("hand"); a.Kind != "http" || a.Cadence != "every 1h" || !strings.Contains(string(a.Config), "/said/hand") {
		h.t.Errorf("what was added is %+v", a)
	}
	h.finds("hand", "first")

	h.says("hand", "checked")
	h.goes(`form[action="/account/check"] button`, "/account")
	h.finds("hand", "checked")

	h.goes(`form[action="/account/pause"] button`, "/account")
	h.paused("hand")
	h.says("hand", "meanwhile")
	h.click(`.asks summary.primary`)
	h.paused("hand") // it asks where from
	h.goes(`form[action="/account/resume"] button[value=cursor]`, "/account")
	h.finds("hand", "meanwhile")

	h.goes(`form[action="/account/pause"] button`, "/account")
	h.paused("hand")
	h.says("hand", "old-one", "afterwards")
	h.click(`.asks summary.primary`)
	h.goes(`form[action="/account/resume"] button[value=now]`, "/account")
	h.finds("hand", "afterwards")
	for _, id := range h.found("hand") {
		if id == "old-one" {
			h.t.Error("an account that was resumed from now has found an old message")
		}
	}
}

// paused fails the test unless an account is.
func (h *hands) paused(id string) {
	h.t.Helper()
	if s := h.account(id).State; s.Place != circulate.Parked || s.Reason != "paused" {
		h.t.Fatalf("%s is %s, %q", id, s.Place, s.Reason)
	}
}

// edit changes an account, wrongly first, and deletes it.
func (h *hands) edit() {
	h.goes(`main a[href="/account/edit?id=hand"]`, "/account/edit")
	h.writes(`#cadence`, "every now and then")
	h.tab.expect(422)
	h.goes(`#account .actions button[value=save]`, "/account/edit")
	if h.shows(`document.getElementById("cadence").getAttribute("aria-describedby")`) != "cadence-wrong" || h.shows(`document.getElementById("cadence-wrong").innerText`) == "" {
		h.t.Error("a fault of the cadence is not shown at its field")
	}
	if a := h.account("hand"); a.Cadence != "every 1h" {
		h.t.Errorf("what was refused is in force: %s", a.Cadence)
	}
	h.writes(`#cadence`, "every 2h")
	h.goes(`#account .actions button[value=save]`, "/account")
	if a := h.account("hand"); a.Cadence != "every 2h" {
		h.t.Errorf("the cadence is %s", a.Cadence)
	}
	h.click(`.asks summary.danger`)
	if !h.exists("hand") {
		h.t.Fatal("the account is deleted before somebody was sure")
	}
	h.goes(`form[action="/account/delete"] button`, "/accounts")
	if h.exists("hand") {
		h.t.Error("the account is not deleted")
	}
}

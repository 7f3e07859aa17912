package browser

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/browser/scene"
)

// listed returns the accounts of many in a state, or all.
func (h *hands) listed(states ...string) []string {
	h.t.Helper()
	list, err := h.scene.Calls.List(h.t.Context(), client.Query{Selector: accounts.Selector{Prefixes: []string{"many-"}, States: states}})
	h.must(err)
	var ids []string
	for _, a := range list.Accounts {
		ids = append(ids, a.ID)
	}
	slices.Sort(ids)
	return ids
}

// choose opens the list of many and checks some of them.
func (h *hands) choose(ids ...string) {
	h.t.Helper()
	h.open("/accounts?prefix=many-")
	if len(ids) == 0 {
		h.click(`#pick-all`)
		ids = many
	} else {
		for _, id := range ids {
			h.click(`#list input[name=pick][value="` + id + `"]`)
		}
	}
	if said := h.shows(`document.getElementById("picked").textContent`); !strings.HasSuffix(said, " "+strconv.Itoa(len(ids))) {
		h.t.Errorf("with %d accounts checked the page says %q", len(ids), said)
	}
}

// confirm expects the question about n accounts, says yes, and waits for the end.
func (h *hands) confirm(n int, yes string) {
	h.t.Helper()
	if count := h.shows(`document.querySelector(".figure").innerText`); count != strconv.Itoa(n) {
		h.t.Errorf("the page asks about %s accounts, want %d", count, n)
	}
	h.goes(`.bulkform button.`+yes, "/job")
	h.reads(`#live-job h2 .good`, "Done")
}

// many pauses, resumes, nudges and deletes accounts that are chosen in the list.
func (h *hands) many() {
	h.choose()
	h.goes(`#list button[name=do][value=pause]`, "/accounts/bulk")
	if paused := h.listed("paused"); len(paused) != 0 {
		h.t.Errorf("%s are paused before somebody was sure", paused)
	}
	h.named()
	h.confirm(6, "primary")
	h.named()
	if paused := h.listed("paused"); !slices.Equal(paused, many) {
		h.t.Errorf("%s are paused", paused)
	}

	h.choose("many-1", "many-2")
	h.goes(`#list button[name=do][value=resume]`, "/accounts/bulk")
	h.confirm(2, "primary")
	if paused := h.listed("paused"); !slices.Equal(paused, many[2:]) {
		h.t.Errorf("%s are still paused", paused)
	}

	checked := func(id string) time.Time { return h.account(id).State.LastSuccess }
	h.until("those that were resumed are checked", func() bool {
		return h.account("many-1").State.Place == circulate.Scheduled && h.account("many-2").State.Place == circulate.Scheduled
	})
	before, resting := checked("many-1"), checked("many-4")
	h.open("/accounts?prefix=many-")
	h.goes(`#list button[name=all][value=nudge]`, "/accounts/bulk")
	h.confirm(6, "primary")
	h.until("many-1 is checked again", func() bool { return checked("many-1").After(before) })
	if checked("many-4") != resting {
		h.t.Error("a paused account was checked")
	}

	h.setMany()
	h.choose("many-1", "many-3", "many-5")
	h.goes(`#list button[name=do][value=delete]`, "/accounts/bulk")
	if left := h.listed(); !slices.Equal(left, many) {
		h.t.Errorf("only %s are left before somebody was sure", left)
	}
	h.confirm(3, "danger")
	if left := h.listed(); !slices.Equal(left, []string{"many-2", "many-4", "many-6"}) {
		h.t.Errorf("%s are left", left)
	}
	h.goes(`#live-job .actions a`, "/accounts")
}

// setMany changes the cadence of all accounts that match, and takes that back.
func (h *hands) setMany() {
	h.t.Helper()
	cadences := func() (all []string) {
		for _, id := range many {
			all = append(all, h.account(id).Cadence)
		}
		return all
	}
	before := cadences()
	h.open("/accounts?prefix=many-")
	h.goes(`#list button[name=all][value=set]`, "/accounts/bulk")
	h.named()
	h.writes(`#set-cadence`, "every 9m")
	h.confirm(6, "primary")
	h.named()
	if now := cadences(); !slices.Equal(now, slices.Repeat([]string{"every 9m"}, 6)) {
		h.t.Errorf("set to %q", now)
	}
	h.goes(`#live-job button[value=undo]`, "/job")
	h.reads(`#live-job h2 .good`, "Done")
	if now := cadences(); !slices.Equal(now, before) {
		h.t.Errorf("after the undo %q, want %q", now, before)
	}
}

// moving imports a list after a preview.
func (h *hands) moving() {
	h.open("/accounts")
	h.goes(`.head a[href="/accounts/moving"]`, "/accounts/moving")
	h.shows(`(() => {
  const list = new DataTransfer();
  list.items.add(new File(["id,kind,url,paused\nmoved,http,http://crm.example/said/moved,yes\nbad,none,,\n"], "list.csv"));
  document.getElementById("file").files = list.files;
})()`)
	h.goes(`form.narrow button.primary`, "/accounts/moving")
	h.reads(`[aria-labelledby=moved-title]`, "list.csv")
	h.reads(`[aria-labelledby=moved-title] tbody`, "kind")
	h.named()
	if h.exists("moved") {
		h.t.Fatal("the preview has registered the account")
	}
	h.goes(`[aria-labelledby=moved-title] button.primary`, "/accounts/moving")
	h.reads(`#moved-title .good`, "Done")
	h.paused("moved")
	h.must(h.scene.Calls.Remove(h.t.Context(), "moved"))
}

// testRevive has parked accounts circulate again from the page of what fails.
func (h *hands) testRevive(t *testing.T) {
	h.t = t
	if s := h.account("hand-gone").State; s.Place != circulate.Parked {
		h.t.Fatalf("hand-gone is %s: %s", s.Place, s.LastError)
	}
	h.summedUp(t, "hand-gone")
	h.scene.Third.Say("gone", scene.Answer{Status: http.StatusOK, Type: "application/rss+xml", Body: emptyFeed})
	h.open("/problems?host=gone.example")
	h.goes(`main a[href*="do=retry"]`, "/accounts/bulk")
	h.confirm(1, "primary")
	h.until("hand-gone is checked", func() bool {
		s := h.account("hand-gone").State
		return s.Place == circulate.Scheduled && !s.LastSuccess.IsZero() && s.LastError == ""
	})
	sound(t, h.tab)
}

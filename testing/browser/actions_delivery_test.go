package browser

import (
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// refusing is the webhook endpoint of the scene that refuses everything, and its group.
const (
	refusing      = "archive"
	refusingGroup = "webhook." + refusing
)

// messages filters the messages, stops the page, goes on without a gap, and searches for a text.
func (h *hands) messages() {
	ids := func() string {
		return h.shows(`[...document.querySelectorAll("#rows [data-f=id]")].map((e) => e.textContent)`)
	}
	find := func(id string) {
		h.says("tail", id)
		h.must(h.scene.Calls.Nudge(h.t.Context(), "hand-tail", api.NudgeRequest{}))
		h.finds("hand-tail", id)
	}
	find("before")
	h.open("/messages")
	h.writes(`#f-account`, "hand-tail")
	h.goes(`form.filters button`, "/messages")
	if shown := ids(); shown != "before" {
		h.t.Errorf("the page shows the messages %s", shown)
	}
	find("live")
	h.must(h.tab.await(`document.querySelectorAll("#rows > li").length > 1`))
	h.click(`#tail`)
	find("stopped-1")
	find("stopped-2")
	if shown := ids(); shown != "live,before" {
		h.t.Errorf("a page that is stopped shows the messages %s", shown)
	}
	h.click(`#tail`)
	h.must(h.tab.await(`document.querySelectorAll("#rows > li").length > 3`))
	if shown := ids(); shown != "stopped-2,stopped-1,live,before" {
		h.t.Errorf("after it went on the page shows the messages %s", shown)
	}
	h.standStill(ids, find)
	h.goes(`#rows li [data-f=at]`, "/message")
	h.reads(`main`, "opened")
	h.named()
	h.open("/messages")
	h.writes(`#f-text`, "STOPPED-1")
	h.goes(`form.filters button`, "/messages")
	if shown := ids(); shown != "stopped-1" {
		h.t.Errorf("the search shows the messages %s", shown)
	}
	h.named()
}

// standStill rests the mouse on a message, and then opens one: no row moves until the mouse leaves it,
// or until the message is closed and the note is clicked.
func (h *hands) standStill(ids func() string, find func(id string)) {
	const note = `!document.getElementById("changes").hidden`
	before := ids()
	h.must(h.tab.hover(`#rows li [data-f=id]`))
	find("under")
	h.must(h.tab.await(note))
	if shown := ids(); shown != before {
		h.t.Errorf("under the mouse the rows became %s", shown)
	}
	h.must(h.tab.hover(`h1`))
	h.must(h.tab.await(`!(` + note + `)`))
	if shown := ids(); shown != "under,"+before {
		h.t.Errorf("once the mouse has left, the rows are %s", shown)
	}

	before = ids()
	h.click(`#rows li summary`)
	h.must(h.tab.await(`!document.getElementById("tail-state").classList.contains("good")`))
	find("opened")
	h.must(h.tab.Type("\x1b"))
	if h.shows(`document.querySelector("#rows details[open]") === null`) != "true" {
		h.t.Error("Esc does not close the message")
	}
	h.must(h.tab.await(note)) // the focus is still in the row
	if shown := ids(); shown != before {
		h.t.Errorf("beside an open message the rows became %s", shown)
	}
	h.reads(`#changes`, "Show 1 change")
	h.click(`#changes button`)
	if shown := ids(); shown != "opened,"+before {
		h.t.Errorf("after a click on the note the rows are %s", shown)
	}
}

// refusals returns the state of the endpoint that refuses everything.
func (h *hands) refusals() api.Webhook {
	h.t.Helper()
	w, err := h.scene.Calls.Webhook(h.t.Context(), refusing)
	h.must(err)
	return w
}

// dead returns the dead letters of that endpoint.
func (h *hands) dead() []api.DeadLetter {
	h.t.Helper()
	list, err := h.scene.Calls.Dead(h.t.Context(), client.DeadQuery{Group: refusingGroup, Limit: 1000})
	h.must(err)
	return list.Dead
}

// isDead reports whether there is a dead letter.
func (h *hands) isDead(id string) bool {
	h.t.Helper()
	return slices.ContainsFunc(h.dead(), func(l api.DeadLetter) bool { return l.DeadID == id })
}

// webhook tries what waits at an endpoint, skips it, and enables the endpoint.
func (h *hands) webhook() {
	h.until("messages wait", func() bool {
		s := h.refusals().Standing
		return s != nil && s.WaitingAccounts > 4
	})
	ring, err := circulate.Open(h.t.Context(), redistest.Connect(h.t, h.scene.Server), circulate.Options{})
	h.must(err)
	_, err = ring.Endpoints().Disable(h.t.Context(), refusing, "it is closed for today")
	h.must(err)
	h.open("/delivery")
	h.reads(`#live-webhooks`, "disabled")
	h.goes(`form[action="/delivery/webhook"] button[value=enable]`, "/delivery/webhook")
	if w := h.refusals(); w.Disabled {
		h.t.Errorf("the endpoint is still disabled: %s", w.Reason)
	}
	h.named()

	const row = `#live-waiting tbody tr`
	first := func() string { return h.shows(`document.querySelector("` + row + ` input[name=account]").value`) }
	h.must(h.tab.await(`document.querySelector("` + row + ` button[value=retry]")`))
	h.goes(row+` button[value=retry]`, "/delivery/webhook")
	h.reads(`.said`, "tried now")
	h.ordered("retry-webhook")

	// The row under the mouse stays, although its message is tried later than the next one's.
	account := first()
	h.must(h.tab.hover(row + ` td`))
	_, err = h.scene.Calls.RetryWebhook(h.t.Context(), refusing, api.WebhookRetryRequest{Account: account})
	h.must(err)
	h.must(h.tab.await(`!document.getElementById("changes").hidden`))
	if at := first(); at != account {
		h.t.Errorf("under the mouse the row of %s became the one of %s", account, at)
	}
	h.click(`#changes button`)
	if h.shows(`document.getElementById("changes").hidden`) != "true" {
		h.t.Error("the changes still wait after a click on the note")
	}

	h.goes(row+` a[href*="&skip="], `+row+` a[href*="?skip="]`, "/delivery/webhook")
	account = h.shows(`document.querySelector("input[name=at]").form.account.value`)
	h.reads(`#skip-title`, "Skip this message?")
	h.reads(`section:has(#skip-title)`, account)
	h.named()
	if slices.ContainsFunc(h.dead(), func(l api.DeadLetter) bool { return l.Account == account }) {
		h.t.Errorf("the message of %s is skipped before somebody was sure", account)
	}
	h.goes(`form:has(input[name=at]) button[value=skip]`, "/delivery/webhook")
	if !slices.ContainsFunc(h.dead(), func(l api.DeadLetter) bool { return l.Account == account }) {
		h.t.Errorf("the message of %s that was skipped is no dead letter", account)
	}
	before := len(h.dead())
	h.must(h.tab.await(`document.querySelector("#live-waiting details.sure summary")?.checkVisibility() === true`)) // the rows are live
	h.click(`#live-waiting details.sure summary`)
	if n := len(h.dead()); n != before {
		h.t.Errorf("%d letters instead of %d before somebody was sure", n, before)
	}
	// New rows may have closed it again. Once it is open the rows stand still, even if nobody points at them.
	h.must(h.tab.await(`((asks) => { if (!asks.open) asks.querySelector("summary").click(); return asks.open; })(document.querySelector("#live-waiting details.sure"))`))
	h.must(h.tab.hover(`#waiting-title`))
	account = first()
	_, err = h.scene.Calls.RetryWebhook(h.t.Context(), refusing, api.WebhookRetryRequest{Account: account})
	h.must(err)
	h.must(h.tab.await(`!document.getElementById("changes").hidden`))
	if at := first(); at != account {
		h.t.Errorf("above an open question the row of %s became the one of %s", account, at)
	}
	h.goes(`#live-waiting details.sure button`, "/delivery/webhook")
	if n := len(h.dead()); n < before+3 {
		h.t.Errorf("%d dead letters, %d before all were skipped", n, before)
	}
}

// ordered fails the test unless the latest order of an account in the trail is this action,
// and was carried out.
func (h *hands) ordered(action string) {
	h.t.Helper()
	page, err := h.scene.Calls.Trail(h.t.Context(), client.TrailQuery{Limit: 1})
	h.must(err)
	if len(page.Entries) == 0 || page.Entries[0].Action != action || page.Entries[0].Outcome != "done" {
		h.t.Errorf("the latest orders are %+v, want %s", page.Entries, action)
	}
}

// letters replays one dead letter, drops one, and then all of a group.
func (h *hands) letters() {
	h.open("/delivery")
	h.goes(`.letters a[href^="/delivery/letter"]`, "/delivery/letter")
	h.named()
	id := h.shows(`new URLSearchParams(location.search).get("id")`)
	letter := slices.IndexFunc(h.dead(), func(l api.DeadLetter) bool { return l.DeadID == id })
	if letter < 0 {
		h.t.Fatalf("the page shows the letter %s, which is not there", id)
	}
	account := h.dead()[letter].Account
	written := len(h.found(account))
	h.goes(`.head button[value=replay]`, "/delivery")
	if h.isDead(id) || len(h.found(account)) != written+1 {
		h.t.Errorf("the letter %s of %s is not replayed", id, account)
	}
	shown := h.shows(`[...document.querySelectorAll(".letters input[name=id]")].map((e) => e.value)`)
	if strings.Contains(shown, id) {
		h.t.Errorf("the page still shows %s, which was replayed", id)
	}

	id, _, _ = strings.Cut(shown, ",")
	h.click(`.letters input[name=id][value="` + id + `"]`)
	before := len(h.dead())
	h.goes(`form[action="/delivery/letters"] button[value=drop]`, "/delivery")
	if h.shows(`document.querySelectorAll("main input[name=id]").length`) != "1" || !h.isDead(id) {
		h.t.Errorf("the page asks about other letters than %s, or has dropped it", id)
	}
	h.named()
	h.goes(`form[action="/delivery/letters"] button[value=drop]`, "/delivery")
	if n := len(h.dead()); h.isDead(id) || n != before-1 {
		h.t.Errorf("%d letters of %d are left after one was dropped", n, before)
	}

	h.goes(`.letters td a[href="/delivery?group=`+refusingGroup+`"]`, "/delivery")
	h.click(`details.sure summary.danger`)
	if n := len(h.dead()); n != before-1 {
		h.t.Errorf("%d letters instead of %d before somebody was sure", n, before-1)
	}
	h.goes(`form[action="/delivery/all"] button[value=drop]`, "/delivery")
	if left := h.dead(); len(left) > 0 {
		h.t.Errorf("%d letters of the group are left", len(left))
	}
}

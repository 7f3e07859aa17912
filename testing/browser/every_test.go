package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/pages"
	"github.com/rounds-dev/rounds/testing/browser/scene"
)

// testEveryPage has axe-core look at every page that the router has, in light and dark. A page that it
// does not know the address of fails the test. By day those are left out that testPages has visited.
func (h *hands) testEveryPage(t *testing.T) {
	h.t = t
	addresses := h.addresses()
	visited := scene.Pages("")
	for _, path := range pages.Paths() {
		if !atNight && slices.ContainsFunc(visited, func(p scene.Page) bool { at, _, _ := strings.Cut(p.Path, "?"); return at == path }) {
			continue
		}
		address, ok := addresses[path]
		switch {
		case !ok:
			t.Errorf("the address of a page at %s is not known: add it here, or to package scene", path)
			continue
		case address == "": // only a form leads there: see below
			h.tab.expect(http.StatusNotFound)
			h.open(path)
		default:
			h.open(address)
		}
		inspect(t, h.tab)
		sound(t, h.tab)
	}
	h.open("/system")
	h.goes(`form[action="/system/audit"] button`, "/system/audit")
	inspect(t, h.tab)
	sound(t, h.tab)
}

// addresses returns the address of a page at each path. It is empty for pages that only a form or a
// refusal leads to.
func (h *hands) addresses() map[string]string {
	h.t.Helper()
	all := map[string]string{"/failure": "", "/system/audit": "", "/jobs": "/jobs", "/account/weixin/code": "/account/weixin/code?at=none"}
	for _, p := range slices.Concat(scene.Pages(h.failing[3].ID), scene.Forms(h.failing[3].ID)) {
		path, _, _ := strings.Cut(p.Path, "?")
		all[path] = p.Path
	}
	all["/delivery/webhook"] = "/delivery/webhook?name=" + refusing
	all["/account/mail/code"], all["/account/mail/back"] = "/account/mail/code?at=none", "/account/mail/back?state=none"

	var found struct{ Messages []api.Message }
	h.read("/v1/messages?before=now&limit=1", &found)
	jobs, err := h.scene.Calls.Jobs(h.t.Context())
	h.must(err)
	h.until("a message waits for the endpoint that refuses everything", func() bool {
		s := h.refusals().Standing
		return s != nil && len(s.Waiting) > 0
	})
	_, err = h.scene.Calls.SkipWebhook(h.t.Context(), refusing, api.WebhookSkipRequest{Account: h.refusals().Standing.Waiting[0].Account})
	h.must(err)
	var dead []api.DeadLetter
	h.until("what was skipped is a dead letter", func() bool {
		letters, err := h.scene.Calls.Dead(h.t.Context(), client.DeadQuery{Group: refusingGroup, Limit: 1})
		h.must(err)
		dead = letters.Dead
		return len(dead) > 0
	})
	if len(found.Messages) == 0 || len(jobs.Jobs) == 0 {
		h.t.Fatalf("there is no message or job to look at: %d, %d", len(found.Messages), len(jobs.Jobs))
	}
	m := found.Messages[0]
	all["/message"] = "/message?at=" + url.QueryEscape(fmt.Sprintf("%d:%s", m.Shard, m.Position))
	all["/job"] = "/job?id=" + url.QueryEscape(jobs.Jobs[0].ID)
	all["/delivery/letter"] = "/delivery/letter?id=" + url.QueryEscape(dead[0].DeadID)
	return all
}

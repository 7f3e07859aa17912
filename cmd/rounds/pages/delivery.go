package pages

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

const (
	lettersShown = 20               // dead letters on a page
	lettersTime  = 15 * time.Second // how long one press of a button works on all letters of a group
)

// consumerGroup is a consumer group and how far it has read.
type consumerGroup struct{ api.Group }

// Behind reports whether the group is so late that somebody should look.
func (g *consumerGroup) Behind() bool {
	const late = 300 // seconds
	return g.OldestUnread >= late || g.OldestPending >= late
}

// Why returns why messages wait for the group: the error of one of its consumers' handlers, or
// an empty text.
func (g *consumerGroup) Why() string {
	for i := range g.Members {
		if why := g.Members[i].Error; why != "" {
			return why
		}
	}
	return ""
}

// webhook is a webhook endpoint.
type webhook struct {
	api.Webhook
	Skip string `json:"-"` // the account whose first message is to be skipped, if the visitor is sure

	Form    *endpointForm      `json:"-"`
	Refused *problem           `json:"-"` // what is wrong with the form
	New     *api.WebhookStored `json:"-"` // the signing key was just made: it is shown this once
	Tested  *api.WebhookTested `json:"-"` // how the test ended that was just ordered

	Attempts []webhookAttempt `json:"-"` // the latest, failures first; only on its own page
}

// webhookAttempt is a call of a webhook endpoint.
type webhookAttempt struct{ api.WebhookAttempt }

// Sign returns the colour of the outcome.
func (a *webhookAttempt) Sign() string {
	switch a.Outcome {
	case "delivered":
		return "good"
	case "throttled":
		return "warn"
	}
	return "bad"
}

// Shown returns the beginning of the answer. Characters that reverse or hide others are escaped.
func (a *webhookAttempt) Shown() string { return terminal.Text(a.Answer) }

// State returns the endpoint's state, as a part of a text's key.
func (w *webhook) State() string {
	switch {
	case w.Disabled:
		return "disabled"
	case w.Standing == nil:
		return "idle"
	case w.Standing.LastOutcome == "unready" && w.Standing.LastStatus == 0:
		return "unready"
	case w.Standing.Breaker == "open":
		return "open"
	case w.Standing.WaitingMessages > 0:
		return "waiting"
	}
	return "taking"
}

// Sign returns the colour of the state.
func (w *webhook) Sign() string {
	return map[string]string{"disabled": "bad", "open": "bad", "unready": "bad", "waiting": "warn", "idle": "warn", "taking": "good"}[w.State()]
}

// letter is a dead letter.
type letter struct{ api.DeadLetter }

// Found returns the message that died. Its position is the letter's.
func (l *letter) Found() *found { return &found{l.Message} }

// From returns what names the message that died, in addresses.
func (l *letter) From() string { return strconv.Itoa(l.Shard) + ":" + l.Origin }

// delivery is what the page of groups, webhooks and dead letters shows.
type delivery struct {
	Groups   []*consumerGroup `json:"groups"`
	Webhooks []*webhook       `json:"webhooks"`
	NoRole   bool             `json:"-"` // endpoints are named, and no process delivers to any

	Letters struct {
		api.DeadList
		Dead []*letter `json:"dead"`
	} `json:"-"`
	Of   string `json:"-"` // the group, if only its letters are shown
	Page bool   `json:"-"` // this is not the first page of letters
	Next string `json:"-"` // the address of the next page of letters

	Form    *endpointForm      `json:"-"`
	Adding  bool               `json:"-"` // the form was asked for
	Refused *problem           `json:"-"` // what is wrong with the form
	New     *api.WebhookStored `json:"-"` // the endpoint that was just added: its key is shown this once

	Sure *sureOfLetters `json:"-"` // the page asks this, and shows nothing else; nil: it does not
}

// sureOfLetters asks whether dead letters are to be dropped for good.
type sureOfLetters struct {
	Letters []*letter // the ones that still exist
	Back    string
}

// askToDrop returns the question about the letters that the address names.
func askToDrop(v *visit, ids []string) (*sureOfLetters, error) {
	sure := &sureOfLetters{Back: local(cmp.Or(v.Query("back"), "/delivery"))}
	for _, id := range ids[:min(len(ids), lettersShown)] {
		l := &letter{}
		if !refPattern.MatchString(id) {
			continue
		}
		switch err := v.get("/v1/dead/"+id, l); {
		case err == nil:
			sure.Letters = append(sure.Letters, l)
		case refusedFor(err, http.StatusNotFound) == nil:
			return nil, err
		}
	}
	return sure, nil
}

// endpointGroup is the prefix of webhooks' groups, which are shown with the webhooks.
const endpointGroup = "webhook."

func deliveryPage() *page {
	return &page{
		name: "delivery", path: "/delivery", menu: "delivery", data: showDelivery,
		actions: map[string]action{"/delivery/letters": doLetters, "/delivery/all": doAllLetters, "/delivery/webhook": doWebhook, addEndpointPath: doAddEndpoint},
	}
}

func showDelivery(v *visit) (any, error) {
	d := &delivery{Of: v.Query("group")}
	if ids := v.r.URL.Query()["drop"]; len(ids) > 0 {
		var err error
		d.Sure, err = askToDrop(v, ids)
		return d, err
	}
	var groups struct {
		Groups []*consumerGroup `json:"groups"`
	}
	if err := v.shared("/v1/groups", &groups); err != nil {
		return nil, err
	}
	for _, g := range groups.Groups {
		if !strings.HasPrefix(g.Name, endpointGroup) {
			d.Groups = append(d.Groups, g)
		}
	}
	if err := v.shared("/v1/webhooks", d); err != nil {
		return nil, err
	}
	if v.May("PUT /v1/webhooks/{name}") {
		d.Form, d.Adding = newEndpointForm(v, v.Query("add")), v.Query("add") != ""
	}
	var wrong *api.Concerns
	v.ifMay("GET /v1/concerns", "/v1/concerns", &wrong)
	d.NoRole = wrong != nil && slices.ContainsFunc(wrong.Concerns, func(c api.Concern) bool { return c.Code == "no_delivery_role" })
	if err := v.shared(link("/v1/dead", "limit", strconv.Itoa(lettersShown), "group", d.Of, "cursor", v.Query("cursor")), &d.Letters); err != nil {
		return nil, err
	}
	if d.Page = v.Query("cursor") != ""; d.Letters.Next != "" {
		d.Next = v.With("cursor", d.Letters.Next)
	}
	return d, nil
}

// segment returns a name as a part of a path of the API. A name of dots alone is escaped, because it
// would mean another folder.
func segment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// lettersRoute returns the route for a form's order, or an empty text.
func (v *visit) lettersRoute() (path, said string) {
	switch v.r.PostForm.Get("do") {
	case "replay":
		return "/v1/dead:replay", "replayed"
	case "drop":
		return "/v1/dead:drop", "dropped"
	}
	return "", ""
}

// unknownAction is the refusal of a form with an unknown order.
func (v *visit) unknownAction() error {
	return refusal(http.StatusUnprocessableEntity, v.lang.text("delivery.unknown"))
}

// doLetters replays the chosen letters, or drops them once the visitor has seen which they are.
func doLetters(v *visit) (string, error) {
	path, said := v.lettersRoute()
	if path == "" {
		return "", v.unknownAction()
	}
	back := local(v.r.PostForm.Get("back"))
	ids := v.r.PostForm["id"]
	if len(ids) == 0 {
		return withSaid(back, "none_chosen"), nil
	}
	if said == "dropped" && v.r.PostForm.Get("sure") == "" {
		return address("/delivery", url.Values{"drop": ids, "back": {back}}), nil
	}
	var done api.Replayed // the reply to a drop has all fields but the first
	if err := v.do(http.MethodPost, path, map[string]any{"ids": ids}, &done); err != nil {
		return "", err
	}
	switch {
	case done.NoGroup > 0:
		said = "no_group"
	case done.NotFound > 0:
		said += "_some"
	}
	return withSaid(back, said), nil
}

// doAllLetters replays or drops all letters of a group, for a while.
func doAllLetters(v *visit) (string, error) {
	path, said := v.lettersRoute()
	group := v.r.PostForm.Get("group")
	if path == "" || group == "" {
		return "", v.unknownAction()
	}
	back := link("/delivery", "group", group)
	for body, began := map[string]any{"group": group}, time.Now(); ; {
		var done api.Replayed // the reply to a drop has all fields but the first
		if err := v.do(http.MethodPost, path, body, &done); err != nil {
			return "", err
		}
		switch {
		case done.NoGroup > 0:
			return withSaid(back, "no_group"), nil
		case done.Next == "":
			return withSaid("/delivery", said), nil
		case time.Since(began) > lettersTime || v.r.Context().Err() != nil:
			return withSaid(back, said+"_more"), nil
		}
		body["cursor"] = done.Next
	}
}

// withSaid returns an address with the message that the page there shows first.
func withSaid(to, key string) string {
	u, err := url.Parse(to)
	if err != nil {
		return "/"
	}
	q := u.Query()
	q.Set("said", key)
	return address(u.Path, q)
}

// letterPage shows one dead letter.
func letterPage() *page {
	return &page{name: "letter", path: "/delivery/letter", menu: "delivery", data: func(v *visit) (any, error) {
		id := v.Query("id")
		if !refPattern.MatchString(id) {
			return nil, refusal(http.StatusNotFound, v.lang.text("letter.none"))
		}
		l := &letter{}
		return l, v.get("/v1/dead/"+id, l)
	}}
}

// webhookPage shows one webhook endpoint, and its waiting messages.
func webhookPage() *page {
	return &page{name: "webhook", path: "/delivery/webhook", menu: "delivery", data: func(v *visit) (any, error) {
		return showWebhook(v, v.Query("name"))
	}, actions: map[string]action{changeEndpointPath: doChangeEndpoint}}
}

func showWebhook(v *visit, name string) (*webhook, error) {
	w := &webhook{Skip: v.Query("skip")}
	at := "/v1/webhooks/" + segment(name)
	if err := v.get(at, w); err != nil {
		return w, err
	}
	w.Form = formOf(v, &w.Webhook)
	var tried struct{ Attempts []webhookAttempt }
	err := v.get(at+"/attempts", &tried)
	w.Attempts = tried.Attempts
	return w, err
}

// Due returns when a message is tried again: while the breaker is open, no message is.
func (w *webhook) Due(next time.Time) time.Time {
	if w.Standing != nil && w.Standing.Breaker == "open" && w.Standing.BreakerUntil.After(next) {
		return w.Standing.BreakerUntil
	}
	return next
}

// First returns the first message of an account that waits for the endpoint, or nil if none does.
func (w *webhook) First(account string) *api.WebhookWaiting {
	if w.Standing != nil {
		for i := range w.Standing.Waiting {
			if one := &w.Standing.Waiting[i]; one.Account == account {
				return one
			}
		}
	}
	return nil
}

// stillFirst reports whether a message, as its page's address names it, is still the first one of an
// account that waits for an endpoint.
func (v *visit) stillFirst(endpoint, account, at string) (bool, error) {
	var w webhook
	if err := v.get("/v1/webhooks/"+segment(endpoint), &w); err != nil {
		return false, err
	}
	first := w.First(account)
	return first != nil && fmt.Sprintf("%d:%s", first.Shard, first.Position) == at, nil
}

// doWebhook retries or skips an endpoint's waiting messages, or enables the endpoint.
func doWebhook(v *visit) (string, error) {
	form := v.r.PostForm
	name, do, body := form.Get("name"), form.Get("do"), map[string]any{}
	if account := form.Get("account"); account != "" {
		body["account"] = account
	}
	said := map[string]string{"retry": "retried", "skip": "skipped", "enable": "enabled"}[do]
	if said == "" || name == "" {
		return "", v.unknownAction()
	}
	switch {
	case do == "skip" && len(body) == 0:
		body["all"] = true
	case do == "skip": // the message that the visitor saw, and no later one
		switch same, err := v.stillFirst(name, form.Get("account"), form.Get("at")); {
		case err != nil:
			return "", err
		case !same:
			return link("/delivery/webhook", "name", name, "said", "not_skipped"), nil
		}
	}
	var sent any = body
	if do == "enable" {
		sent = nil
	}
	if err := v.do(http.MethodPost, "/v1/webhooks/"+segment(name)+"/"+do, sent, nil); err != nil {
		return "", err
	}
	return link("/delivery/webhook", "name", name, "said", said), nil
}

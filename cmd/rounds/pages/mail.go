package pages

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
	"github.com/rounds-dev/rounds/cmd/rounds/signin"
)

// These are the paths where the sign-in of mailboxes is begun and followed, and where a provider
// sends the browser back to.
const (
	mailPath     = "/account/mail"
	mailCodePath = "/account/mail/code"
	mailBackPath = "/account/mail/back"

	mailKind  = "imap"
	graphKind = "graph"
	mailRoute = "POST /v1/mail/logins"

	// mailCookie begins the names of the cookies that store sign-ins' names; see loginCookie.
	mailCookie = "rounds_mail_"
)

// mailFields are the fields of the form.
var mailFields = []string{"id", "provider", "user", "host", "cadence", "labels"}

// providersOf are the providers that a form offers, with the servers by which an account shows that
// it is at one.
var providersOf = [][2]string{{"google", "imap.gmail.com"}, {"microsoft", "outlook.office365.com"}}

// MayMail reports whether the visitor may sign mailboxes in.
func (v *visit) MayMail() bool { return v.May(mailRoute) }

// mailForm is what the page shows before a provider is asked.
type mailForm struct{ *signingIn }

// Providers returns the providers to choose from. Others are typed in.
func (mailForm) Providers() (names []string) {
	for _, p := range providersOf {
		names = append(names, p[0])
	}
	return names
}

func mailPage() *page {
	return &page{
		name: "mail", path: mailPath, menu: "accounts", actions: map[string]action{mailPath: beginMail},
		data: func(v *visit) (any, error) { return newMailForm(v, v.Query("id"), url.Values{"id": {v.Query("id")}}) },
	}
}

// newMailForm returns the form for an account with an id, which is empty for an account that is not
// named yet.
func newMailForm(v *visit, id string, values url.Values) (mailForm, error) {
	if !v.MayMail() {
		return mailForm{}, refusal(http.StatusForbidden, v.lang.text("mail.forbidden"))
	}
	s := &signingIn{ID: id, Values: values, Faults: make(map[string]string), Back: "/accounts", fields: mailFields}
	form := mailForm{s}
	if id == "" {
		return form, nil
	}
	var there api.Account
	switch err := v.get(accountPath(id), &there); {
	case refusedFor(err, http.StatusNotFound, http.StatusUnprocessableEntity) != nil:
		return form, nil // the API judges an invalid id
	case err != nil:
		return form, err
	case there.Kind != mailKind:
		s.Faults["id"] = v.lang.text("weixin.kind")
		return form, nil
	}
	s.Again, s.Back = true, link("/account", "id", id)
	if provider, _ := providerOf(&there); provider != "" && !values.Has("provider") {
		values.Set("provider", provider)
	}
	return form, nil
}

// providerOf returns the provider of a mailbox, if its server tells that, and reports whether the
// account is signed in.
func providerOf(a *api.Account) (provider string, signedIn bool) {
	var config struct {
		Host  string          `json:"host"`
		OAuth json.RawMessage `json:"oauth"`
	}
	if a.Kind != mailKind && a.Kind != graphKind || json.Unmarshal(a.Config, &config) != nil {
		return "", false
	}
	if a.Kind == graphKind {
		return "microsoft", len(config.OAuth) > 0
	}
	for _, p := range providersOf {
		if config.Host == p[1] {
			provider = p[0]
		}
	}
	return provider, len(config.OAuth) > 0
}

// SignsIn reports whether the account is a mailbox that is signed in, or could be.
func (a *oneAccount) SignsIn() bool {
	provider, signedIn := providerOf(&a.Record)
	return provider != "" || signedIn
}

// beginMail asks a provider where to consent.
func beginMail(v *visit) (string, error) {
	posted := v.r.PostForm
	s, err := newMailForm(v, posted.Get("id"), posted)
	if err != nil {
		return "", err
	}
	var l api.MailLogin
	sent := map[string]any{"id": posted.Get("id"), "redirect_uri": v.backFromMail()}
	if err := s.begin(v, s, "/v1/mail/logins", sent, []string{"provider", "user", "host", "cadence"}, &l); err != nil {
		return "", err
	}
	at := digestOf(l.Login)
	if state := stateOf(l.Page); l.UserCode == "" && state != "" {
		at = digestOf(state) // by which mailBack finds it
	}
	v.setMail(at, l.Login, loginLasts)
	return link(mailCodePath, "at", at), nil
}

// backFromMail returns where a provider sends this browser back to.
func (v *visit) backFromMail() string {
	scheme := "https"
	if signin.Loopback(v.r.Host) {
		scheme = "http"
	}
	return scheme + "://" + v.r.Host + mailBackPath
}

// stateOf returns the parameter state of a provider's page.
func stateOf(page string) string {
	u, err := url.Parse(page)
	if err != nil {
		return ""
	}
	return u.Query().Get("state")
}

func (v *visit) setMail(at, name string, lasts int) {
	http.SetCookie(v.out, &http.Cookie{
		Name: mailCookie + at, Value: name, Path: "/", MaxAge: lasts, HttpOnly: true, Secure: !signin.Loopback(v.r.Host), SameSite: http.SameSiteStrictMode,
	})
}

// mailOf returns the name of the sign-in with a text in the address, or "".
func (v *visit) mailOf(at string) string {
	c, err := v.r.Cookie(mailCookie + at)
	if err != nil {
		return ""
	}
	return c.Value
}

// mailLoginPath returns the API's path of a sign-in.
func mailLoginPath(name string) string { return "/v1/mail/logins/" + url.PathEscape(name) }

// mailing is what the page of a sign-in shows.
type mailing struct {
	Login api.MailLogin
	Gone  bool // there is no such sign-in, or another browser has begun it
}

// Open reports whether the sign-in goes on.
func (m *mailing) Open() bool { return !m.Gone && m.Login.State == mailbox.Waiting }

// Done reports whether the account is registered.
func (m *mailing) Done() bool { return !m.Gone && m.Login.State == mailbox.Done }

func mailCodePage() *page {
	return &page{
		name: "mailcode", path: mailCodePath, menu: "accounts", scripts: []string{"scan.js"}, data: showMail,
		actions: map[string]action{mailCodePath + "/abandon": abandonMail},
	}
}

// mailBackPage is where a provider sends the browser back to. It shows nothing, and leads on.
func mailBackPage() *page {
	return &page{name: "mailback", path: mailBackPath, menu: "accounts", data: mailBack}
}

// mailBack passes on what the provider has added to the address.
func mailBack(v *visit) (any, error) {
	if !v.MayMail() {
		return nil, refusal(http.StatusForbidden, v.lang.text("mail.forbidden"))
	}
	state := v.Query("state")
	at := digestOf(state)
	name := v.mailOf(at)
	here := link(mailCodePath, "at", at)
	if state == "" || name == "" {
		return nil, &moved{here} // the page there says that it is gone
	}
	sent := map[string]string{"state": state}
	for _, field := range []string{"code", "iss"} {
		if value := v.Query(field); value != "" {
			sent[field] = value
		}
	}
	err := v.do(http.MethodPost, mailLoginPath(name)+"/code", sent, nil)
	if err != nil && (refusedFor(err) == nil || refusedFor(err, http.StatusForbidden) != nil) {
		return nil, err
	}
	return nil, &moved{here} // the page there says what the trouble is
}

// showMail looks at a sign-in without waiting. The page of a finished one leads to its account.
func showMail(v *visit) (any, error) {
	if !v.MayMail() {
		return nil, refusal(http.StatusForbidden, v.lang.text("mail.forbidden"))
	}
	m := &mailing{}
	name := v.mailOf(v.Query("at"))
	if name == "" {
		m.Gone = true
		return m, nil
	}
	switch err := v.get(mailLoginPath(name)+"?hold=0", &m.Login); {
	case refusedFor(err, http.StatusNotFound) != nil:
		m.Gone = true
	case refusedFor(err, http.StatusConflict, http.StatusBadGateway) != nil:
		m.Login = api.MailLogin{State: mailbox.Waiting, Trouble: refusedFor(err).Detail}
	case err != nil:
		return nil, err
	case m.Done() && !v.lives():
		v.setMail(v.Query("at"), "", -1)
		return nil, &moved{link("/account", "id", m.Login.Account, "said", "scan.done")}
	}
	return m, nil
}

// abandonMail ends a sign-in. Nothing of it remains.
func abandonMail(v *visit) (string, error) {
	name := v.mailOf(v.Query("at"))
	if name == "" {
		return "/accounts", nil
	}
	err := v.do(http.MethodDelete, mailLoginPath(name), nil, nil)
	if err == nil {
		v.setMail(v.Query("at"), "", -1)
	}
	return link("/accounts", "said", "scan.abandoned"), err
}

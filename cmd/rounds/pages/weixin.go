package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// These are the paths where the sign-in of WeChat accounts is begun and followed.
const (
	weixinPath = "/account/weixin"
	scanPath   = "/account/weixin/code"

	weixinKind  = "weixin"
	weixinRoute = "POST /v1/weixin/logins"
)

// signingIn is what the page shows before a code is drawn.
type signingIn struct {
	Again  bool // the account exists, and stays with its id, cursor and history
	ID     string
	Values url.Values
	Faults map[string]string
	Others []*api.Fault
	Detail string // the refusal's detail
	Back   string
	fields []string // of the form
}

// Wrong returns the fields with faults, for the summary at the top of the form.
func (s *signingIn) Wrong() []string {
	return slices.DeleteFunc(slices.Clone(s.fields), func(name string) bool { return s.Faults[name] == "" })
}

// weixinFields are the fields of the form.
var weixinFields = []string{"id", "cadence", "labels", "base_url"}

func weixinPage() *page {
	return &page{
		name: "weixin", path: weixinPath, menu: "accounts", actions: map[string]action{weixinPath: beginScan},
		data: func(v *visit) (any, error) { return newSigningIn(v, v.Query("id"), url.Values{"id": {v.Query("id")}}) },
	}
}

// MayScan reports whether the visitor may sign WeChat accounts in.
func (v *visit) MayScan() bool { return v.May(weixinRoute) }

// newSigningIn returns the form for an account with an id, which is empty for an account that is
// not named yet.
func newSigningIn(v *visit, id string, values url.Values) (*signingIn, error) {
	if !v.MayScan() {
		return nil, refusal(http.StatusForbidden, v.lang.text("weixin.forbidden"))
	}
	s := &signingIn{ID: id, Values: values, Faults: make(map[string]string), Back: "/accounts", fields: weixinFields}
	if id == "" {
		return s, nil
	}
	var there api.Account
	switch err := v.get(accountPath(id), &there); {
	case refusedFor(err, http.StatusNotFound, http.StatusUnprocessableEntity) != nil:
		return s, nil // the API judges an invalid id
	case err != nil:
		return nil, err
	case there.Kind != weixinKind:
		s.Faults["id"] = v.lang.text("weixin.kind")
		return s, nil
	}
	s.Again, s.Back = true, link("/account", "id", id)
	return s, nil
}

// beginScan draws a code.
func beginScan(v *visit) (string, error) {
	posted := v.r.PostForm
	id := posted.Get("id")
	s, err := newSigningIn(v, id, posted)
	if err != nil {
		return "", err
	}
	var l api.Login
	if err := s.begin(v, s, "/v1/weixin/logins", map[string]any{"id": id}, []string{"cadence", "base_url"}, &l); err != nil {
		return "", err
	}
	return link(scanPath, "at", v.storeLogin(l.Login)), nil
}

// begin begins a sign-in with what was posted: the named fields that are filled in, and the labels. form
// is the page's data if it is shown again.
func (s *signingIn) begin(v *visit, form any, path string, sent map[string]any, names []string, reply any) error {
	posted := v.r.PostForm
	for _, name := range names {
		if value := strings.TrimSpace(posted.Get(name)); value != "" {
			sent[name] = value
		}
	}
	labels, faults := labelsOf(posted)
	if len(labels) > 0 {
		sent["labels"] = labels
	}
	for _, f := range faults {
		s.Faults["labels"] = v.lang.text("edit.nolabel", f.Message)
	}
	if len(s.Faults) > 0 {
		return &again{status: http.StatusUnprocessableEntity, data: form}
	}
	err := v.do(http.MethodPost, path, sent, reply)
	switch refused := refusedFor(err); {
	case refusedFor(err, http.StatusForbidden) != nil:
		return err
	case refused != nil:
		s.blame(refused)
		return &again{status: refused.Status, data: form}
	}
	return err
}

// blame puts the API's faults at the fields to which they belong.
func (s *signingIn) blame(p *problem) {
	if len(p.Errors) == 0 {
		s.Detail = p.Detail
	}
	for _, f := range p.Errors {
		at := strings.TrimPrefix(f.Location, "body.")
		field, _, _ := strings.Cut(at, ".")
		switch {
		case s.Faults[field] != "":
			s.Faults[field] += "; " + f.Message
		case slices.Contains(s.fields, field):
			s.Faults[field] = f.Message
		default:
			s.Others = append(s.Others, &api.Fault{Location: at, Message: f.Message})
		}
	}
}

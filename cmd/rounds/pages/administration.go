package pages

import (
	"net/http"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const administrationPath = "/administration"

// usesLast is how long a live page shows how many accounts use a secret.
const usesLast = time.Minute

// administration is what those see who look after the service: who gets in, with what, and whether
// there is a backup.
type administration struct {
	Keys     api.KeyList
	Sessions *api.SessionList // nil: it is unknown now
	Secrets  *api.SecretList  // as Sessions
	Backups  *backups         // as Sessions

	Page bool   // this is not the first page of secrets
	Next string // the address of the next page of secrets

	New     *api.NewKey // the key that was just made: it is shown this once
	Form    keyForm
	Refused *problem // what is wrong with the form
}

// keyForm is the form that makes a key, as it was sent.
type keyForm struct{ Name, Role, Label, ExpiresIn string }

func administrationPage() *page {
	return &page{name: "administration", path: administrationPath, menu: "administration", data: showAdministration, actions: map[string]action{
		administrationPath + "/key":     doKey,
		administrationPath + "/session": doSession,
	}}
}

// showAdministration asks for everything that the page shows. Without the keys there is no page: who
// may not see them may see nothing else of it.
func showAdministration(v *visit) (any, error) {
	a := &administration{Form: keyForm{Role: "viewer"}}
	if err := v.get("/v1/keys", &a.Keys); err != nil {
		return nil, err
	}
	v.ifMay(backupRoute, "/v1/backup:last", &a.Backups)
	v.ifMay("GET /v1/sessions", "/v1/sessions", &a.Sessions)
	cursor := v.Query("cursor")
	if v.May("GET /v1/secrets") {
		_ = v.seldom(link("/v1/secrets", "cursor", cursor, "uses", "true"), "", usesLast, &a.Secrets) // as above
	}
	if a.Page = cursor != ""; a.Secrets != nil && a.Secrets.Next != "" {
		a.Next = v.With("cursor", a.Secrets.Next)
	}
	return a, nil
}

// Roles returns the roles that a key may have.
func (a *administration) Roles() []string {
	return []string{"viewer", "sender", "operator", "editor", "admin"}
}

// Lives returns how long a key may be valid.
func (a *administration) Lives() []string { return []string{"1d", "7d", "30d", "90d", "365d"} }

// doKey makes a key, and shows it this once, or revokes one.
func doKey(v *visit) (string, error) {
	form := v.r.PostForm
	switch form.Get("do") {
	case "revoke":
		if err := v.do(http.MethodDelete, "/v1/keys/"+segment(form.Get("name")), nil, nil); err != nil {
			return "", err
		}
		return withSaid(administrationPath, "administration.revoked"), nil
	case "create":
		f := keyForm{strings.TrimSpace(form.Get("name")), form.Get("role"), strings.TrimSpace(form.Get("label")), form.Get("expires_in")}
		body := api.KeyRequest{Name: f.Name, Role: f.Role, ExpiresIn: f.ExpiresIn}
		if f.Label != "" {
			name, value, _ := strings.Cut(f.Label, "=")
			body.Labels = map[string]string{name: value}
		}
		made := new(api.NewKey)
		err := v.do(http.MethodPost, "/v1/keys", body, made)
		refused := refusedFor(err, http.StatusConflict, http.StatusUnprocessableEntity)
		if err != nil && refused == nil {
			return "", err
		}
		data, err := showAdministration(v)
		if err != nil {
			return "", err
		}
		shown := data.(*administration)
		if refused != nil {
			shown.Form, shown.Refused = f, refused
			return "", &again{refused.Status, shown}
		}
		// The key is in this reply alone, which no address leads to.
		shown.New = made
		return "", &again{http.StatusCreated, shown}
	}
	return "", v.unknownAction()
}

// doSession signs somebody out.
func doSession(v *visit) (string, error) {
	if err := v.do(http.MethodDelete, "/v1/sessions/"+segment(v.r.PostForm.Get("id")), nil, nil); err != nil {
		return "", err
	}
	return withSaid(administrationPath, "administration.ended"), nil
}

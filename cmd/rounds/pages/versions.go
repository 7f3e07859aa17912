package pages

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

const (
	versionsPath  = "/account/versions"
	versionsShown = 20
	versionText   = 2000 // characters of a value that the page shows
)

// recordVersions is what an account's record was before each change.
type recordVersions struct {
	ID       string
	Versions []recordVersion
	Restore  *restoring // the version that the visitor wants back; nil: none
	May      bool       // the visitor may have one back

	First, Older string // addresses of other pages; empty: there are none
}

// recordVersion is a record before a change, and the change.
type recordVersion struct {
	api.AccountVersion
	Shown []shownChange
	At    string // the address that asks for it; empty: it cannot be had back
}

// restoring asks whether to give a version back, and shows what that would change.
type restoring struct {
	Version string
	ETag    string
	Shown   []shownChange
	Refused *problem // why it cannot be had back
}

// shownChange is how a field differs between two versions.
type shownChange struct {
	Field         string
	Before, After string // empty: it was not there, or is not
}

// changesShown returns changes as the page shows them. Characters that reverse or hide others are
// escaped, so that readers see the true content.
func changesShown(all []api.FieldChange) []shownChange {
	shown := make([]shownChange, len(all))
	for i, c := range all {
		shown[i] = shownChange{terminal.Text(c.Field), valueShown(c.Before), valueShown(c.After)}
	}
	return shown
}

func valueShown(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil || strings.TrimSpace(text) == "" {
		text = string(value)
	}
	return terminal.Text(short(text, versionText))
}

func versionsPage() *page {
	return &page{name: "versions", path: versionsPath, menu: "accounts", data: showVersions, actions: map[string]action{versionsPath: restoreVersion}}
}

func showVersions(v *visit) (any, error) {
	id := v.Query("id")
	if id == "" {
		return nil, refusal(http.StatusNotFound, v.lang.text("account.none"))
	}
	all := &recordVersions{ID: id, May: v.May("POST /v1/accounts/{id}/restore")}
	var page api.AccountVersions
	if err := v.get(link(accountPath(id)+"/versions", "limit", strconv.Itoa(versionsShown), "cursor", v.Query("cursor")), &page); err != nil {
		return nil, err
	}
	for i := range page.Versions {
		one := recordVersion{AccountVersion: page.Versions[i], Shown: changesShown(page.Versions[i].Changes)}
		if all.May && one.Record != nil {
			one.At = link(versionsPath, "id", id, "restore", one.Version)
		}
		all.Versions = append(all.Versions, one)
	}
	if v.Query("cursor") != "" {
		all.First = link(versionsPath, "id", id)
	}
	if page.Next != "" {
		all.Older = link(versionsPath, "id", id, "cursor", page.Next)
	}
	if version := v.Query("restore"); version != "" && all.May {
		all.Restore = &restoring{Version: version}
		var would api.Restored
		header, err := v.exchange(http.MethodPost, accountPath(id)+"/restore", nil, api.RestoreRequest{Version: version, DryRun: true}, &would)
		if all.Restore.Refused = refusedFor(err, http.StatusNotFound, http.StatusUnprocessableEntity); err != nil && all.Restore.Refused == nil {
			return nil, err
		}
		all.Restore.ETag, all.Restore.Shown = header.Get("ETag"), changesShown(would.Changes)
	}
	return all, nil
}

// restoreVersion gives an account a version of its record back, if the record is still the one that
// the visitor saw.
func restoreVersion(v *visit) (string, error) {
	id, header := v.r.PostForm.Get("id"), http.Header{}
	if tag := v.r.PostForm.Get("etag"); tag != "" {
		header.Set("If-Match", tag)
	}
	_, err := v.exchange(http.MethodPost, accountPath(id)+"/restore", header, api.RestoreRequest{Version: v.r.PostForm.Get("version")}, nil)
	return link("/account", "id", id, "said", "versions.restored"), err
}

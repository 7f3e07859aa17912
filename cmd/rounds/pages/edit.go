package pages

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// These are the paths where accounts are added and edited.
const (
	newPath  = "/account/new"
	editPath = "/account/edit"
)

// priorityNames are the lanes.
var priorityNames = []string{"urgent", "normal", "low"}

// edited is what the form of an account shows.
type edited struct {
	New    bool
	ID     string
	Kind   *kind // nil: one must be chosen, or the process does not know it
	Kinds  []kind
	Values url.Values
	Fields []shownField

	JSON   bool   // the record is edited as JSON
	Text   string // the JSON
	Only   bool   // the form cannot express the record
	ETag   string
	Action string

	Faults    map[string]string // by field
	Others    []*api.Fault      // faults that belong to no field of the form
	Detail    string            // the refusal's detail
	Labels    string            // lines that are not labels
	Conflict  string            // the record after somebody else's change
	Tried     *api.Trial
	MayTry    bool
	MaySave   bool
	From      string
	Addresses struct{ Back string }
}

// shownField is a field of the config in the form.
type shownField struct {
	api.Field
	At      string // the name of its input
	Value   string
	User    string
	Secret  string
	Rows    []headerRow
	Wrong   string
	Title   string
	About   string
	Shows   string // an example, for an empty field
	Options []shownOption
}

// Open reports whether a field of several inputs is shown unfolded.
func (f shownField) Open() bool {
	return f.Required || f.Wrong != "" || f.User != "" || f.Secret != "" || len(f.Rows) > headerRows
}

// Input is the type of the field's input.
func (f shownField) Input() string {
	switch f.Type {
	case "url":
		return "url"
	case "number":
		return "number"
	}
	return "text"
}

type shownOption struct {
	Value, Title string
	On           bool
}

type headerRow struct {
	At, Name, Value string
	Secret          bool
}

func newPage() *page {
	return &page{name: "edit", path: newPath, menu: "accounts", data: showNew, actions: map[string]action{newPath: saveEdited}}
}

func editPage() *page {
	return &page{name: "edit", path: editPath, menu: "accounts", data: showEdit, actions: map[string]action{editPath: saveEdited}}
}

// newEdited returns the form for the account with an id, or for a new account if the id is empty.
func newEdited(v *visit, id string) (*edited, error) {
	e := &edited{New: id == "", ID: id, Faults: make(map[string]string), MayTry: v.May("POST /v1/accounts:check"), Values: url.Values{}}
	e.Action, e.MaySave = link(editPath, "id", id), v.May("PUT /v1/accounts/{id}")
	if e.New {
		e.Action, e.MaySave = newPath, v.May("POST /v1/accounts")
	}
	if !e.MaySave {
		return nil, refusal(http.StatusForbidden, v.lang.text("edit.forbidden"))
	}
	e.Addresses.Back = "/accounts"
	if !e.New {
		e.Addresses.Back = link("/account", "id", id)
	}
	var err error
	e.Kinds, err = v.kinds()
	return e, err
}

// of sets the kind.
func (e *edited) of(name string) {
	for i := range e.Kinds {
		if e.Kinds[i].Name == name {
			e.Kind = &e.Kinds[i]
		}
	}
}

func showNew(v *visit) (any, error) {
	e, err := newEdited(v, "")
	if err != nil {
		return nil, err
	}
	e.of(v.Query("kind"))
	if e.Kind == nil {
		return e, nil
	}
	e.Values.Set("kind", e.Kind.Name)
	e.Values.Set("id", v.Query("id"))
	e.From = "backfill"
	config := map[string]any{}
	if address := v.Query("url"); address != "" && e.Kind.has("url") {
		config["url"] = address
	}
	e.asJSON(v.Query("as") == "json" || len(e.Kind.Fields) == 0, record{"id": v.Query("id"), "kind": e.Kind.Name, "config": config})
	e.show(v)
	return e, nil
}

func showEdit(v *visit) (any, error) {
	id := v.Query("id")
	e, err := newEdited(v, id)
	if err != nil {
		return nil, err
	}
	r, err := e.load(v)
	if err != nil {
		return nil, err
	}
	e.of(plain(r["kind"]))
	e.asJSON(v.Query("as") == "json", r)
	e.show(v)
	return e, nil
}

// load gets the edited account, and its ETag.
func (e *edited) load(v *visit) (record, error) {
	var reply json.RawMessage
	header, err := v.exchange(http.MethodGet, accountPath(e.ID), nil, nil, &reply)
	if err != nil {
		return nil, err
	}
	e.ETag = header.Get("ETag")
	return recordOf(reply)
}

// asJSON sets how a record is edited: as JSON if that is wanted, or if the form cannot express the
// record.
func (e *edited) asJSON(wanted bool, r record) {
	whole := e.Kind != nil && len(e.Kind.Fields) > 0
	if whole {
		e.Values, whole = e.Kind.fill(r)
	}
	e.JSON, e.Only, e.Text = wanted || !whole, !whole, r.pretty()
}

// show prepares the fields for the template.
func (e *edited) show(v *visit) {
	if e.Kind == nil || e.JSON {
		return
	}
	e.Fields = v.shownFields(e.Kind.Fields, e.Values, e.Faults)
}

// shownFields returns the fields of a form with their values, and their faults by field.
func (v *visit) shownFields(fields []api.Field, values url.Values, faults map[string]string) []shownField {
	shown := make([]shownField, len(fields))
	for n, f := range fields {
		at := "config." + f.Name
		s := shownField{Field: f, At: at, Value: values.Get(at), User: values.Get(at + ".user"), Secret: values.Get(at + ".password"), Wrong: faults[at]}
		s.Title, s.About = v.lang.words(f.Label), v.lang.words(f.Help)
		switch s.Shows = plain(f.Example); f.Type {
		case "secret":
			s.Shows = secretOf(f.Example)
		case "texts":
			one := make(url.Values)
			fillField(one, &f, f.Example)
			s.Shows = one.Get(at)
		}
		for _, o := range f.Choices {
			value, err := encoded(o.Value)
			if err != nil {
				continue // what was decoded can be encoded
			}
			s.Options = append(s.Options, shownOption{Value: value, Title: v.lang.words(o.Label), On: value == s.Value})
		}
		if f.Type == "headers" {
			empty := headerRows
			for i := 0; empty > 0 && i < mostHeaders; i++ {
				row := at + "." + strconv.Itoa(i) + "."
				one := headerRow{row, values.Get(row + "name"), values.Get(row + "value"), values.Get(row+"secret") != ""}
				if one.Name == "" && one.Value == "" {
					empty--
				}
				s.Rows = append(s.Rows, one)
			}
		}
		shown[n] = s
	}
	return shown
}

// saveEdited tries or saves the form's record, or switches between form and JSON. If it is refused,
// the form is shown again as it was filled in.
func saveEdited(v *visit) (string, error) {
	posted := v.r.PostForm
	id := ""
	if v.r.URL.Path == editPath {
		id = v.Query("id")
	}
	e, err := newEdited(v, id)
	if err != nil {
		return "", err
	}
	e.of(posted.Get("kind"))
	e.ETag, e.JSON, e.Text, e.Values, e.From = posted.Get("etag"), posted.Get("as") == "json", posted.Get("record"), posted, posted.Get("from")
	var r record
	if e.JSON {
		if r, err = readRecord([]byte(e.Text)); err != nil {
			e.Others = []*api.Fault{{Message: v.lang.text("edit.nojson", err.Error())}}
			return "", e.again(v, http.StatusUnprocessableEntity)
		}
	} else if e.Kind != nil {
		var faults []*api.Fault
		if r, faults = e.Kind.record(posted); len(faults) > 0 {
			for _, f := range faults {
				key := "edit.noobject"
				if f.Location == "body.labels" {
					key = "edit.nolabel"
				}
				e.blame([]*api.Fault{{Location: f.Location, Message: v.lang.text(key, f.Message)}})
			}
			return "", e.again(v, http.StatusUnprocessableEntity)
		}
	} else {
		return "", refusal(http.StatusUnprocessableEntity, v.lang.text("edit.nokind"))
	}
	if !e.New {
		r["id"] = e.ID
	}
	switch posted.Get("do") {
	case "try":
		return "", e.try(v, r)
	case "json", "form":
		if e.of(plain(r["kind"])); e.Kind == nil && posted.Get("do") == "form" {
			e.Others = []*api.Fault{{Message: v.lang.text("edit.nokind")}}
		}
		e.asJSON(posted.Get("do") == "json", r)
		return "", e.again(v, http.StatusOK)
	}
	return e.save(v, r)
}

// again shows the form again.
func (e *edited) again(v *visit, status int) error {
	e.show(v)
	return &again{status: status, data: e}
}

// save registers or changes the account.
func (e *edited) save(v *visit, r record) (string, error) {
	header := http.Header{}
	method, path := http.MethodPost, "/v1/accounts"
	if e.New && e.From == "now" {
		path += "?from=now"
	}
	if !e.New {
		method, path = http.MethodPut, accountPath(e.ID)
		header.Set("If-Match", e.ETag)
	}
	var saved api.Account
	_, err := v.exchange(method, path, header, r, &saved)
	refused := refusedFor(err)
	switch {
	case err == nil:
		return link("/account", "id", saved.ID, "said", "edit.saved"), nil
	case refused == nil:
		return "", err
	case refused.Status == http.StatusPreconditionFailed:
		now, err := e.load(v)
		if err != nil {
			return "", err
		}
		e.Conflict = now.pretty()
		return "", e.again(v, refused.Status)
	case refused.Status == http.StatusConflict:
		e.Faults["id"] = v.lang.text("edit.taken")
		return "", e.again(v, refused.Status)
	}
	e.refuse(refused)
	return "", e.again(v, refused.Status)
}

// refuse shows why the API refused.
func (e *edited) refuse(p *problem) {
	if len(p.Errors) == 0 {
		e.Detail = p.Detail
	}
	e.blame(p.Errors)
}

// blame puts faults at the fields to which they belong. A field shows one fault of its own, and those
// of what is inside it. All others, and all faults of a record edited as JSON, are listed above the form.
func (e *edited) blame(faults []*api.Fault) {
	fields := []string{"id", "kind", "cadence", "priority", "retry_budget", "labels"}
	if e.Kind != nil {
		for _, f := range e.Kind.Fields {
			fields = append(fields, "config."+f.Name)
		}
	}
	for _, f := range faults {
		at := strings.TrimPrefix(strings.TrimPrefix(f.Location, "body."), "account.")
		i := slices.IndexFunc(fields, func(field string) bool { return at == field || strings.HasPrefix(at, field+".") })
		if e.JSON || i < 0 || e.Faults[fields[i]] != "" && at == fields[i] {
			e.Others = append(e.Others, &api.Fault{Location: at, Message: f.Message})
			continue
		}
		said := f.Message
		if inner := strings.TrimPrefix(at, fields[i]+"."); inner != at {
			said = inner + ": " + said
		}
		if before := e.Faults[fields[i]]; before != "" {
			said = before + "; " + said
		}
		e.Faults[fields[i]] = said
	}
}

// Wrong returns the fields with faults, for the summary at the top of the form.
func (e *edited) Wrong() []string { return slices.Sorted(maps.Keys(e.Faults)) }

// Priorities are the lanes.
func (e *edited) Priorities() []string { return priorityNames }

// try asks the API for a trial, and shows its report beside the form.
func (e *edited) try(v *visit, r record) error {
	e.Tried = new(api.Trial)
	err := v.do(http.MethodPost, "/v1/accounts:check", map[string]any{"account": r}, e.Tried)
	switch refused := refusedFor(err); {
	case refused != nil:
		e.Tried = nil
		e.refuse(refused)
		return e.again(v, refused.Status)
	case err != nil:
		return err
	}
	for _, page := range e.Tried.Pages {
		for i := range page.Messages {
			var lines bytes.Buffer
			if json.Indent(&lines, page.Messages[i].Data, "", "  ") == nil {
				page.Messages[i].Data = lines.Bytes()
			}
		}
	}
	return e.again(v, http.StatusOK)
}

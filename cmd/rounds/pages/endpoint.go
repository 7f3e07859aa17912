package pages

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	addEndpointPath    = "/delivery/endpoint"
	changeEndpointPath = "/delivery/webhook/change"
)

// endpointForm is the form that adds or changes an endpoint.
type endpointForm struct {
	Name, Type, Kinds, Types, Labels, When, Format, From string

	Events, NewKey bool
	Signs          bool // it has signing keys
	Revision       int64

	Own    []shownField // the fields of its type
	Others []string     // the types that it might have instead

	fields []api.Field
	values url.Values // of its type's fields
}

// Where says where the endpoint's messages go: the first of its type's fields.
func (f *endpointForm) Where() string {
	if len(f.Own) == 0 {
		return ""
	}
	return strings.Join(strings.Fields(f.Own[0].Value), ", ")
}

// endpointFormOf returns the form as it was sent.
func endpointFormOf(v *visit) (*endpointForm, error) {
	text := func(name string) string { return strings.TrimSpace(v.r.PostForm.Get(name)) }
	revision, _ := strconv.ParseInt(text("revision"), 10, 64) // another text is no revision, and is refused
	f := &endpointForm{
		Name: text("name"), Type: text("type"), Kinds: text("kinds"), Types: text("types"), Labels: text("labels"), When: text("when"), Format: text("format"), From: text("from"),
		Events: text("events") != "", NewKey: text("new_key") != "", Revision: revision, values: v.r.PostForm,
	}
	return f, f.know(v)
}

// newEndpointForm returns the empty form for an endpoint of a type.
func newEndpointForm(v *visit, of string) *endpointForm {
	f := &endpointForm{Type: of, values: make(url.Values)}
	_ = f.know(v) // the page shows what it knows
	return f
}

// formOf returns the form with the fields of an endpoint.
func formOf(v *visit, w *api.Webhook) *endpointForm {
	var fields struct {
		Type, Format, When string
		Labels             access.Labels
		Kinds, Types       []string
		Events             bool
	}
	_ = json.Unmarshal(w.Fields, &fields) // of a later version: what cannot be read is left out
	f := &endpointForm{
		Name: w.Name, Type: fields.Type, Kinds: strings.Join(fields.Kinds, ", "), Types: strings.Join(fields.Types, ", "), Labels: fields.Labels.String(), When: fields.When, Format: fields.Format,
		Events: fields.Events, Revision: w.Revision, values: make(url.Values),
	}
	all := make(map[string]any)
	_, _ = decodeOne(w.Fields, &all)
	_, f.Signs = all["secrets"]
	_ = f.know(v) // the page shows what it knows
	for i := range f.fields {
		if value, ok := all[f.fields[i].Name]; ok {
			fillField(f.values, &f.fields[i], value)
		}
	}
	f.Own = v.shownFields(f.fields, f.values, nil)
	return f
}

// know completes the form with the fields of its type: the first of the process' types if it has none.
func (f *endpointForm) know(v *visit) error {
	var list api.WebhookTypeList
	if err := v.shared("/v1/webhooks:types", &list); err != nil {
		return err
	}
	for i := range list.Types {
		one := &list.Types[i]
		if f.Type == "" {
			f.Type = one.Name
		}
		if one.Name != f.Type {
			f.Others = append(f.Others, one.Name)
			continue
		}
		f.fields = one.Fields
	}
	f.Own = v.shownFields(f.fields, f.values, nil)
	return nil
}

// into sets the fields of the form, and leaves others as they are.
func (f *endpointForm) into(fields map[string]any) {
	list := func(text string) []string {
		return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == '，' || c == ' ' || c == '\n' || c == '\r' })
	}
	kinds, types := list(f.Kinds), list(f.Types)
	labels := make(map[string]string)
	for pair := range strings.SplitSeq(f.Labels, ",") {
		if name, value, _ := strings.Cut(strings.TrimSpace(pair), "="); name != "" {
			labels[name] = value
		}
	}
	put := func(name string, value any, given bool) {
		if given {
			fields[name] = value
		} else {
			delete(fields, name)
		}
	}
	put("kinds", kinds, len(kinds) > 0)
	put("types", types, len(types) > 0)
	put("labels", labels, len(labels) > 0)
	put("when", f.When, f.When != "")
	put("format", f.Format, f.Format != "")
	put("events", true, f.Events)
	put("from", f.From, f.From != "")
	put("new_key", true, f.NewKey)
	put("type", f.Type, f.Type != "")
	for i := range f.fields {
		value, err := fieldValue(f.values, &f.fields[i])
		if err != nil { // a choice that the page does not have, for the API to refuse
			value = f.values.Get("config." + f.fields[i].Name)
		}
		put(f.fields[i].Name, value, value != nil)
	}
}

// storeEndpoint stores an endpoint under a condition.
func (v *visit) storeEndpoint(name string, fields map[string]any, header, value string) (*api.WebhookStored, error) {
	stored := new(api.WebhookStored)
	_, err := v.exchange(http.MethodPut, "/v1/webhooks/"+segment(cmp.Or(name, " ")), http.Header{header: {value}}, fields, stored)
	return stored, err
}

// refusedFields are the statuses with which the API refuses what a form says.
func refusedFields(err error) *problem {
	return refusedFor(err, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusPreconditionFailed)
}

// doAddEndpoint adds an endpoint, and shows its signing key this once.
func doAddEndpoint(v *visit) (string, error) {
	f, err := endpointFormOf(v)
	if err != nil {
		return "", err
	}
	fields := make(map[string]any)
	f.into(fields)
	stored, err := v.storeEndpoint(f.Name, fields, "If-None-Match", "*")
	refused := refusedFields(err)
	if err != nil && refused == nil {
		return "", err
	}
	data, err := showDelivery(v)
	if err != nil {
		return "", err
	}
	shown := data.(*delivery)
	if refused != nil {
		shown.Form, shown.Refused = f, refused
		return "", &again{refused.Status, shown}
	}
	// The key is in this reply alone, which no address leads to.
	shown.New = stored
	return "", &again{http.StatusCreated, shown}
}

// doChangeEndpoint changes, tests or removes an endpoint.
func doChangeEndpoint(v *visit) (string, error) {
	name := v.r.PostForm.Get("name")
	path := "/v1/webhooks/" + segment(cmp.Or(name, " "))
	switch v.r.PostForm.Get("do") {
	case "test":
		tested := new(api.WebhookTested)
		if err := v.do(http.MethodPost, path+"/test", nil, tested); err != nil {
			return "", err
		}
		w, err := showWebhook(v, name)
		if err != nil {
			return "", err
		}
		w.Tested = tested
		return "", &again{http.StatusOK, w}
	case "remove":
		if v.r.PostForm.Get("keep") != "" {
			path += "?keep_position=true"
		}
		done := new(api.WebhookRemoved)
		if err := v.do(http.MethodDelete, path, nil, done); err != nil {
			return "", err
		}
		if v.r.PostForm.Get("keep") == "" && !done.PositionForgotten {
			return withSaid("/delivery", "endpoint.removed_position"), nil
		}
		return withSaid("/delivery", "endpoint.removed"), nil
	case "change":
		return changeEndpoint(v, name)
	}
	return "", v.unknownAction()
}

func changeEndpoint(v *visit, name string) (string, error) {
	f, err := endpointFormOf(v)
	if err != nil {
		return "", err
	}
	var now api.Webhook
	if err := v.get("/v1/webhooks/"+segment(name), &now); err != nil {
		return "", err
	}
	fields := make(map[string]any)
	if len(now.Fields) > 0 {
		if err := json.Unmarshal(now.Fields, &fields); err != nil {
			return "", err
		}
	}
	f.into(fields)
	stored, err := v.storeEndpoint(name, fields, "If-Match", `"`+strconv.FormatInt(f.Revision, 10)+`"`)
	refused := refusedFields(err)
	if err != nil && refused == nil {
		return "", err
	}
	w, err := showWebhook(v, name)
	if err != nil {
		return "", err
	}
	if refused != nil {
		f.Signs = w.Form.Signs
		w.Form, w.Refused = f, refused
		return "", &again{refused.Status, w}
	}
	if stored.SigningKey == "" {
		return link("/delivery/webhook", "name", name, "said", "endpoint.changed"), nil
	}
	w.New = stored
	return "", &again{http.StatusOK, w}
}

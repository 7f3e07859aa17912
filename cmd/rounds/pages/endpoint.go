package pages

import (
	"cmp"
	"encoding/json"
	"net/http"
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
	Name, URL, Kinds, Types, Labels, When, Format, From string

	Events, Ordered, NewKey bool
	Revision                int64
}

// endpointFormOf returns the form as it was sent.
func endpointFormOf(v *visit) endpointForm {
	text := func(name string) string { return strings.TrimSpace(v.r.PostForm.Get(name)) }
	revision, _ := strconv.ParseInt(text("revision"), 10, 64) // another text is no revision, and is refused
	return endpointForm{
		Name: text("name"), URL: text("url"), Kinds: text("kinds"), Types: text("types"), Labels: text("labels"), When: text("when"), Format: text("format"), From: text("from"),
		Events: text("events") != "", Ordered: text("ordered") != "", NewKey: text("new_key") != "", Revision: revision,
	}
}

// formOf returns the form with the fields of an endpoint.
func formOf(w *api.Webhook) endpointForm {
	var fields struct {
		URL, Format     string
		When            string
		Labels          access.Labels
		Kinds, Types    []string
		Events, Ordered bool
	}
	_ = json.Unmarshal(w.Fields, &fields) // of a later version: what cannot be read is left out
	return endpointForm{
		Name: w.Name, URL: fields.URL, Kinds: strings.Join(fields.Kinds, ", "), Types: strings.Join(fields.Types, ", "), Labels: fields.Labels.String(), When: fields.When, Format: fields.Format,
		Events: fields.Events, Ordered: fields.Ordered, Revision: w.Revision,
	}
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
	for _, field := range []struct {
		name  string
		value any
		given bool
	}{
		{"url", f.URL, true}, {"kinds", kinds, len(kinds) > 0}, {"types", types, len(types) > 0}, {"labels", labels, len(labels) > 0}, {"when", f.When, f.When != ""}, {"format", f.Format, f.Format != ""},
		{"events", true, f.Events}, {"ordered", true, f.Ordered}, {"from", f.From, f.From != ""}, {"new_key", true, f.NewKey},
	} {
		if field.given {
			fields[field.name] = field.value
		} else {
			delete(fields, field.name)
		}
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
	f := endpointFormOf(v)
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
	f := endpointFormOf(v)
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
		w.Form, w.Refused = f, refused
		return "", &again{refused.Status, w}
	}
	if stored.SigningKey == "" {
		return link("/delivery/webhook", "name", name, "said", "endpoint.changed"), nil
	}
	w.New = stored
	return "", &again{http.StatusOK, w}
}

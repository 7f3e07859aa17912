package pages

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

// kind is a kind of accounts and the fields of its config.
type kind struct{ api.Kind }

// has reports whether the config of the kind has a field.
func (k *kind) has(name string) bool {
	return slices.ContainsFunc(k.Fields, func(f api.Field) bool { return f.Name == name })
}

// kinds returns the kinds that the process knows.
func (v *visit) kinds() ([]kind, error) {
	var list struct {
		Kinds []kind `json:"kinds"`
	}
	err := v.shared("/v1/kinds", &list)
	return list.Kinds, err
}

// recordFields are the fields of a record that the form has besides the config's.
var recordFields = []string{"id", "kind", "config", "cadence", "priority", "retry_budget", "on_unknown", "labels"}

// headerRows is how many empty rows for headers a form has, and mostHeaders the most rows that
// are read.
const (
	headerRows  = 2
	mostHeaders = 64
)

// record is an account's record as decoded from JSON. Numbers are json.Number.
type record map[string]any

// readRecord decodes a record.
func readRecord(text []byte) (record, error) {
	var r record
	d, err := decodeOne(text, &r)
	if err != nil {
		return nil, err
	}
	if r == nil || d.More() {
		return nil, errors.New("one object is expected")
	}
	return r, nil
}

// decodeOne decodes a value, with its numbers as json.Number. The decoder has what follows it.
func decodeOne(text []byte, into any) (*json.Decoder, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d, d.Decode(into)
}

// recordOf returns the record of an account: the API's reply without the state.
func recordOf(reply json.RawMessage) (record, error) {
	all, err := readRecord(reply)
	if err != nil {
		return nil, err
	}
	r := make(record)
	for _, name := range recordFields {
		if value, ok := all[name]; ok {
			r[name] = value
		}
	}
	return r, nil
}

// fill returns the values of a form for a record of a kind. It returns false if the form cannot
// express the record.
func (k *kind) fill(r record) (url.Values, bool) {
	values := url.Values{}
	for _, name := range []string{"id", "kind", "cadence", "priority", "retry_budget", "on_unknown"} {
		if value, ok := r[name]; ok {
			values.Set(name, plain(value))
		}
	}
	labels, _ := r["labels"].(map[string]any)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		lines = append(lines, name+"="+plain(labels[name]))
	}
	values.Set("labels", strings.Join(lines, "\n"))
	config, _ := r["config"].(map[string]any)
	for i := range k.Fields {
		if value, ok := config[k.Fields[i].Name]; ok {
			fillField(values, &k.Fields[i], value)
		}
	}
	lists := map[string]bool{"labels": true}
	for i := range k.Fields {
		lists["config."+k.Fields[i].Name] = k.Fields[i].Type == "texts"
	}
	for name, all := range values {
		// An input of one line would lose line breaks.
		if !lists[name] && slices.ContainsFunc(all, func(value string) bool { return strings.ContainsAny(value, "\r\n") }) {
			return values, false
		}
	}
	back, _ := k.record(values)
	return values, same(back, r)
}

// plain returns a value that is not an object as a text.
func plain(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case json.Number:
		return value.String()
	}
	return ""
}

// fillField sets the values of one field.
func fillField(values url.Values, f *api.Field, value any) {
	at := "config." + f.Name
	switch f.Type {
	case "secret":
		values.Set(at, secretOf(value))
	case "login":
		login, _ := value.(map[string]any)
		values.Set(at+".user", plain(login["user"]))
		values.Set(at+".password", secretOf(login["password"]))
	case "headers":
		headers, _ := value.(map[string]any)
		for i, name := range slices.Sorted(maps.Keys(headers)) {
			row := at + "." + strconv.Itoa(i) + "."
			values.Set(row+"name", name)
			if text, ok := headers[name].(string); ok {
				values.Set(row+"value", text)
				continue
			}
			values.Set(row+"value", secretOf(headers[name]))
			values.Set(row+"secret", "on")
		}
	case "texts":
		all, _ := value.([]any)
		lines := make([]string, len(all))
		for i := range all {
			lines[i] = plain(all[i])
		}
		values.Set(at, strings.Join(lines, "\n"))
	case "choice", "object":
		text, _ := encoded(value)
		values.Set(at, text)
	default:
		values.Set(at, plain(value))
	}
}

// encoded returns a value as JSON, without escapes for HTML.
func encoded(value any) (string, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return strings.TrimSpace(out.String()), err
}

func secretOf(value any) string {
	ref, _ := value.(map[string]any)
	return plain(ref["secret"])
}

func refOf(name string) map[string]any { return map[string]any{"secret": name} }

// record returns the record that a form describes, and the faults of texts that JSON cannot hold.
// The API judges everything else.
func (k *kind) record(values url.Values) (record, []*api.Fault) {
	r := record{"id": values.Get("id"), "kind": k.Name}
	var faults []*api.Fault
	for _, name := range []string{"cadence", "priority", "on_unknown"} {
		if value := strings.TrimSpace(values.Get(name)); value != "" {
			r[name] = value
		}
	}
	if text := strings.TrimSpace(values.Get("retry_budget")); text != "" {
		r["retry_budget"] = numberOf(text)
	}
	labels, wrong := labelsOf(values)
	faults = append(faults, wrong...)
	if len(labels) > 0 {
		r["labels"] = labels
	}
	config := make(map[string]any)
	for i := range k.Fields {
		f := &k.Fields[i]
		value, err := fieldValue(values, f)
		if err != nil {
			faults = append(faults, &api.Fault{Location: "body.config." + f.Name, Message: err.Error()})
		}
		if value != nil {
			config[f.Name] = value
		}
	}
	if len(config) > 0 {
		r["config"] = config
	}
	return r, faults
}

// labelsOf returns the labels of a form, and the lines that are not labels.
func labelsOf(values url.Values) (map[string]any, []*api.Fault) {
	var faults []*api.Fault
	labels := make(map[string]any)
	for line := range strings.Lines(values.Get("labels")) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if _, twice := labels[name]; !ok || twice {
			faults = append(faults, &api.Fault{Location: "body.labels", Message: line})
			continue
		}
		labels[name] = value
	}
	return labels, faults
}

// numberOf returns a number for JSON, or the text, which the API then refuses.
func numberOf(text string) any {
	if _, err := strconv.ParseInt(text, 10, 64); err != nil {
		return text
	}
	return json.Number(text)
}

// fieldValue returns the config's value for a field of a form, or nil if the config leaves it out.
func fieldValue(values url.Values, f *api.Field) (any, error) {
	at := "config." + f.Name
	text := values.Get(at)
	switch f.Type {
	case "login":
		user, password := values.Get(at+".user"), values.Get(at+".password")
		if user == "" && password == "" {
			return nil, nil
		}
		login := make(map[string]any)
		if user != "" {
			login["user"] = user
		}
		if password != "" {
			login["password"] = refOf(password)
		}
		return login, nil
	case "headers":
		headers := make(map[string]any)
		for i := range mostHeaders {
			row := at + "." + strconv.Itoa(i) + "."
			name, value := values.Get(row+"name"), values.Get(row+"value")
			switch {
			case name == "" && value == "":
			case values.Get(row+"secret") != "":
				headers[name] = refOf(value)
			default:
				headers[name] = value
			}
		}
		if len(headers) == 0 {
			return nil, nil
		}
		return headers, nil
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	switch f.Type {
	case "secret":
		return refOf(text), nil
	case "texts":
		var lines []any
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
				lines = append(lines, line)
			}
		}
		return lines, nil
	case "number":
		return numberOf(strings.TrimSpace(text)), nil
	case "choice", "object":
		var value any
		if _, err := decodeOne([]byte(text), &value); err != nil {
			return nil, err
		}
		return value, nil
	}
	return text, nil
}

// same reports whether two records mean the same. An empty field counts as a missing one.
func same(a, b record) bool {
	without := func(r record) record {
		r = maps.Clone(r)
		maps.DeleteFunc(r, func(name string, value any) bool {
			object, ok := value.(map[string]any)
			return value == nil || value == "" || ok && len(object) == 0
		})
		return r
	}
	return reflect.DeepEqual(without(a), without(b))
}

// pretty returns a record for people to edit: its fields in the order of recordFields.
// Characters that reverse or hide others are escaped as in JSON.
func (r record) pretty() string {
	var out strings.Builder
	out.WriteString("{")
	names := slices.Clone(recordFields)
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	first := true
	for _, name := range names {
		value, ok := r[name]
		if !ok {
			continue
		}
		if !first {
			out.WriteString(",")
		}
		first = false
		text, err := encoded(value)
		var shown bytes.Buffer
		if err != nil || json.Indent(&shown, []byte(text), "  ", "  ") != nil {
			continue // what was decoded can be encoded
		}
		key, _ := encoded(name)
		out.WriteString("\n  " + key + ": " + shown.String())
	}
	out.WriteString("\n}")
	return terminal.Text(out.String())
}

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/callback"
	"github.com/rounds-dev/rounds/poller/websub"
)

// description is the part of an API description that lint checks.
type description struct {
	Info struct {
		Title, Version, Description string
		License                     struct{ Name, Identifier string }
	}
	Servers    []struct{ URL string }
	Security   []map[string][]string
	Tags       []struct{ Name, Description string }
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas         map[string]json.RawMessage
		SecuritySchemes map[string]json.RawMessage
	}
}

// described is one operation of a description.
type described struct {
	OperationID string
	Summary     string
	Tags        []string
	Security    []map[string][]string
	Parameters  []struct {
		Name, In string
		Required bool
	}
	Responses map[string]struct{ Description string }
}

// lint returns the faults by the rules that redocly's lint recommends, as far as a
// description made by huma could break them.
func lint(text []byte) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	var d description
	if err := json.Unmarshal(text, &d); err != nil {
		return []string{err.Error()}
	}
	if d.Info.Title == "" || d.Info.Version == "" || d.Info.Description == "" || d.Info.License.Name == "" || d.Info.License.Identifier != "Apache-2.0" {
		fault("info lacks something: %+v", d.Info)
	}
	if len(d.Servers) == 0 || d.Servers[0].URL == "" || strings.Contains(d.Servers[0].URL, "example.com") {
		fault("servers: %v", d.Servers)
	}
	tags := make(map[string]bool)
	for _, tag := range d.Tags {
		if tag.Description == "" || tags[tag.Name] {
			fault("tag %s has no description, or is there twice", tag.Name)
		}
		tags[tag.Name] = true
	}
	ids, shapes := make(map[string]bool), make(map[string]string)
	parameter := regexp.MustCompile(`\{([^}]*)\}`)
	for path, operations := range d.Paths {
		shape := parameter.ReplaceAllString(path, "{}")
		if other, ok := shapes[shape]; ok || strings.HasSuffix(path, "/") || strings.Contains(path, "?") {
			fault("%s: is ambiguous with %q, or ends with a slash, or has a query", path, other)
		}
		shapes[shape] = path
		for method, raw := range operations {
			var o described
			if err := json.Unmarshal(raw, &o); err != nil {
				fault("%s %s: %v", method, path, err)
				continue
			}
			where := method + " " + path
			if o.Summary == "" || o.OperationID == "" || ids[o.OperationID] || regexp.MustCompile(`[^A-Za-z0-9._~-]`).MatchString(o.OperationID) {
				fault("%s: operationId %q or summary %q", where, o.OperationID, o.Summary)
			}
			ids[o.OperationID] = true
			if len(o.Tags) != 1 || !tags[o.Tags[0]] {
				fault("%s: tags %v", where, o.Tags)
			}
			if len(o.Security) == 0 && len(d.Security) == 0 {
				fault("%s: nothing says who may", where)
			}
			for _, scheme := range slices.Concat(o.Security, d.Security) {
				for name := range scheme {
					if d.Components.SecuritySchemes[name] == nil {
						fault("%s: security %s is not described", where, name)
					}
				}
			}
			has := func(class string) bool {
				for status := range o.Responses {
					if strings.HasPrefix(status, class) {
						return true
					}
				}
				return false
			}
			if !has("2") || !has("4") {
				fault("%s: no response of 2xx, or none of 4xx", where)
			}
			for _, name := range parameter.FindAllStringSubmatch(path, -1) {
				found := false
				for _, p := range o.Parameters {
					found = found || p.In == "path" && p.Name == name[1] && p.Required
				}
				if !found {
					fault("%s: parameter %s is not described", where, name[1])
				}
			}
			for _, p := range o.Parameters {
				if p.In == "path" && !strings.Contains(path, "{"+p.Name+"}") {
					fault("%s: parameter %s is not in the path", where, p.Name)
				}
			}
		}
	}
	return append(faults, lintSchemas(d)...)
}

// lintSchemas finds references to schemas that do not exist, and schemas without a reference.
func lintSchemas(d description) (faults []string) {
	reference := regexp.MustCompile(`"\$ref":"#/components/schemas/([^"]*)"`)
	used := make(map[string]bool)
	var follow func(text []byte)
	follow = func(text []byte) {
		for _, m := range reference.FindAllSubmatch(text, -1) {
			name := string(m[1])
			switch schema := d.Components.Schemas[name]; {
			case schema == nil:
				faults = append(faults, "schema "+name+" is referred to and not there")
			case !used[name]:
				used[name] = true
				follow(schema)
			}
		}
	}
	for _, operations := range d.Paths {
		for _, raw := range operations {
			follow(raw)
		}
	}
	for name := range d.Components.Schemas {
		if !used[name] {
			faults = append(faults, "schema "+name+" is not used")
		}
	}
	return faults
}

func TestTheDescriptionPassesLint(t *testing.T) {
	license, err := os.ReadFile("../../../LICENSE")
	if err != nil || !strings.Contains(string(license), "Apache License\n") || !strings.Contains(string(license), "Version 2.0,") {
		t.Errorf("the license that the description names is not the one there is: %v", err)
	}
	for name, change := range map[string]func(*Options){
		"open": nil,
		"all": func(o *Options) {
			o.Token = "t"
			o.Reload = func(context.Context) (Reloaded, error) { return Reloaded{}, nil }
			o.Demo = &Demo{}
			var err error
			if o.Callbacks, err = callback.New(o.Ring, nil, nil); err != nil {
				t.Fatal(err)
			}
			o.Hubs = callback.NewHubs(o.Ring, func(string, []byte) *websub.Subscription { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, change)
			text := f.call("GET", "/openapi.json", "", 200, nil).body
			for _, fault := range lint([]byte(text)) {
				t.Error(fault)
			}
			for broken, with := range map[string][2]string{
				"no license":      {`"license":`, `"licence":`},
				"another license": {`"identifier":"Apache-2.0"`, `"identifier":"other"`},
				"no servers":      {`"servers":[{"description":"The server of this description.","url":"/"}]`, `"servers":[]`},
				"an unknown tag":  {`"tags":["delivery"]`, `"tags":["other"]`},
				"an id twice":     {`"operationId":"get-metrics"`, `"operationId":"get-openapi"`},
				"no 4xx":          {`"431":`, `"531":`},
				"a lost schema":   {`"$ref":"#/components/schemas/Health"`, `"type":"object"`},
				"a lost path":     {`"in":"path","name":"id"`, `"in":"query","name":"id"`},
				"a wrong referee": {`"$ref":"#/components/schemas/Stats"`, `"$ref":"#/components/schemas/Statistics"`},
			} {
				changed := strings.ReplaceAll(text, with[0], with[1])
				if changed == text || len(lint([]byte(changed))) == 0 {
					t.Errorf("%s: lint finds nothing, or the description has no %s", broken, with[0])
				}
			}
		})
	}
}

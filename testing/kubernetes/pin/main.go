// Command pin writes the schemas of testdata/schemas, by which the tests judge what the chart renders: those of the
// oldest Kubernetes that the chart supports and of a new one, of KEDA and of the Prometheus operator. It takes from
// each project's Go module what concerns the chart's kinds, without descriptions, and forbids unknown fields.
//
//	go run -C testing/kubernetes ./pin
//
// It downloads some 100 MB of modules, whose checksums Go's checksum database has.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// pinned is a module and where its schemas are.
type pinned struct {
	name, module, version string
	openAPI               []string // documents of OpenAPI 3
	crds                  []string // definitions of custom resources
	kinds                 []string // what the chart has of them
}

func all() []pinned {
	kubernetes := func(version string) pinned {
		at := func(group string) string { return "api/openapi-spec/v3/" + group + "_openapi.json" }
		return pinned{
			name: "kubernetes", module: "k8s.io/kubernetes", version: version,
			openAPI: []string{at("api__v1"), at("apis__apps__v1"), at("apis__policy__v1"), at("apis__networking.k8s.io__v1")},
			kinds: []string{"v1/Service", "v1/ServiceAccount", "apps/v1/Deployment", "apps/v1/StatefulSet", "policy/v1/PodDisruptionBudget",
				"networking.k8s.io/v1/NetworkPolicy"},
		}
	}
	const operator = "example/prometheus-operator-crd/monitoring.coreos.com_"
	return []pinned{
		kubernetes("v1.30.0"),
		kubernetes("v1.37.2"),
		{
			name: "keda", module: "github.com/kedacore/keda/v2", version: "v2.21.0",
			crds: []string{"config/crd/bases/keda.sh_scaledobjects.yaml"}, kinds: []string{"keda.sh/v1alpha1/ScaledObject"},
		},
		{
			name: "prometheus-operator", module: "github.com/prometheus-operator/prometheus-operator", version: "v0.94.0",
			crds:  []string{operator + "servicemonitors.yaml", operator + "prometheusrules.yaml"},
			kinds: []string{"monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule"},
		},
	}
}

func main() {
	var faults []error
	for _, p := range all() {
		if err := p.write(); err != nil {
			faults = append(faults, fmt.Errorf("%s %s: %w", p.module, p.version, err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		fmt.Fprintln(os.Stderr, "pin:", err)
		os.Exit(1)
	}
}

func (p pinned) write() error {
	dir, err := download(p.module + "@" + p.version)
	if err != nil {
		return err
	}
	defs, kinds := map[string]any{}, map[string]any{}
	for _, path := range p.openAPI {
		if err := readOpenAPI(filepath.Join(dir, path), defs, kinds); err != nil {
			return err
		}
	}
	for _, path := range p.crds {
		if err := readCRD(filepath.Join(dir, path), defs, kinds); err != nil {
			return err
		}
	}
	kept, needed := map[string]any{}, map[string]any{}
	for _, kind := range p.kinds {
		name, ok := kinds[kind].(string)
		if !ok {
			return fmt.Errorf("there is no %s", kind)
		}
		kept[kind] = "#/$defs/" + name
		if err := follow(name, defs, needed); err != nil {
			return err
		}
	}
	text, err := json.Marshal(map[string]any{"kinds": kept, "$defs": needed})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("testdata/schemas", p.name+"-"+p.version+".json"), append(text, '\n'), 0o644)
}

// download returns the folder with a module's files.
func download(module string) (string, error) {
	c := exec.Command("go", "mod", "download", "-json", module)
	c.Dir = os.TempDir() // beside any module
	out, err := c.Output()
	var reply struct{ Dir, Error string }
	if noReply := json.Unmarshal(out, &reply); noReply != nil {
		return "", errors.Join(err, noReply)
	}
	if reply.Error != "" {
		return "", errors.New(reply.Error)
	}
	return reply.Dir, err
}

func readOpenAPI(path string, defs, kinds map[string]any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var doc struct {
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return err
	}
	for name, schema := range doc.Components.Schemas {
		known, _ := schema["x-kubernetes-group-version-kind"].([]any)
		for _, each := range known {
			gvk, _ := each.(map[string]any)
			kinds[strings.TrimPrefix(fmt.Sprintf("%v/%v/%v", gvk["group"], gvk["version"], gvk["kind"]), "/")] = name
		}
		defs[name] = lean(schema)
	}
	return nil
}

func readCRD(path string, defs, kinds map[string]any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPI map[string]any `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return err
	}
	for _, v := range crd.Spec.Versions {
		kind := crd.Spec.Group + "/" + v.Name + "/" + crd.Spec.Names.Kind
		name := strings.ReplaceAll(kind, "/", ".")
		kinds[kind], defs[name] = name, lean(v.Schema.OpenAPI)
	}
	return nil
}

// lean returns a schema without what only readers and servers need, closed against unknown fields.
func lean(schema map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range schema {
		switch key {
		case "properties", "patternProperties":
			all := map[string]any{}
			for name, each := range value.(map[string]any) {
				all[name] = lean(each.(map[string]any))
			}
			out[key] = all
		case "items", "additionalProperties", "not":
			if inner, ok := value.(map[string]any); ok {
				value = lean(inner)
			}
			out[key] = value
		case "allOf", "anyOf", "oneOf":
			var all []any
			for _, each := range value.([]any) {
				all = append(all, lean(each.(map[string]any)))
			}
			out[key] = all
		case "$ref":
			out[key] = strings.Replace(value.(string), "#/components/schemas/", "#/$defs/", 1)
		case "type", "required", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems":
			out[key] = value
		}
	}
	_, fields := out["properties"]
	_, more := out["additionalProperties"]
	if open, _ := schema["x-kubernetes-preserve-unknown-fields"].(bool); fields && !more && !open {
		out["additionalProperties"] = false
	}
	return out
}

// follow adds a definition and those that it refers to.
func follow(name string, defs, needed map[string]any) error {
	if _, ok := needed[name]; ok {
		return nil
	}
	schema, ok := defs[name]
	if !ok {
		return fmt.Errorf("there is no definition %s", name)
	}
	needed[name] = schema
	for _, other := range slices.Compact(slices.Sorted(slices.Values(references(schema)))) {
		if err := follow(other, defs, needed); err != nil {
			return err
		}
	}
	return nil
}

func references(value any) (names []string) {
	switch v := value.(type) {
	case map[string]any:
		for key, each := range v {
			if name, ok := each.(string); ok && key == "$ref" {
				names = append(names, strings.TrimPrefix(name, "#/$defs/"))
			}
			names = append(names, references(each)...)
		}
	case []any:
		for _, each := range v {
			names = append(names, references(each)...)
		}
	}
	return names
}

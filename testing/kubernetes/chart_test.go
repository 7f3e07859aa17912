package kubernetestest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
)

const (
	root  = "../.."
	chart = root + "/deployments/kubernetes"
)

// object is an object of Kubernetes.
type object = map[string]any

// at returns a field of a field of an object, or nil.
func at(o any, path ...string) any {
	for _, name := range path {
		fields, _ := o.(object)
		o = fields[name]
	}
	return o
}

// list returns a field that has a list.
func list(o any, path ...string) []any {
	all, _ := at(o, path...).([]any)
	return all
}

func title(o object) string { return fmt.Sprint(o["kind"], " ", at(o, "metadata", "name")) }

// objects reads what Helm rendered.
func objects(text []byte) (all []object, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var o object
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if o != nil {
			all = append(all, o)
		}
	}
}

// rendered returns the objects of each rendering, by its name.
func rendered(t *testing.T) map[string][]object {
	t.Helper()
	files, err := filepath.Glob("testdata/rendered/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]object)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if all[strings.TrimSuffix(filepath.Base(file), ".yaml")], err = objects(text); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if len(all) != 7 {
		t.Fatalf("%d renderings are committed", len(all))
	}
	return all
}

// outdated returns the files that differ from the list of their digests, in the form of sha256sum.
func outdated(tree fs.FS, sums string, dirs ...string) (faults []string) {
	known := make(map[string]string)
	for line := range strings.Lines(sums) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		known[name] = sum
	}
	for _, dir := range dirs {
		err := fs.WalkDir(tree, dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(tree, path)
			if sum := fmt.Sprintf("%x", sha256.Sum256(text)); err == nil && known[path] != sum {
				faults = append(faults, path+" changed")
			}
			delete(known, path)
			return err
		})
		if err != nil {
			faults = append(faults, err.Error())
		}
	}
	for name := range known {
		faults = append(faults, name+" is gone")
	}
	return faults
}

// What is committed was rendered from the chart and the values as they are.
func TestRenderingsAreUpToDate(t *testing.T) {
	t.Parallel()
	sums, err := os.ReadFile("testdata/sums")
	if err != nil {
		t.Fatal(err)
	}
	const data = "testing/kubernetes/testdata/"
	dirs := []string{"deployments/kubernetes", data + "values", data + "refused", data + "rendered", "testing/kubernetes/helm"}
	for _, fault := range outdated(os.DirFS(root), string(sums), dirs...) {
		t.Errorf("%s: go run -C testing/kubernetes/helm . -update", fault)
	}
	spoiled := strings.Replace(string(sums), string(sums[:4]), "0000", 1) + "00  deployments/kubernetes/none.yaml\n"
	if found := outdated(os.DirFS(root), spoiled, dirs...); len(found) != 2 {
		t.Errorf("a changed and a missing file: %q", found)
	}
}

// judge finds objects that a Kubernetes, KEDA or the Prometheus operator would refuse.
type judge map[string]*jsonschema.Schema // by kind

func newJudge(t *testing.T, files ...string) judge {
	t.Helper()
	j := make(judge)
	for _, file := range files {
		text, err := os.ReadFile("testdata/schemas/" + file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft2020)
		if err := c.AddResource("mem:"+file, doc); err != nil {
			t.Fatal(err)
		}
		kinds, _ := doc.(object)["kinds"].(object)
		for kind, where := range kinds {
			if j[kind], err = c.Compile("mem:" + file + where.(string)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return j
}

func (j judge) fault(o object) error {
	schema := j[fmt.Sprint(o["apiVersion"], "/", o["kind"])]
	if schema == nil {
		return fmt.Errorf("no schema has the kind %v of %v", o["kind"], o["apiVersion"])
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func judges(t *testing.T) map[string]judge {
	const others, operator = "keda-v2.21.0.json", "prometheus-operator-v0.94.0.json"
	return map[string]judge{
		"1.30": newJudge(t, "kubernetes-v1.30.0.json", others, operator),
		"1.37": newJudge(t, "kubernetes-v1.37.2.json", others, operator),
	}
}

func TestObjectsAreWhatKubernetesTakes(t *testing.T) {
	t.Parallel()
	versions, kinds := judges(t), make(map[string]bool)
	for name, all := range rendered(t) {
		for _, o := range all {
			kinds[fmt.Sprint(o["kind"])] = true
			for version, j := range versions {
				if err := j.fault(o); err != nil {
					t.Errorf("%s, Kubernetes %s: %s: %v", name, version, title(o), err)
				}
			}
		}
	}
	for _, kind := range []string{"Deployment", "StatefulSet", "NetworkPolicy", "ScaledObject", "ServiceMonitor", "PrometheusRule"} {
		if !kinds[kind] {
			t.Errorf("nothing rendered is a %s", kind)
		}
	}
}

// copied returns a copy of an object that a test may spoil.
func copied(t *testing.T, o object) object {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	all, err := objects(text)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// find returns an object of a rendering.
func find(t *testing.T, all []object, name string) object {
	t.Helper()
	for _, o := range all {
		if title(o) == name {
			return o
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

func TestSpoiledObjectsAreFound(t *testing.T) {
	t.Parallel()
	all, versions := rendered(t), judges(t)
	deployment, scaled := find(t, all["default"], "Deployment rounds-poller"), find(t, all["keda"], "ScaledObject rounds-poller")
	for _, c := range []struct {
		name  string
		of    object
		spoil func(object)
	}{
		{"an unknown field", deployment, func(o object) { at(o, "spec").(object)["replica"] = 3 }},
		{"a text in place of a number", deployment, func(o object) { at(o, "spec").(object)["replicas"] = "three" }},
		{"an unknown field of a container", deployment, func(o object) {
			list(o, "spec", "template", "spec", "containers")[0].(object)["securityContexts"] = object{}
		}},
		{"a missing selector", deployment, func(o object) { delete(at(o, "spec").(object), "selector") }},
		{"an unknown kind", deployment, func(o object) { o["kind"] = "Deploiment" }},
		{"an unknown version", deployment, func(o object) { o["apiVersion"] = "apps/v2" }},
		{"an unknown field of a trigger", scaled, func(o object) { list(o, "spec", "triggers")[0].(object)["treshold"] = "1" }},
		{"a trigger's number that is no text", scaled, func(o object) { at(list(o, "spec", "triggers")[0], "metadata").(object)["threshold"] = 1.5 }},
	} {
		o := copied(t, c.of)
		c.spoil(o)
		for version, j := range versions {
			if j.fault(o) == nil {
				t.Errorf("%s is not found by the schemas of %s", c.name, version)
			}
		}
	}
}

// environment returns the variables of a pod template's containers.
func environment(o object) (assignments []string) {
	for _, container := range list(o, "spec", "template", "spec", "containers") {
		for _, each := range list(container, "env") {
			assignments = append(assignments, fmt.Sprint(at(each, "name"), "=", at(each, "value")))
		}
	}
	return assignments
}

// faultsOfEnvironment returns variables that are no settings, and what the settings say of the values.
func faultsOfEnvironment(assignments []string) (faults []string) {
	for _, name := range settings.UnknownVariables(assignments) {
		faults = append(faults, name+" is no setting")
	}
	_, err := settings.Read(func(name string) (string, bool) {
		for _, assignment := range assignments {
			if n, value, _ := strings.Cut(assignment, "="); n == name {
				switch {
				case name == "ROUNDS_REDIS_URL" && value == "<nil>":
					return "redis://rounds@redis.example.com", true // it is in the Secret
				case strings.HasSuffix(name, "_FILE") || name == "ROUNDS_SECRETS_DIR":
					return "", false // it is in a Secret
				}
				return value, true
			}
		}
		if name == "ROUNDS_API_TOKEN" {
			return "0123456789abcdef", true
		}
		return "", false
	}, nil)
	if err != nil {
		faults = append(faults, err.Error())
	}
	return faults
}

func TestEnvironmentIsOfSettings(t *testing.T) {
	t.Parallel()
	pods := 0
	for name, all := range rendered(t) {
		for _, o := range all {
			if o["kind"] != "Deployment" {
				continue
			}
			pods++
			given := environment(o)
			for _, fault := range faultsOfEnvironment(given) {
				t.Errorf("%s: %s: %s", name, title(o), fault)
			}
			if names := slices.Sorted(maps.Keys(asMap(given))); len(names) != len(given) {
				t.Errorf("%s: %s: a variable is there twice: %q", name, title(o), given)
			}
		}
	}
	if pods < 20 {
		t.Errorf("only %d Deployments were judged", pods)
	}
	for _, bad := range []string{"ROUNDS_CONCURENCY=8", "ROUNDS_CONCURRENCY=many", "ROUNDS_ROLES=poler", "ROUNDS_GRACE_PERIOD=20"} {
		if len(faultsOfEnvironment([]string{"ROUNDS_REDIS_URL=redis://redis", bad})) == 0 {
			t.Errorf("%s is not found", bad)
		}
	}
}

func asMap(assignments []string) map[string]string {
	all := make(map[string]string)
	for _, assignment := range assignments {
		name, value, _ := strings.Cut(assignment, "=")
		all[name] = value
	}
	return all
}

// How pods end, what they are probed for, and what they may do.
func TestPods(t *testing.T) {
	t.Parallel()
	for name, all := range rendered(t) {
		for _, o := range all {
			pod := at(o, "spec", "template", "spec")
			if pod == nil {
				continue
			}
			where := name + ": " + title(o)
			if at(pod, "securityContext", "runAsNonRoot") != true || at(pod, "securityContext", "seccompProfile", "type") != "RuntimeDefault" ||
				at(pod, "enableServiceLinks") != false || at(pod, "automountServiceAccountToken") != false {
				t.Errorf("%s: a pod may too much: %v", where, pod)
			}
			c := list(pod, "containers")[0]
			if at(c, "securityContext", "readOnlyRootFilesystem") != true || at(c, "securityContext", "allowPrivilegeEscalation") != false ||
				fmt.Sprint(at(c, "securityContext", "capabilities", "drop")) != "[ALL]" || at(c, "resources", "limits", "memory") == nil {
				t.Errorf("%s: its container may too much: %v", where, c)
			}
			if o["kind"] != "Deployment" {
				continue
			}
			if at(c, "livenessProbe", "httpGet", "path") != "/healthz" || at(c, "readinessProbe", "httpGet", "path") != "/readyz" {
				t.Errorf("%s: it is probed elsewhere", where)
			}
			grace, err := time.ParseDuration(asMap(environment(o))["ROUNDS_GRACE_PERIOD"])
			killed, _ := at(pod, "terminationGracePeriodSeconds").(int)
			sleep, _ := at(c, "lifecycle", "preStop", "sleep", "seconds").(int)
			if err != nil || time.Duration(killed-sleep)*time.Second < grace+10*time.Second {
				t.Errorf("%s: it is killed after %d s, of which it sleeps %d, and its grace is %v", where, killed, sleep, grace)
			}
			mounted := make(map[string]bool)
			for _, item := range list(list(pod, "volumes")[0], "secret", "items") {
				mounted["/run/rounds/"+fmt.Sprint(at(item, "path"))] = true
			}
			for setting, value := range asMap(environment(o)) {
				if strings.HasSuffix(setting, "_FILE") && !mounted[value] {
					t.Errorf("%s: %s is %s, which is not mounted", where, setting, value)
				}
			}
		}
	}
}

// The image of the small Redis is that of the compose file, and the chart's alerts are those of monitoring.
func TestChartHasWhatOthersHave(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(root + "/deployments/" + path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	image := regexp.MustCompile(`redis:[0-9.]+-\w+@sha256:[0-9a-f]{64}`)
	if a, b := image.FindString(read("compose/compose.yaml")), image.FindString(read("kubernetes/values.yaml")); a != b || a == "" {
		t.Errorf("the compose file has %q, the chart %q", a, b)
	}
	if read("kubernetes/files/alerts.yaml") != read("monitoring/alerts.yaml") {
		t.Error("alerts differ: cp deployments/monitoring/alerts.yaml deployments/kubernetes/files/, and render anew")
	}
}

// set are settings that the chart sets itself, or that only commands read.
var set = []string{
	"ROUNDS_ROLES", "ROUNDS_API_ADDR", "ROUNDS_OPS_ADDR", "ROUNDS_API_SOCKET_MODE", "ROUNDS_GRACE_PERIOD", "ROUNDS_LOG_FORMAT", "ROUNDS_REDIS_URL", "ROUNDS_DATA_DIR",
	"ROUNDS_DATA_SAVE_WITHIN", "ROUNDS_SECRETS_DIR", "ROUNDS_CONCURRENCY", "ROUNDS_HELD_CHECKS", "ROUNDS_API_URL",
}

// names returns the settings of a struct that values may have, and those whose value is a file.
func names(of reflect.Type) (plain, files []string) {
	for _, f := range reflect.VisibleFields(of) {
		tag, ok := f.Tag.Lookup("env")
		name, _, _ := strings.Cut(tag, ",")
		switch {
		case !ok && f.Type.Kind() == reflect.Struct && !f.Anonymous:
			a, b := names(f.Type)
			plain, files = append(plain, a...), append(files, b...)
		case !ok:
		case strings.HasSuffix(name, "_FILE"):
			files = append(files, name)
		case f.Tag.Get("secret") != "yes" && !slices.Contains(set, name):
			plain = append(plain, name)
		}
	}
	slices.Sort(plain)
	slices.Sort(files)
	return slices.Compact(plain), slices.Compact(files)
}

// values.schema.json allows all settings that are no secret and that the chart does not set, and no others.
func TestSchemaOfValuesHasTheSettings(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(chart + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type enum struct{ Enum []string }
	var schema struct {
		Defs struct {
			Settings struct {
				PropertyNames struct{ AnyOf []enum }
			}
			Files struct{ PropertyNames enum }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	plain, files := names(reflect.TypeFor[settings.Settings]())
	if len(plain) < 50 || len(files) < 10 {
		t.Fatalf("settings are %q and %q", plain, files)
	}
	if got := schema.Defs.Settings.PropertyNames.AnyOf[0].Enum; !slices.Equal(got, plain) {
		t.Errorf("$defs.settings of values.schema.json has %q, want %q", got, plain)
	}
	if got := schema.Defs.Files.PropertyNames.Enum; !slices.Equal(got, files) {
		t.Errorf("$defs.files of values.schema.json has %q, want %q", got, files)
	}
}

// metrics returns the names of the metrics that pollers, monitors and delivery have.
func metrics() map[string]bool {
	b := make(book)
	poller.NewMetrics(b)
	monitor.NewMetrics(b)
	delivery.NewMetrics(b)
	webhook.NewMetrics(b)
	return b
}

// book is a registry that only records names.
type book map[string]bool

func (b book) Register(c prometheus.Collector) error {
	all := make(chan *prometheus.Desc, 10)
	go func() {
		c.Describe(all)
		close(all)
	}()
	for d := range all {
		name := regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1]
		for _, suffix := range []string{"", "_sum", "_count", "_bucket"} {
			b[name+suffix] = true
		}
	}
	return nil
}

func (b book) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = b.Register(c) // Register of a book never fails
	}
}

func (b book) Unregister(prometheus.Collector) bool { return false }

// faultOfQuery says what is wrong with a query for KEDA, which takes one number.
func faultOfQuery(query string, known map[string]bool) error {
	read, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return err
	}
	named := 0
	parser.Inspect(read, func(n parser.Node, _ []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		named++
		if !known[selector.Name] {
			err = fmt.Errorf("there is no metric %s", selector.Name)
		}
		if !slices.ContainsFunc(selector.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == "namespace" || m.Name == "job" }) {
			err = fmt.Errorf("%s is of all releases", selector.Name)
		}
		return nil
	})
	if named == 0 {
		return errors.New("it names no metric")
	}
	return err
}

// queries returns the queries of KEDA's triggers, by rendering, object and trigger.
func queries(t *testing.T) map[string]string {
	all := make(map[string]string)
	for name, objects := range rendered(t) {
		for _, o := range objects {
			if o["kind"] == "ScaledObject" {
				for _, trigger := range list(o, "spec", "triggers") {
					all[fmt.Sprint(name, ": ", title(o), ": ", at(trigger, "name"))] = fmt.Sprint(at(trigger, "metadata", "query"))
				}
			}
		}
	}
	return all
}

func TestQueriesOfKEDA(t *testing.T) {
	t.Parallel()
	known, all := metrics(), queries(t)
	for name, query := range all {
		if err := faultOfQuery(query, known); err != nil {
			t.Errorf("%s: %s: %v", name, query, err)
		}
	}
	if len(all) < 8 {
		t.Errorf("only %d queries were judged", len(all))
	}
	for _, bad := range []string{`max(rounds_overdue_second{namespace="a"})`, `max(rounds_overdue_seconds{namespace="a"}`, `max(rounds_overdue_seconds)`, `1`} {
		if faultOfQuery(bad, known) == nil {
			t.Errorf("%s: nothing is found", bad)
		}
	}
}

// faultsOfRules returns what promtool finds in rules.
func faultsOfRules(spec any) []error {
	text, err := yaml.Marshal(spec)
	if err != nil {
		return []error{err}
	}
	_, faults := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	return faults
}

func TestRulesArePrometheus(t *testing.T) {
	t.Parallel()
	all := rendered(t)
	rules := func(name string) (names []string) {
		o := find(t, all[name], "PrometheusRule rounds")
		for _, err := range faultsOfRules(o["spec"]) {
			t.Errorf("%s: %v", name, err)
		}
		for _, group := range list(o, "spec", "groups") {
			for _, rule := range list(group, "rules") {
				names = append(names, fmt.Sprint(at(rule, "alert")))
			}
		}
		return names
	}
	fixed, scaled := rules("production"), rules("keda")
	if i := slices.Index(fixed, "RoundsReplicasMissing"); i < 0 || len(fixed) < 40 || !slices.Equal(scaled, slices.Delete(slices.Clone(fixed), i, i+1)) {
		t.Errorf("rules are %q, and %q where KEDA scales", fixed, scaled)
	}
	for name, spoil := range map[string]func(rule object){
		"an expression that is none": func(rule object) { rule["expr"] = "max(rounds_audit_lost" },
		"a template that is none":    func(rule object) { at(rule, "annotations").(object)["summary"] = "{{ $vale }}" },
		"an unknown field":           func(rule object) { rule["exprs"] = "1" },
	} {
		o := copied(t, find(t, all["production"], "PrometheusRule rounds"))
		spoil(list(list(o, "spec", "groups")[0], "rules")[0].(object))
		if len(faultsOfRules(o["spec"])) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
}

// Command helm renders the chart in deployments/kubernetes as Helm does, with its default values and each file of
// testdata/values, and lints it. What it renders is committed in testdata/rendered, and the tests of
// testing/kubernetes judge that, because Helm's own packages take some fifty seconds of processor to compile.
// testdata/sums has the digests of all that went in and came out, so those tests find what is out of date.
//
//	go run -C testing/kubernetes/helm .            # fails where something committed differs
//	go run -C testing/kubernetes/helm . -update    # writes it
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

const (
	root      = "../../.." // of the repository
	chartDir  = root + "/deployments/kubernetes"
	testdata  = root + "/testing/kubernetes/testdata"
	sumsPath  = testdata + "/sums"
	release   = "rounds"
	namespace = "messages"
	// kubernetes is the oldest version that the chart supports.
	kubernetes = "v1.30.0"
)

func main() {
	update := flag.Bool("update", false, "write what is rendered")
	flag.Parse()
	if err := run(*update); err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		os.Exit(1)
	}
}

func run(update bool) error {
	files, err := filepath.Glob(testdata + "/values/*.yaml")
	if err != nil {
		return err
	}
	refused, err := filepath.Glob(testdata + "/refused/*.yaml")
	if err != nil {
		return err
	}
	if len(files) == 0 || len(refused) == 0 {
		return errors.New("there are no values")
	}
	var faults []error
	for _, values := range append([]string{""}, files...) {
		text, err := render(values)
		if err == nil {
			err = settle(filepath.Join(testdata, "rendered", base(values)), text, update)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", cmp.Or(values, "default values"), err))
		}
	}
	for _, values := range refused {
		if _, err := render(values); err == nil {
			faults = append(faults, fmt.Errorf("%s is not refused", values))
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	sums, err := digests()
	if err != nil {
		return err
	}
	return settle(sumsPath, sums, update)
}

// settle writes a committed file, or compares with it.
func settle(path string, text []byte, update bool) error {
	if update {
		return os.WriteFile(path, text, 0o644)
	}
	committed, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(committed, text) {
		return fmt.Errorf("%s is out of date: go run -C testing/kubernetes/helm . -update", path)
	}
	return nil
}

// digests returns what sha256sum prints for the chart, the values, what is rendered, and this module.
func digests() ([]byte, error) {
	var b bytes.Buffer
	for _, dir := range []string{chartDir, testdata + "/values", testdata + "/refused", testdata + "/rendered", "."} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			at, err := filepath.Abs(path)
			if err != nil {
				return err
			}
			top, err := filepath.Abs(root)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(top, at)
			fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), filepath.ToSlash(name))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// render lints the chart and returns its objects, file by file.
func render(values string) ([]byte, error) {
	given := map[string]any{}
	if values != "" {
		read, err := common.ReadValuesFile(values)
		if err != nil {
			return nil, err
		}
		given = read
	}
	version, err := common.ParseKubeVersion(kubernetes)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, m := range lint.RunAll(chartDir, given, namespace, lint.WithKubeVersion(version)).Messages {
		if m.Severity >= support.WarningSev {
			faults = append(faults, m.Err)
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		return nil, err
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	all, err := util.ToRenderValues(chart, given, common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		text := strings.TrimSpace(rendered[name])
		if strings.HasSuffix(name, ".yaml") && text != "" {
			fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", name, strings.TrimPrefix(text, "---\n"))
		}
	}
	return b.Bytes(), nil
}

// base names what is rendered with a values file. Empty: the chart's own values.
func base(values string) string {
	if values == "" {
		return "default.yaml"
	}
	return filepath.Base(values)
}

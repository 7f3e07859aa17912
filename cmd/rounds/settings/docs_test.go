package settings

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// top is the repository's top folder.
const top = "../../.."

func TestGuideHasTheSettings(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(top, "deployments/guide/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "<!-- settings -->\n")
	got, _, closed := strings.Cut(rest, "<!-- /settings -->")
	if !ok || !closed {
		t.Fatal("the guide has no settings between its markers")
	}
	var want bytes.Buffer
	if err := WriteMarkdown(&want); err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(got) != strings.TrimSpace(want.String()) {
		t.Errorf("the guide's settings are not those of `rounds settings --markdown`, which are:\n%s", want.String())
	}
}

// strangeNames returns the ROUNDS_ variables in a text that the table of settings does not
// have.
func strangeNames(text string) []string {
	known := make(map[string]bool)
	for _, s := range all() {
		known[s.Name] = true
	}
	var strange []string
	for _, name := range regexp.MustCompile(`ROUNDS_[A-Z0-9_]*`).FindAllString(text, -1) {
		if !known[name] && !isUsers(name) && !strings.HasPrefix(name, "ROUNDS_TEST_") {
			strange = append(strange, name)
		}
	}
	return strange
}

func TestDeploymentsNameOnlySettings(t *testing.T) {
	if got := strangeNames("ROUNDS_SHARDS=4 ROUNDS_SHARD=4 ${ROUNDS_SECRET_CRM}"); len(got) != 1 || got[0] != "ROUNDS_SHARD" {
		t.Fatalf("the check finds %v", got)
	}
	files := 0
	err := filepath.WalkDir(filepath.Join(top, "deployments"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if strings.HasSuffix(path, ".tpl") || strings.HasSuffix(path, ".schema.json") {
			return nil // testing/kubernetes judges what they name
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, name := range strangeNames(string(text)) {
			t.Errorf("%s names %s, which is no setting", path, name)
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Errorf("%d files read, %v", files, err)
	}
}

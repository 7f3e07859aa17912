package settings

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func writeSettings(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestASettingsFileIsBehindTheEnvironment(t *testing.T) {
	path := writeSettings(t, "\ufeff# a comment\n\n ROUNDS_LIMITS = \"feed rate=2/s; http rate=1/s\" \nROUNDS_CONCURRENCY=7\r\nROUNDS_LOG_LEVEL='debug'\nROUNDS_SECRET_CRM=a=b#c\nROUNDS_API_ADDR=\n")
	lookup, err := Layer(lookupIn(map[string]string{fileSetting: path, "ROUNDS_CONCURRENCY": "9", "ROUNDS_LOG_LEVEL": " "}), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Read(lookup, nil)
	if err != nil || s.Poller.Limits != "feed rate=2/s; http rate=1/s" || s.Poller.Concurrency != 9 || s.Log.Level.String() != "DEBUG" || s.API.Addr != "127.0.0.1:8080" {
		t.Errorf("%+v, %v", s, err)
	}
	if value, ok := lookup("ROUNDS_SECRET_CRM"); !ok || value != "a=b#c" {
		t.Errorf("the secret is %q, %v", value, ok)
	}
	if same, err := Layer(nil, nil); err != nil || same != nil {
		t.Error("without a file")
	}
}

func TestFaultsOfASettingsFile(t *testing.T) {
	path := writeSettings(t, "ROUNDS_LIMIT=x\nhunter2\nROUNDS_CONCURRENCY=lots\nROUNDS_SHARDS=1\nROUNDS_SHARDS=2\nGOMEMLIMIT=1\nROUNDS_LIMITS=\"hunter2\nROUNDS_SETTINGS_FILE=/x\nhunter 2=x\n")
	lookup, err := Layer(lookupIn(map[string]string{fileSetting: path}), nil)
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{
		"line 1: no setting is named ROUNDS_LIMIT: is it ROUNDS_LIMITS?", "line 2: must be NAME=VALUE", "line 5: ROUNDS_SHARDS appears twice", "line 6: no setting is named GOMEMLIMIT",
		"line 7: ROUNDS_LIMITS: a quote is not closed", "line 8: a settings file must not name another one", "line 9: must be NAME=VALUE",
	} {
		if !strings.Contains(err.Error(), "ROUNDS_SETTINGS_FILE is \""+path+"\": "+want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 7 || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%d faults: %v", n, err)
	}
	if _, err := Read(lookup, nil); err == nil || !strings.Contains(err.Error(), `ROUNDS_CONCURRENCY is "lots"`) {
		t.Errorf("what could be read is not judged: %v", err)
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		if _, err := Layer(lookupIn(map[string]string{fileSetting: path}), nil); err == nil || !strings.Contains(err.Error(), "must be a ") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A process reads its file while somebody writes it. A setting that is missing then does not have
// its default.
func TestASettingsFileThatLostSomethingIsRefused(t *testing.T) {
	const full = "# all of it\nROUNDS_API_TOKEN=one-0123456789abc\nROUNDS_LIMITS=feed rate=2/s\n"
	path := writeSettings(t, "# nothing yet\n")
	var source Source
	read := func(text string) error {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := source.Layer(lookupIn(map[string]string{fileSetting: path}), nil)
		return err
	}
	for _, text := range []string{"# nothing yet\n", "", "ROUNDS_CONCURRENCY=7", full, full} {
		if err := read(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"", "\n", "# all of it\n", "# all of it"} {
		if err := read(text); err == nil || !strings.Contains(err.Error(), `ROUNDS_SETTINGS_FILE is "`+path+`": had settings when it was read before, and has none`) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for n := len("# all of it\nROUNDS_API_TOKEN="); n < len(full)-1; n++ {
		// A file that ends after a whole line only lacks settings. Nothing shows that this is not
		// meant.
		if err := read(full[:n]); (err == nil) != strings.HasSuffix(full[:n], "\n") {
			t.Errorf("%q: %v", full[:n], err)
		}
	}
	if err := read(full); err != nil { // what was refused is not remembered
		t.Error(err)
	}
	// Another process, and one that is started anew, takes the file as it is.
	if err := read(""); err == nil {
		t.Error("an empty file is taken")
	}
	if _, err := Layer(lookupIn(map[string]string{fileSetting: path}), nil); err != nil {
		t.Error(err)
	}
}

// moving is a file that somebody writes while it is read.
type moving struct {
	fs.File
	write func()
}

func (m moving) Read(into []byte) (int, error) {
	m.write()
	return m.File.Read(into)
}

func TestASettingsFileThatChangesMeanwhileIsRefused(t *testing.T) {
	long := "ROUNDS_LIMITS=" + strings.Repeat("x", 3000) + "\n"
	for name, write := range map[string]func(path string) error{
		"emptied":   func(path string) error { return os.Truncate(path, 0) },
		"cut":       func(path string) error { return os.Truncate(path, 100) },
		"longer":    func(path string) error { return os.WriteFile(path, []byte(long+long), 0o600) },
		"as long":   func(path string) error { return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)) }, // written again
		"untouched": func(string) error { return nil },
		// The file that was opened stays whole.
		"replaced": func(path string) error { return os.Rename(writeSettings(t, long), path) },
	} {
		path := writeSettings(t, long)
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := readWhole(moving{file, sync.OnceFunc(func() {
			if err := write(path); err != nil {
				t.Error(err)
			}
		})})
		if err := file.Close(); err != nil {
			t.Error(err)
		}
		whole := name == "untouched" || name == "replaced"
		if whole && (err != nil || text != long) || !whole && (err == nil || !strings.Contains(err.Error(), "changed while it was read")) {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}

func TestMergeTakesWhatIsLive(t *testing.T) {
	running, err := Read(lookupIn(map[string]string{"ROUNDS_API_TOKEN": "old-0123456789abc", "ROUNDS_SHARDS": "4", "ROUNDS_LIMITS": "a"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(lookupIn(map[string]string{"ROUNDS_API_TOKEN": "new-0123456789abc", "ROUNDS_SHARDS": "8", "ROUNDS_LIMITS": "a", "ROUNDS_LOG_LEVEL": "warn", "ROUNDS_ROLES": "api", "ROUNDS_API_URL": "http://h"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	merged, changed, restart := Merge(running, read)
	if !reflect.DeepEqual(changed, []string{"ROUNDS_API_TOKEN", "ROUNDS_LOG_LEVEL"}) || !reflect.DeepEqual(restart, []string{"ROUNDS_SHARDS", "ROUNDS_ROLES"}) {
		t.Errorf("changed %v, restart %v", changed, restart)
	}
	if merged.Access.Token != "new-0123456789abc" || merged.Log.Level.String() != "WARN" || merged.Redis.Shards != 4 || len(merged.API.Roles) != 3 || merged.Poller.Limits != "a" || running.Access.Token != "old-0123456789abc" {
		t.Errorf("%+v", merged)
	}
	// A running process applies exactly the settings that the documentation calls live.
	var live []string
	for _, s := range all() {
		if s.Live {
			live = append(live, s.Name)
		}
	}
	for _, file := range []string{"deployments/guide/operations.md", "cmd/rounds/command/settings.go"} {
		text, err := os.ReadFile(filepath.Join(top, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range live {
			if !strings.HasPrefix(name, "ROUNDS_API_TOKEN") && !strings.Contains(string(text), name) {
				t.Errorf("%s does not name %s", file, name)
			}
		}
	}
}

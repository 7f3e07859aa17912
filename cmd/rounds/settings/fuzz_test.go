package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The readable part of a settings file is read. No fault reveals a value.
func FuzzFile(f *testing.F) {
	f.Add([]byte("# a comment\nROUNDS_SHARDS=5\nROUNDS_SECRET_KEY=\"s3cr3t-of-the-file\"\n"))
	f.Add([]byte("ROUNDS_SHARDS\nROUNDS_API_TOKEN='s3cr3t\nROUNDS_OTHER=s3cr3t\n=s3cr3t\nROUNDS_SHARDS=1\nROUNDS_SHARDS=2"))
	f.Add([]byte("\xef\xbb\xbfROUNDS_LOG_LEVEL=s3cr3t\r\n\x00\xff=1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "settings")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		values, faults := new(Source).read(path)
		for name, value := range values {
			if !isName(name) || strings.ContainsRune(value, '\n') {
				t.Errorf("%q is %q", name, value)
			}
		}
		for line := range strings.Lines(string(text)) {
			_, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if value = strings.TrimSpace(value); !ok || len(value) < 12 {
				continue
			}
			for _, fault := range faults {
				if strings.Contains(fault, value) && !strings.Contains("must be NAME=VALUE: a settings file must not name another one", value) {
					t.Errorf("%q tells %q", fault, value)
				}
			}
		}
	})
}

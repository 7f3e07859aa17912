package service_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// openFiles opens the store that variables name.
func openFiles(t *testing.T, variables map[string]string) (store string, err error) {
	t.Helper()
	lookup := func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
	s, err := settings.Read(lookup, nil)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := service.OpenFiles(t.Context(), s, service.Options{Lookup: lookup})
	validated := service.Validate(s, service.Options{Lookup: lookup})
	if s.FileStore.At().Bucket != nil && (err == nil) != (validated == nil) {
		t.Errorf("opened with %v, validated with %v", err, validated)
	}
	if opened == nil {
		return "", err
	}
	return opened.String(), err
}

func TestOpenFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "service.files_access_key"), []byte("AKIAROUNDS\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const bucket = "s3://acme-files/rounds?endpoint=https://s3.example.com"
	for name, c := range map[string]struct {
		variables map[string]string
		want      string
	}{
		"nothing said":      {nil, ""},
		"none":              {map[string]string{"ROUNDS_FILES": "none", "ROUNDS_DATA_DIR": dir}, ""},
		"directory":         {map[string]string{"ROUNDS_FILES": filepath.Join(dir, "stored")}, "directory " + filepath.Join(dir, "stored")},
		"within the data":   {map[string]string{"ROUNDS_DATA_DIR": dir}, "directory " + filepath.Join(dir, "files")},
		"bucket with keys":  {map[string]string{"ROUNDS_FILES": bucket, "ROUNDS_FILES_ACCESS_KEY": "AKIAROUNDS", "ROUNDS_FILES_SECRET_KEY": "correct-horse-battery"}, "bucket acme-files at s3.example.com"},
		"keys from secrets": {map[string]string{"ROUNDS_FILES": bucket, "ROUNDS_SECRETS_DIR": dir, "ROUNDS_SERVICE_SECRET_files_secret_key": "correct-horse-battery"}, "bucket acme-files at s3.example.com"},
	} {
		if got, err := openFiles(t, c.variables); got != c.want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// An error names each setting that is missing, and how to set it.
func TestOpenFilesFaults(t *testing.T) {
	dir := t.TempDir()
	const bucket = "s3://acme-files?endpoint=https://s3.example.com"
	for name, c := range map[string]struct {
		variables map[string]string
		want      []string
	}{
		"no keys": {map[string]string{"ROUNDS_FILES": bucket}, []string{
			"ROUNDS_FILES_ACCESS_KEY: must be set for the bucket of ROUNDS_FILES, or its secret files_access_key: is neither the file service.files_access_key of the secrets directory nor in the environment as ROUNDS_SERVICE_SECRET_files_access_key",
			"ROUNDS_FILES_SECRET_KEY: must be set for the bucket of ROUNDS_FILES, or its secret files_secret_key: is neither",
		}},
		"bound elsewhere": {map[string]string{
			"ROUNDS_FILES": bucket, "ROUNDS_SERVICE_SECRET_files_access_key": "AKIAROUNDS", "ROUNDS_SERVICE_SECRET_files_secret_key": "correct-horse-battery",
			"ROUNDS_SERVICE_BINDING_files_secret_key": "hosts=s3.example.org",
		}, []string{"ROUNDS_FILES_SECRET_KEY: secret files_secret_key: refused: its binding names other hosts"}},
		"no directory above": {map[string]string{"ROUNDS_FILES": filepath.Join(dir, "a", "b")}, []string{
			"ROUNDS_FILES: files directory " + filepath.Join(dir, "a", "b") + ": the directory above it is missing",
		}},
	} {
		store, err := openFiles(t, c.variables)
		if err == nil {
			t.Errorf("%s: opened %s", name, store)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v; want %s", name, err, want)
			}
		}
		if strings.Contains(err.Error(), "correct-horse") {
			t.Errorf("%s: %v has a key", name, err)
		}
	}
}

package settings

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestFilePlaces(t *testing.T) {
	yes, no := true, false
	dir := t.TempDir()
	for name, c := range map[string]struct {
		variables map[string]string
		want      FilePlace
	}{
		"nothing said":       {nil, FilePlace{}},
		"a data directory":   {map[string]string{"ROUNDS_DATA_DIR": dir}, FilePlace{Directory: filepath.Join(dir, "files")}},
		"data in memory":     {map[string]string{"ROUNDS_DATA_DIR": Memory}, FilePlace{}},
		"a Redis":            {map[string]string{"ROUNDS_REDIS_URL": "redis://h", "HOME": dir}, FilePlace{}},
		"none":               {map[string]string{"ROUNDS_DATA_DIR": dir, "ROUNDS_FILES": "none"}, FilePlace{}},
		"a directory":        {map[string]string{"ROUNDS_FILES": dir + "/x/../y"}, FilePlace{Directory: filepath.Join(dir, "y")}},
		"Amazon":             {map[string]string{"ROUNDS_FILES": "s3://acme-files?region=eu-central-1"}, FilePlace{Bucket: &Bucket{Name: "acme-files", Region: "eu-central-1", Endpoint: "https://s3.eu-central-1.amazonaws.com"}}},
		"Amazon in China":    {map[string]string{"ROUNDS_FILES": "s3://acme-files?region=cn-north-1"}, FilePlace{Bucket: &Bucket{Name: "acme-files", Region: "cn-north-1", Endpoint: "https://s3.cn-north-1.amazonaws.com.cn"}}},
		"a service":          {map[string]string{"ROUNDS_FILES": "s3://acme-files/rounds/one/?endpoint=http://minio:9000/"}, FilePlace{Bucket: &Bucket{Name: "acme-files", Prefix: "rounds/one", Region: "us-east-1", Endpoint: "http://minio:9000"}}},
		"a service, by path": {map[string]string{"ROUNDS_FILES": "s3://a.b?endpoint=https%3A%2F%2Fcos.example.com&region=ap-1&path-style=true"}, FilePlace{Bucket: &Bucket{Name: "a.b", Region: "ap-1", Endpoint: "https://cos.example.com", PathStyle: &yes}}},
		"a service, by host": {map[string]string{"ROUNDS_FILES": "s3://abc?endpoint=https://cos.example.com&path-style=false"}, FilePlace{Bucket: &Bucket{Name: "abc", Region: "us-east-1", Endpoint: "https://cos.example.com", PathStyle: &no}}},
	} {
		s, err := read(t, c.variables)
		if got := s.FileStore.At(); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

func TestFilePlacesReportEveryFault(t *testing.T) {
	for name, c := range map[string]struct {
		variables map[string]string
		want      []string
	}{
		"everything": {map[string]string{"ROUNDS_FILES": "s3://AKIAROUNDS:s3cret@Acme/a//b?region=Mars&endpoint=s3.example.com/x&path-style=1&region=eu&secret=s3cret"}, []string{
			`ROUNDS_FILES is "s3://xxxxx@Acme/a//b?xxxxx": must not hold keys: they go into ROUNDS_FILES_ACCESS_KEY and ROUNDS_FILES_SECRET_KEY`,
			"must have region once",
			`must not have the parameter "secret": only region, endpoint and path-style`,
			"must name a bucket behind s3://: 3 to 63 lower-case letters, digits, dots or dashes",
			"must have a prefix of at most 512 letters, digits and !_.*'()/-, without empty parts",
			"must have a region such as eu-central-1",
			"must have an endpoint such as https://HOST or https://HOST:PORT, without a path",
			"must have path-style=true or path-style=false",
		}},
		"no region":      {map[string]string{"ROUNDS_FILES": "s3://abc"}, []string{"must have region=REGION, or endpoint=https://HOST for a service other than Amazon's"}},
		"no bucket":      {map[string]string{"ROUNDS_FILES": "s3://?region=a"}, []string{"must name a bucket behind s3://"}},
		"another scheme": {map[string]string{"ROUNDS_FILES": "file:///srv"}, []string{"must be a directory, or a bucket as s3://BUCKET?region=REGION"}},
		"unreadable":     {map[string]string{"ROUNDS_FILES": "s3://a b"}, []string{"must be a URL such as s3://BUCKET?region=REGION"}},
		"a home":         {map[string]string{"ROUNDS_FILES": "~/files"}, []string{"write it out"}},
		"keys alone":     {map[string]string{"ROUNDS_FILES_ACCESS_KEY": "AKIAROUNDS"}, []string{"ROUNDS_FILES: must be a bucket where ROUNDS_FILES_ACCESS_KEY or ROUNDS_FILES_SECRET_KEY is set"}},
		"half a key":     {map[string]string{"ROUNDS_FILES": "s3://abc?region=a", "ROUNDS_FILES_ACCESS_KEY": "AKIAROUNDS"}, []string{"ROUNDS_FILES_SECRET_KEY: must be set where ROUNDS_FILES_ACCESS_KEY is"}},
		"the other half": {map[string]string{"ROUNDS_FILES": "s3://abc?region=a", "ROUNDS_FILES_SECRET_KEY": "s3cret"}, []string{"ROUNDS_FILES_ACCESS_KEY: must be set where ROUNDS_FILES_SECRET_KEY is"}},
	} {
		_, err := read(t, c.variables)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got\n%v\nwithout %s", name, err, want)
			}
		}
		if n := strings.Count(err.Error(), "\n") + 1; n != len(c.want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "AKIA") {
			t.Errorf("%s: got %d faults:\n%v", name, n, err)
		}
	}
}

// The place has no fault, or it is one that the store takes.
func FuzzFilePlace(f *testing.F) {
	f.Add("s3://acme-files/rounds?region=eu-1&endpoint=https://h:1&path-style=true")
	f.Add("s3://a@b?c#d")
	f.Add("/srv/files")
	f.Fuzz(func(t *testing.T, place string) {
		wrong := false
		at := parseFilePlace(place, func(string) { wrong = true })
		if wrong {
			return
		}
		if b := at.Bucket; b != nil && (b.Name == "" || b.Region == "" || !strings.HasPrefix(b.Endpoint, "http") || strings.HasPrefix(b.Prefix, "/")) {
			t.Errorf("%q is %+v", place, b)
		}
	})
}

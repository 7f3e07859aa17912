package settings

import (
	"errors"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// FileStore says where the files that messages carry are stored.
type FileStore struct {
	Place     string `env:"ROUNDS_FILES" secret:"in part" about:"where files that messages carry are stored: a directory, which all processes of the service share; a bucket of an S3-compatible service, s3://BUCKET[/PREFIX]?region=REGION[&endpoint=https://HOST[:PORT]][&path-style=true|false], at Amazon without endpoint; none: nowhere; unset: files in ROUNDS_DATA_DIR, and nowhere if ROUNDS_REDIS_URL is set"`
	AccessKey string `env:"ROUNDS_FILES_ACCESS_KEY" secret:"yes" about:"access key for the bucket of ROUNDS_FILES; unset: the service's own secret files_access_key"`
	SecretKey string `env:"ROUNDS_FILES_SECRET_KEY" secret:"yes" about:"secret key for the bucket of ROUNDS_FILES; unset: the service's own secret files_secret_key"`
}

const (
	// NoFiles is the choice of ROUNDS_FILES that stores no files.
	NoFiles = "none"

	// filesFolder is the directory of files within the data directory.
	filesFolder = "files"

	bucketScheme = "s3://"
)

// FilePlace is where files are stored: in a directory, in a bucket, or, if it is zero, nowhere.
type FilePlace struct {
	Directory string
	Bucket    *Bucket
}

// Bucket is a bucket of an S3-compatible service.
type Bucket struct {
	Name     string
	Prefix   string // of all objects' names; empty: none
	Region   string
	Endpoint string // the service's URL, without a path
	// PathStyle says whether the bucket is named in a URL's path and not in its host; nil: as the service
	// of the endpoint wants it.
	PathStyle *bool
}

// At returns where files are stored. Read has validated it.
func (f FileStore) At() FilePlace { return parseFilePlace(f.Place, func(string) {}) }

// parseFilePlace reads the value of ROUNDS_FILES, and calls fault with each thing that is wrong with it.
func parseFilePlace(place string, fault func(reason string)) FilePlace {
	switch {
	case place == "" || place == NoFiles:
		return FilePlace{}
	case strings.HasPrefix(place, bucketScheme):
		return FilePlace{Bucket: parseBucket(place, fault)}
	case strings.Contains(place, "://"):
		fault("must be a directory, or a bucket as s3://BUCKET?region=REGION")
		return FilePlace{}
	case strings.HasPrefix(place, "~"):
		fault("must be a directory: only a shell knows what ~ means, so write it out")
		return FilePlace{}
	}
	dir, err := filepath.Abs(place)
	if err != nil {
		fault("must be a directory: " + reasonOf(err))
	}
	return FilePlace{Directory: dir}
}

// parseBucket reads a bucket's URL.
func parseBucket(place string, fault func(reason string)) *Bucket {
	var (
		bucketName   = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
		objectPrefix = regexp.MustCompile(`^[A-Za-z0-9!_.*'()/-]{0,512}$`)
		regionName   = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
	)
	u, err := url.Parse(place)
	if err != nil || u.Fragment != "" {
		fault("must be a URL such as s3://BUCKET?region=REGION")
		return nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		fault("must have a query such as region=REGION")
	}
	if u.User != nil {
		fault("must not hold keys: they go into ROUNDS_FILES_ACCESS_KEY and ROUNDS_FILES_SECRET_KEY")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != "region" && name != "endpoint" && name != "path-style" {
			fault("must not have the parameter " + strconv.Quote(name) + ": only region, endpoint and path-style")
		} else if len(query[name]) > 1 {
			fault("must have " + name + " once")
		}
	}
	b := &Bucket{Name: u.Host, Prefix: strings.Trim(u.Path, "/"), Region: query.Get("region"), Endpoint: strings.TrimRight(query.Get("endpoint"), "/")}
	if !bucketName.MatchString(b.Name) || strings.Contains(b.Name, "..") {
		fault("must name a bucket behind s3://: 3 to 63 lower-case letters, digits, dots or dashes")
	}
	if !objectPrefix.MatchString(b.Prefix) || b.Prefix != "" && path.Clean("/"+b.Prefix) != "/"+b.Prefix {
		fault("must have a prefix of at most 512 letters, digits and !_.*'()/-, without empty parts")
	}
	switch {
	case b.Region == "" && b.Endpoint == "":
		fault("must have region=REGION, or endpoint=https://HOST for a service other than Amazon's")
	case b.Region == "":
		b.Region = "us-east-1" // as services take it that have no regions
	case !regionName.MatchString(b.Region):
		fault("must have a region such as eu-central-1")
	}
	if b.Endpoint == "" {
		b.Endpoint = "https://s3." + b.Region + ".amazonaws.com"
		if strings.HasPrefix(b.Region, "cn-") {
			b.Endpoint += ".cn"
		}
	} else if e, err := url.Parse(b.Endpoint); err != nil || e.Scheme != "https" && e.Scheme != "http" || e.Hostname() == "" || e.User != nil || e.Path != "" || e.RawQuery != "" || e.Fragment != "" {
		fault("must have an endpoint such as https://HOST or https://HOST:PORT, without a path")
	}
	if text := query.Get("path-style"); query.Has("path-style") {
		if text != "true" && text != "false" {
			fault("must have path-style=true or path-style=false")
		}
		byPath := text == "true"
		b.PathStyle = &byPath
	}
	return b
}

// ReadFileStore reads only what service.OpenFiles needs, for a command that stores files without the
// service.
func ReadFileStore(lookup Lookup, flags *pflag.FlagSet) (Settings, error) {
	var part struct {
		Redis     Redis
		Poller    Poller
		FileStore FileStore
	}
	r := newReading(lookup, flags)
	r.fill(&part)
	r.checkRedis(&part.Redis)
	r.placeData(&part.Redis)
	s := Settings{Redis: part.Redis, Poller: part.Poller, FileStore: part.FileStore}
	r.checkFileStore(&s)
	return s, errors.Join(r.faults...)
}

// checkFileStore validates where files are stored, and finds a place if no setting says so.
func (r *reading) checkFileStore(s *Settings) {
	if s.FileStore.Place == "" && s.Redis.InDataDir() {
		s.FileStore.Place = filepath.Join(s.Redis.DataDir, filesFolder)
	}
	wrong := false
	at := parseFilePlace(s.FileStore.Place, func(reason string) {
		r.fault("ROUNDS_FILES", reason)
		wrong = true
	})
	if at.Directory != "" {
		s.FileStore.Place = at.Directory
	}
	access, secret := s.FileStore.AccessKey != "", s.FileStore.SecretKey != ""
	switch {
	case wrong:
	case (access || secret) && at.Bucket == nil:
		r.fault("ROUNDS_FILES", "must be a bucket where ROUNDS_FILES_ACCESS_KEY or ROUNDS_FILES_SECRET_KEY is set")
	case access && !secret:
		r.fault("ROUNDS_FILES_SECRET_KEY", "must be set where ROUNDS_FILES_ACCESS_KEY is")
	case secret && !access:
		r.fault("ROUNDS_FILES_ACCESS_KEY", "must be set where ROUNDS_FILES_SECRET_KEY is")
	}
}

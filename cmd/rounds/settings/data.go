package settings

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
)

// dataFolder is the folder of this program in a user's state directory.
const dataFolder = "rounds"

var errHomeless = errors.New("the environment names no home directory")

// placeData finds where the Redis inside the process stores its data, if no setting says so. A
// caller without an environment has no such place.
func (r *reading) placeData(s *Redis) {
	s.DataGiven = s.DataDir != ""
	if r.flagOf("ROUNDS_DATA_DIR") != nil && s.DataGiven && s.URL != "" {
		if r.flagOf("ROUNDS_REDIS_URL") != nil {
			r.fault("ROUNDS_DATA_DIR", "must not be given with --redis-url: either has everything")
			return
		}
		s.URL = "" // flags override the environment
	}
	switch {
	case s.URL != "" || s.DataDir == Memory:
	case strings.HasPrefix(s.DataDir, "~"):
		r.fault("ROUNDS_DATA_DIR", "must be a directory: only a shell knows what ~ means, so write it out")
	case s.DataDir != "":
		path, err := filepath.Abs(s.DataDir)
		if err != nil {
			r.fault("ROUNDS_DATA_DIR", "must be a directory: "+reasonOf(err))
			return
		}
		s.DataDir = path
	case r.lookup != nil:
		if state, err := stateDir(runtime.GOOS, r.lookup); err == nil {
			s.DataDir = filepath.Join(state, dataFolder)
		}
	}
}

// stateDir returns the user's directory for data that programs store between runs, by the
// convention of the operating system. Relative paths are ignored, as the XDG Base Directory
// Specification demands.
func stateDir(system string, lookup Lookup) (string, error) {
	from := func(name string, below ...string) (string, bool) {
		path, ok := lookup(name)
		// filepath judges paths by the rules of this system only.
		if !ok || path == "" || system == runtime.GOOS && !filepath.IsAbs(path) {
			return "", false
		}
		return filepath.Join(append([]string{path}, below...)...), true
	}
	var path string
	var ok bool
	switch system {
	case "windows":
		path, ok = from("LocalAppData")
	case "darwin", "ios":
		path, ok = from("HOME", "Library", "Application Support")
	default:
		if path, ok = from("XDG_STATE_HOME"); !ok {
			path, ok = from("HOME", ".local", "state")
		}
	}
	if !ok {
		return "", errHomeless
	}
	return path, nil
}

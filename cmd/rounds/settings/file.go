package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const (
	fileSetting = "ROUNDS_SETTINGS_FILE"
	maxFile     = 1 << 20 // bytes

	// namesInFile is a name for which a lookup returns the names in its file. No variable has this
	// name.
	namesInFile = "="
)

// Source reads the settings file of a process again and again. It remembers what the file looked
// like, to notice when a part of it is missing. The zero value has read nothing yet.
type Source struct {
	filled bool // there were settings
	ended  bool // the last line had a newline
}

// Layer returns a lookup of the environment and, for variables that the environment lacks, of the
// file that ROUNDS_SETTINGS_FILE names, as it is now. It is for Read, ReadAccess and ReadPoller,
// and for secrets. Without such a file it is the environment alone.
//
// The error has every fault of the file with its line, and never a value. The lookup
// has everything that could be read even then, so that Read can report its faults as
// well.
func Layer(environment Lookup, flags *pflag.FlagSet) (Lookup, error) {
	return new(Source).Layer(environment, flags)
}

// Layer is the function Layer for a file that was read before. A file may be read while somebody
// writes it, and an empty or cut file is as valid as any: all settings that it lacks would get
// their defaults. So it is a fault if the file had settings and now has none, or if its last line
// was ended and now is not.
func (s *Source) Layer(environment Lookup, flags *pflag.FlagSet) (Lookup, error) {
	r := newReading(environment, flags)
	path, ok := r.value(fileSetting)
	if !ok {
		return environment, nil
	}
	values, faults := s.read(path)
	for _, reason := range faults {
		r.fault(fileSetting, reason)
	}
	return func(name string) (string, bool) {
		if name == namesInFile {
			return strings.Join(slices.Sorted(maps.Keys(values)), "\n"), true
		}
		if environment != nil {
			if value, ok := environment(name); ok && strings.TrimSpace(value) != "" {
				return value, true
			}
		}
		value, ok := values[name]
		return value, ok
	}, errors.Join(r.faults...)
}

// ChangedUsers returns the names of variables in the settings file that are no settings, such as
// secrets, whose values differ between two lookups of Layer.
func ChangedUsers(was, is Lookup) (changed []string) {
	names := make(map[string]bool)
	for _, lookup := range []Lookup{was, is} {
		if lookup == nil {
			continue
		}
		text, _ := lookup(namesInFile)
		for name := range strings.SplitSeq(text, "\n") {
			names[name] = isUsers(name)
		}
	}
	value := func(lookup Lookup, name string) string {
		if lookup == nil {
			return ""
		}
		text, _ := lookup(name)
		return text
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] && value(was, name) != value(is, name) {
			changed = append(changed, name)
		}
	}
	return changed
}

// read reads the file at a path, and compares it with its last state.
func (s *Source) read(path string) (values map[string]string, faults []string) {
	text, err := readText(path)
	if err != nil {
		return nil, []string{err.Error()}
	}
	values, faults = parse(text)
	ended := strings.HasSuffix(text, "\n")
	switch {
	case len(faults) > 0:
	case s.filled && len(values) == 0:
		faults = append(faults, "had settings when it was read before, and has none: it may have been read while it was written; a restart takes it as it is")
	case s.ended && !ended:
		faults = append(faults, "its last line has no newline, and had one when it was read before: it may be cut off; end the line")
	case len(values) > 0:
		s.filled, s.ended = true, ended
	}
	return values, faults
}

// readText returns the whole file, unless the file changes while it is read.
func readText(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", errors.New("must be a file that can be read: " + reasonOf(err))
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return "", errors.New("must be a regular file of at most 1 MiB")
	}
	file, err := os.Open(path)
	if err != nil {
		return "", errors.New("must be a file that can be read: " + reasonOf(err))
	}
	defer func() { _ = file.Close() }() // it is only read
	return readWhole(file)
}

// readWhole reads a file that must not change while it is read.
func readWhole(file fs.File) (string, error) {
	before, err := file.Stat()
	if err != nil {
		return "", errors.New(reasonOf(err))
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return "", errors.New(reasonOf(err))
	}
	after, err := file.Stat()
	if err != nil {
		return "", errors.New(reasonOf(err))
	}
	if size := int64(len(text)); size != before.Size() || size != after.Size() || !before.ModTime().Equal(after.ModTime()) {
		return "", errors.New("changed while it was read: read it again, and replace it by renaming a finished file")
	}
	return string(text), nil
}

// parse reads NAME=VALUE lines, in the form of systemd's EnvironmentFile: empty lines
// and those that begin with # are skipped, and quotes around a value are not part of it.
func parse(text string) (values map[string]string, faults []string) {
	known := namesOf(all())
	values = make(map[string]string)
	n := 0
	for line := range strings.Lines(text) {
		n++
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("line %d: ", n)+fmt.Sprintf(format, args...))
		}
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch _, twice := values[name]; {
		case !ok || !isName(name): // not quoted: it may be a secret
			fault("must be NAME=VALUE")
		case name == fileSetting:
			fault("a settings file must not name another one")
		case !known[name] && !isUsers(name):
			fault("no setting is named %s%s", name, maybe(Likely(name)))
		case twice:
			fault("%s appears twice", name)
		default:
			if value, ok = unquoted(value); !ok {
				fault("%s: a quote is not closed", name)
			}
			values[name] = value
		}
	}
	return values, faults
}

func maybe(likely string) string {
	if likely == "" {
		return ""
	}
	return ": is it " + likely + "?"
}

func isName(text string) bool {
	for _, c := range []byte(text) {
		if c != '_' && c != '-' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return text != ""
}

// unquoted returns a value without the quotes around it.
func unquoted(value string) (string, bool) {
	if value == "" || value[0] != '"' && value[0] != '\'' {
		return value, true
	}
	if len(value) < 2 || value[len(value)-1] != value[0] {
		return "", false
	}
	return value[1 : len(value)-1], true
}

package settings

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

const (
	fileSetting = "ROUNDS_SETTINGS_FILE"
	maxFile     = 1 << 20 // bytes
)

// Layer returns a lookup of the environment and, for variables that it lacks, of the file
// that ROUNDS_SETTINGS_FILE names, as it is now. It is for Read, ReadAccess and
// ReadPoller, and for secrets. Without such a file it is the environment alone.
//
// The error has every fault of the file with its line, and never a value. What could be
// read is returned all the same, so that Read can report its faults as well.
func Layer(environment Lookup, flags *pflag.FlagSet) (Lookup, error) {
	r := newReading(environment, flags)
	path, ok := r.value(fileSetting)
	if !ok {
		return environment, nil
	}
	values, faults := readFile(path)
	for _, reason := range faults {
		r.fault(fileSetting, reason)
	}
	return func(name string) (string, bool) {
		if environment != nil {
			if value, ok := environment(name); ok && strings.TrimSpace(value) != "" {
				return value, true
			}
		}
		value, ok := values[name]
		return value, ok
	}, errors.Join(r.faults...)
}

// readFile reads NAME=VALUE lines, in the form of systemd's EnvironmentFile: empty lines
// and those that begin with # are skipped, and quotes around a value are not part of it.
func readFile(path string) (values map[string]string, faults []string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, []string{"must be a file that can be read: " + reasonOf(err)}
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, []string{"must be a regular file of at most 1 MiB"}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, []string{"must be a file that can be read: " + reasonOf(err)}
	}
	defer func() { _ = file.Close() }() // it is only read
	known := make(map[string]bool)
	for _, s := range All() {
		known[s.Name] = true
	}
	values = make(map[string]string)
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxFile+1)
	for n := 1; lines.Scan(); n++ {
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("line %d: ", n)+fmt.Sprintf(format, args...))
		}
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch _, twice := values[name]; {
		case !ok || !isName(name): // it may be a secret: not quoted
			fault("must be NAME=VALUE")
		case name == fileSetting:
			fault("a settings file must not name another one")
		case !known[name] && !isUsers(name):
			fault("no setting is named %s%s", name, maybe(Likely(name)))
		case twice:
			fault("%s is there twice", name)
		default:
			if value, ok = unquoted(value); !ok {
				fault("%s: a quote is not closed", name)
			}
			values[name] = value
		}
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, reasonOf(err))
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

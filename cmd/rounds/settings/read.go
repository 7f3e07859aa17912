package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"
	"github.com/spf13/pflag"
)

// Lookup finds a variable of the environment, as os.LookupEnv does.
type Lookup func(name string) (value string, ok bool)

// Fault is what is wrong with a setting.
type Fault struct {
	Name   string // of its variable, such as ROUNDS_LIMITS
	Reason string // without the value, which may be a secret
}

// Error returns the fault as a line of text.
func (f Fault) Error() string { return f.Name + ": " + f.Reason }

// Faults are several faults: the error of a check that found every one.
type Faults []Fault

// Error returns each fault on a line of its own.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// reading is a reading of settings, with everything wrong so far.
type reading struct {
	lookup Lookup
	flags  *pflag.FlagSet
	faults []error
	bad    map[string]bool // names with a fault
}

func newReading(lookup Lookup, flags *pflag.FlagSet) *reading {
	return &reading{lookup: lookup, flags: flags, bad: make(map[string]bool)}
}

// Read reads the service's settings: flags override the environment, which overrides the defaults.
// flags and lookup may be nil. The error names every bad setting with its value.
//
// checks validate what this package cannot. Their faults are reported like those found
// here, unless the setting already has a fault: one mistake is one line.
func Read(lookup Lookup, flags *pflag.FlagSet, checks ...func(Settings) error) (Settings, error) {
	var s Settings
	r := newReading(lookup, flags)
	r.fill(&s)
	r.checkRedis(&s.Redis)
	r.placeData(&s.Redis)
	r.checkAccess(&s.Access)
	r.checkServed(&s)
	r.checkOIDC(&s)
	r.checkSeal(&s.Seal)
	r.checkAddresses(&s)
	r.checkTimes(&s)
	r.checkFileStore(&s)
	r.checkFile("ROUNDS_WEBHOOKS_FILE", s.Delivery.WebhooksFile)
	r.checkFile("ROUNDS_CALLBACKS_FILE", s.API.CallbacksFile)
	for _, check := range checks {
		r.add(check(s))
	}
	return s, errors.Join(r.faults...)
}

// ReadAccess reads only what a command needs to call the API, because a fault in the service's
// settings must not prevent that.
func ReadAccess(lookup Lookup, flags *pflag.FlagSet) (Access, error) {
	return readPart(lookup, flags, (*reading).checkAccess)
}

// ReadPoller reads only the settings of checkers, for a check without the service.
func ReadPoller(lookup Lookup, flags *pflag.FlagSet) (Poller, error) {
	return readPart[Poller](lookup, flags)
}

// ReadRedis reads only where Redis is and the namespace's name, for a command that uses
// Redis without the service.
func ReadRedis(lookup Lookup, flags *pflag.FlagSet) (Redis, error) {
	return readPart(lookup, flags, (*reading).checkRedis, (*reading).placeData)
}

func readPart[T any](lookup Lookup, flags *pflag.FlagSet, checks ...func(*reading, *T)) (T, error) {
	var part T
	r := newReading(lookup, flags)
	r.fill(&part)
	for _, check := range checks {
		check(r, &part)
	}
	return part, errors.Join(r.faults...)
}

// add notes the faults that another check found.
func (r *reading) add(err error) {
	var found Faults
	if !errors.As(err, &found) {
		if err != nil {
			r.faults = append(r.faults, err)
		}
		return
	}
	bad := maps.Clone(r.bad)
	for _, f := range found {
		if !bad[f.Name] {
			r.fault(f.Name, f.Reason)
		}
	}
}

// fill reads each field as a separate struct, because envconfig stops at the first error
// of a struct.
func (r *reading) fill(target any) {
	into := reflect.ValueOf(target).Elem()
	for _, s := range settingsOf(into.Type()) {
		field := into.Type().FieldByIndex(s.index)
		field.Index, field.Offset = nil, 0
		one := reflect.New(reflect.StructOf([]reflect.StructField{field}))
		err := envconfig.ProcessWith(context.Background(), &envconfig.Config{
			Target: one.Interface(), Lookuper: envconfig.LookuperFunc(r.value),
		})
		value := one.Elem().Field(0)
		if f := r.flagOf(s.Name); s.Name == "ROUNDS_ROLES" && f != nil && strings.TrimSpace(f.Value.String()) == "" {
			// Empty roles would become the default, all roles.
			r.fault(s.Name, "must name a role: "+s.allowed())
			continue
		}
		if err != nil || !within(s, value) {
			r.fault(s.Name, "must be "+s.allowed())
			continue
		}
		into.FieldByIndex(s.index).Set(value)
	}
}

// value finds a variable's value. An empty value counts as unset; envconfig would use
// it in place of the default.
func (r *reading) value(name string) (string, bool) {
	value, ok := "", false
	if r.lookup != nil {
		value, ok = r.lookup(name)
	}
	if f := r.flagOf(name); f != nil {
		value, ok = f.Value.String(), true
	}
	value = strings.TrimSpace(value)
	return value, ok && value != ""
}

// Given reports whether a variable, or its flag, is set to something.
func Given(lookup Lookup, flags *pflag.FlagSet, name string) bool {
	_, ok := newReading(lookup, flags).value(name)
	return ok
}

// flagOf returns the flag that was given for a variable.
func (r *reading) flagOf(name string) *pflag.Flag {
	if r.flags == nil {
		return nil
	}
	flag := setting{Name: name}.flag()
	for _, s := range all() {
		if s.Name == name {
			flag = s.flag()
		}
	}
	f := r.flags.Lookup(flag)
	if f == nil || !f.Changed {
		return nil
	}
	return f
}

// fault notes what is wrong with a variable, with its value unless the value is a
// secret.
func (r *reading) fault(name, reason string) {
	r.bad[name] = true
	subject := name
	if f := r.flagOf(name); f != nil {
		subject += " (given as --" + f.Name + ")"
	}
	value, given := r.value(name)
	for _, s := range all() {
		switch {
		case s.Name != name:
		case !given && s.Default != "":
			subject += fmt.Sprintf(" is %q by default", s.Default)
		case given && s.Secret == "":
			subject += fmt.Sprintf(" is %q", value)
		case given && s.Secret == "in part":
			subject += fmt.Sprintf(" is %q", MaskURL(value))
		}
	}
	r.faults = append(r.faults, fmt.Errorf("%s: %s", subject, reason))
}

// MaskURL hides everything in a URL that precedes its host or follows its path. It
// parses nothing, because a text that cannot be parsed may hold a password as well.
func MaskURL(rawURL string) string {
	if mark := strings.IndexAny(rawURL, "?#"); mark >= 0 && strings.Contains(rawURL[mark:], "@") {
		// The mark may belong to an unescaped password, and a password may follow it.
		scheme, _, ok := strings.Cut(rawURL[:mark], "://")
		if !ok {
			return "xxxxx"
		}
		return scheme + "://xxxxx"
	}
	rawURL, query, ok := strings.Cut(rawURL, "?")
	if ok && query != "" {
		rawURL += "?xxxxx"
	}
	at := strings.LastIndex(rawURL, "@")
	if at < 0 {
		return rawURL
	}
	scheme, _, ok := strings.Cut(rawURL[:at], "://")
	if !ok {
		return "xxxxx" + rawURL[at:]
	}
	return scheme + "://xxxxx" + rawURL[at:]
}

// within reports whether a value is within its setting's bounds or choices.
func within(s setting, value reflect.Value) bool {
	switch v := value.Interface().(type) {
	case int:
		least, _ := strconv.Atoi(s.min)
		most, _ := strconv.Atoi(s.max)
		return least <= v && v <= most
	case time.Duration:
		least, _ := time.ParseDuration(s.min)
		most, _ := time.ParseDuration(s.max)
		return least <= v && v <= most
	case string:
		return s.oneof == "" || strings.Contains(" "+s.oneof+" ", " "+v+" ")
	}
	return true
}

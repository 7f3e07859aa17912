package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"
	"github.com/spf13/pflag"
)

// reading is settings being read, with all that was wrong so far.
type reading struct {
	lookup func(string) (string, bool)
	flags  *pflag.FlagSet
	faults []error
	bad    map[string]bool // names with a fault
}

// readSettings reads the service's settings: flags before the environment before
// the defaults. The error names every bad one.
func readSettings(env environment, flags *pflag.FlagSet) (settings, error) {
	var s settings
	r := &reading{lookup: env.lookup, flags: flags, bad: make(map[string]bool)}
	r.fill(&s)
	r.checkRedis(&s.Redis)
	r.checkAccess(&s.Access)
	r.checkAddresses(&s)
	r.checkTimes(&s)
	r.checkLimits(env, &s)
	r.checkWebhooks(&s)
	r.checkCallbacks(env, &s)
	return s, errors.Join(r.faults...)
}

// readAccess reads what a command needs that calls the API, and nothing else: a
// fault in the service's settings must not keep anyone from asking it.
func readAccess(env environment, flags *pflag.FlagSet) (accessSettings, error) {
	var a accessSettings
	r := &reading{lookup: env.lookup, flags: flags, bad: make(map[string]bool)}
	r.fill(&a)
	r.checkAccess(&a)
	return a, errors.Join(r.faults...)
}

// fill reads each field as a struct of its own, because envconfig stops at the
// first error of a struct.
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
		if err != nil || !within(s, value) {
			r.fault(s.Name, "must be "+s.allowed())
			continue
		}
		into.FieldByIndex(s.index).Set(value)
	}
}

// value finds a variable's value. An empty one counts as unset: envconfig would
// take it for a value and leave the default out.
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

// flagOf gives the flag that was given for a variable.
func (r *reading) flagOf(name string) *pflag.Flag {
	if r.flags == nil {
		return nil
	}
	f := r.flags.Lookup(setting{Name: name}.flag())
	if f == nil || !f.Changed {
		return nil
	}
	return f
}

// fault notes what is wrong with a variable, with its value unless that is a
// secret.
func (r *reading) fault(name, reason string) {
	r.bad[name] = true
	subject := name
	if f := r.flagOf(name); f != nil {
		subject += " (given as --" + f.Name + ")"
	}
	value, given := r.value(name)
	for _, s := range settingsTable() {
		switch {
		case s.Name != name:
		case !given && s.Default != "":
			subject += fmt.Sprintf(" is %q by default", s.Default)
		case given && s.Secret == "":
			subject += fmt.Sprintf(" is %q", value)
		case given && s.Secret == "in part":
			subject += fmt.Sprintf(" is %q", withoutPassword(value))
		}
	}
	r.faults = append(r.faults, fmt.Errorf("%s: %s", subject, reason))
}

// withoutPassword hides what a URL has before its host and behind its path. It
// parses nothing, for what cannot be parsed may hold a password as well.
func withoutPassword(rawURL string) string {
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

// within reports whether a value keeps to its setting's bounds or choices.
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

package settings

import (
	"reflect"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// AddFlags adds a flag for every setting that is not a secret, except the flags of
// AddAccessFlags.
func AddFlags(flags *pflag.FlagSet) {
	access := make(map[string]bool)
	for _, s := range settingsOf(reflect.TypeFor[Access]()) {
		access[s.Name] = true
	}
	for _, s := range all() {
		if !access[s.Name] {
			addFlag(flags, s)
		}
	}
}

// AddAccessFlags adds the flags that every command has.
func AddAccessFlags(flags *pflag.FlagSet) {
	for _, s := range settingsOf(reflect.TypeFor[Access]()) {
		addFlag(flags, s)
	}
}

// AddRedisFlags adds the flags of the settings that callers of ReadRedis use.
func AddRedisFlags(flags *pflag.FlagSet) {
	for _, s := range settingsOf(reflect.TypeFor[Redis]()) {
		switch s.Name {
		case "ROUNDS_NAMESPACE", "ROUNDS_SHARDS":
		default:
			addFlag(flags, s)
		}
	}
}

// AddSealFlags adds the flags of the settings that callers of ReadSeal use besides
// those of AddRedisFlags.
func AddSealFlags(flags *pflag.FlagSet) {
	for _, s := range all() {
		switch s.Name {
		case "ROUNDS_NAMESPACE", "ROUNDS_SECRETS_KEY_FILE":
			addFlag(flags, s)
		}
	}
}

// AddCheckerFlags adds the flags of the settings that callers of ReadPoller use.
func AddCheckerFlags(flags *pflag.FlagSet) {
	for _, s := range all() {
		switch s.Name {
		case "ROUNDS_ALLOW_NETWORKS", "ROUNDS_ALLOW_PRIVATE_ADDRESSES", "ROUNDS_SECRETS_DIR", "ROUNDS_SECRETS_UNBOUND", "ROUNDS_SECRETS_PLAIN_HOSTS",
			"ROUNDS_CHECK_TIMEOUT", "ROUNDS_PROXY", "ROUNDS_NO_PROXY":
			addFlag(flags, s)
		}
	}
}

// Choices returns, by flag, the words of each setting with a few choices. The flag of the roles
// takes several, separated by commas.
func Choices() map[string][]string {
	choices := make(map[string][]string)
	for _, s := range all() {
		if name := s.flag(); name != "" && s.oneof != "" {
			choices[name] = strings.Fields(s.oneof)
		}
	}
	return choices
}

func addFlag(flags *pflag.FlagSet, s setting) {
	name := s.flag()
	if name == "" {
		return
	}
	usage := s.About + " [" + s.Name + "]"
	if s.Default != "" {
		usage += " (default " + s.Default + ")"
	}
	f := flags.VarPF(&flagText{setting: s}, name, "", usage)
	if s.kind.Kind() == reflect.Bool {
		f.NoOptDefVal = "true"
	}
}

// flagText is a flag's value as it was given. Read validates it together with the
// environment, so that all faults are found at once.
type flagText struct {
	setting setting
	text    string
}

// String implements pflag.Value.
func (f *flagText) String() string { return f.text }

// Set implements pflag.Value.
func (f *flagText) Set(text string) error {
	f.text = text
	return nil
}

// Type implements pflag.Value: the help shows it as the value.
func (f *flagText) Type() string {
	switch f.setting.kind {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[int]():
		return "number"
	case reflect.TypeFor[bool]():
		return "bool"
	}
	return "text"
}

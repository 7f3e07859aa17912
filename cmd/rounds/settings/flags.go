package settings

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// AddFlags adds a flag for every setting that is not a secret, except the flags of
// AddAccessFlags.
func AddFlags(flags *pflag.FlagSet) {
	access := namesOf(settingsOf(reflect.TypeFor[Access]()))
	addSome(flags, all(), func(name string) bool { return !access[name] })
}

// AddAccessFlags adds the flags that every command has.
func AddAccessFlags(flags *pflag.FlagSet) {
	addSome(flags, settingsOf(reflect.TypeFor[Access]()), func(string) bool { return true })
}

// AddRedisFlags adds the flags of the settings that callers of ReadRedis use.
func AddRedisFlags(flags *pflag.FlagSet) {
	addSome(flags, settingsOf(reflect.TypeFor[Redis]()), func(name string) bool { return name != "ROUNDS_NAMESPACE" && name != "ROUNDS_SHARDS" })
}

// AddSealFlags adds the flags of the settings that callers of ReadSeal use besides
// those of AddRedisFlags.
func AddSealFlags(flags *pflag.FlagSet) {
	addSome(flags, all(), func(name string) bool { return name == "ROUNDS_NAMESPACE" || name == "ROUNDS_SECRETS_KEY_FILE" })
}

// AddCheckerFlags adds the flags of the settings that callers of ReadPoller use.
func AddCheckerFlags(flags *pflag.FlagSet) {
	used := []string{"ROUNDS_ALLOW_NETWORKS", "ROUNDS_ALLOW_PRIVATE_ADDRESSES", "ROUNDS_SECRETS_DIR", "ROUNDS_SECRETS_UNBOUND", "ROUNDS_SECRETS_PLAIN_HOSTS",
		"ROUNDS_CHECK_TIMEOUT", "ROUNDS_PROXY", "ROUNDS_NO_PROXY", "ROUNDS_EGRESS"}
	addSome(flags, all(), func(name string) bool { return slices.Contains(used, name) })
}

func addSome(flags *pflag.FlagSet, from []setting, wanted func(name string) bool) {
	for _, s := range from {
		if wanted(s.Name) {
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

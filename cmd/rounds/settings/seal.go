package settings

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Seal is the keys of stored secrets. A process with a public key can store secrets,
// and a process with the private key can read them.
type Seal struct {
	PrivateKeys    string `env:"ROUNDS_SECRETS_KEY" live:"yes" secret:"yes" about:"private keys that open stored secrets, the newest first, separated by commas: for pollers, delivery and rounds secret rotate"`
	PrivateKeyFile string `env:"ROUNDS_SECRETS_KEY_FILE" live:"yes" about:"file that holds them, in place of ROUNDS_SECRETS_KEY"`
	PublicKey      string `env:"ROUNDS_SECRETS_PUBLIC_KEY" live:"yes" about:"public key that the API seals stored secrets for; unset: that of the newest private key"`
	PublicKeyFile  string `env:"ROUNDS_SECRETS_PUBLIC_KEY_FILE" live:"yes" about:"file that holds it, in place of ROUNDS_SECRETS_PUBLIC_KEY"`
}

// maxKeyFile is the most bytes of a file with keys.
const maxKeyFile = 64 << 10

// checkSeal reads keys from their files, if there are any. The code that uses the keys
// validates them.
func (r *reading) checkSeal(s *Seal) {
	r.fromFile("ROUNDS_SECRETS_KEY", s.PrivateKeyFile, &s.PrivateKeys)
	r.fromFile("ROUNDS_SECRETS_PUBLIC_KEY", s.PublicKeyFile, &s.PublicKey)
}

// fromFile reads a setting from a file, if NAME_FILE names one.
func (r *reading) fromFile(name, path string, into *string) {
	if path == "" {
		return
	}
	if *into != "" {
		r.fault(name+"_FILE", "must not be set where "+name+" is")
		return
	}
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxKeyFile) {
		err = errors.New("it is not a regular file of at most 64 KiB")
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	switch {
	case err != nil:
		r.fault(name+"_FILE", "must be a file that can be read: "+reasonOf(err))
	case strings.TrimSpace(string(text)) == "":
		r.fault(name+"_FILE", "must be a file that holds a key: it is empty")
	default:
		*into = strings.TrimSpace(string(text))
	}
}

// ReadSeal reads only where Redis is and the keys of stored secrets, for a command that
// seals the secrets again.
func ReadSeal(lookup Lookup, flags *pflag.FlagSet) (Redis, Seal, error) {
	var s struct {
		Redis Redis
		Seal  Seal
	}
	r := newReading(lookup, flags)
	r.fill(&s)
	r.checkRedis(&s.Redis)
	r.checkSeal(&s.Seal)
	return s.Redis, s.Seal, errors.Join(r.faults...)
}

package secrets

import (
	"encoding/json"
	"errors"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/accounts/strict"
)

// ErrNotReference reports a config value that should be a reference to a secret and is
// not. Its text says how to write one, and does not quote the value.
var ErrNotReference = errors.New(`must be {"secret": "NAME"}: records hold no secrets, ` +
	`put it into the file NAME of the secrets directory or into ` + EnvPrefix + `NAME`)

// Ref is a config value that refers to a secret. The zero Ref refers to none.
type Ref struct {
	Name string
}

// ParseRef reads a config value. Missing and null are the zero Ref. The error is
// ErrNotReference for a value that is not exactly a reference, and ErrName for a reference
// with a name that is not allowed.
func ParseRef(raw json.RawMessage) (Ref, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return Ref{}, nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || len(object) != 1 {
		return Ref{}, ErrNotReference
	}
	var name *string
	if json.Unmarshal(object["secret"], &name) != nil || name == nil {
		return Ref{}, ErrNotReference
	}
	if secret.ValidateName(*name) != nil {
		return Ref{}, ErrName
	}
	return Ref{Name: *name}, nil
}

// ReadRef reads a field of a form. It is the zero Ref if the field is missing, which is a fault
// if the field is required.
func ReadRef(v strict.Value) Ref {
	ref, err := ParseRef(v.Raw())
	if err != nil {
		v.Refuse(err)
	}
	return ref
}

// IsZero reports whether there is no reference.
func (r Ref) IsZero() bool { return r.Name == "" }

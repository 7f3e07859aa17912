package access

import (
	"fmt"
	"strings"
)

// Role says what a principal may do. A role includes those before it, except that Sender stands
// beside Operator and Editor: it includes Viewer only, and only Admin includes it. The zero
// Role may do nothing.
type Role uint8

// The roles.
const (
	Viewer   Role = iota + 1 // reads
	Sender                   // sends in the name of accounts, and says what became of sends
	Operator                 // nudges, pauses, resumes, revives, replays
	Editor                   // registers, changes, deletes, imports
	Admin                    // does everything else
)

// names are the roles' words, by role.
var names = [...]string{Viewer: "viewer", Sender: "sender", Operator: "operator", Editor: "editor", Admin: "admin"}

// Roles returns all roles, the least one first.
func Roles() []Role { return []Role{Viewer, Sender, Operator, Editor, Admin} }

// ParseRole reads a role's word. Its error lists the known words.
func ParseRole(word string) (Role, error) {
	for _, role := range Roles() {
		if word == names[role] {
			return role, nil
		}
	}
	return 0, fmt.Errorf("role: must be one of %s, is %q", strings.Join(names[Viewer:], ", "), word)
}

// Valid reports whether there is such a role.
func (r Role) Valid() bool { return r >= Viewer && r <= Admin }

// Includes reports whether the role may do what the other one may. It is false if either
// role is not valid.
func (r Role) Includes(other Role) bool {
	if !r.Valid() || !other.Valid() {
		return false
	}
	if other == Sender {
		return r == Sender || r == Admin
	}
	return r >= other
}

// String returns the role's word, or "none" for a role that is not valid.
func (r Role) String() string {
	if !r.Valid() {
		return "none"
	}
	return names[r]
}

// MarshalText returns the role's word. It returns an error for a role that is not valid.
func (r Role) MarshalText() ([]byte, error) {
	if !r.Valid() {
		return nil, fmt.Errorf("role: there is no %d", uint8(r))
	}
	return []byte(names[r]), nil
}

// UnmarshalText reads a role's word.
func (r *Role) UnmarshalText(text []byte) error {
	role, err := ParseRole(string(text))
	if err != nil {
		return err
	}
	*r = role
	return nil
}

package signin

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/access"
)

// maxGrants is the most grants, and maxGroup the most bytes of a group's name. They are
// limited because sessions store groups.
const (
	maxGrants = 200
	maxGroup  = 256
)

// Grant says what the members of a group may do.
type Grant struct {
	Group  string
	Role   access.Role
	Labels access.Labels // only accounts with all of them; empty: all accounts
}

var grantForm = regexp.MustCompile(`^(.+?)=(viewer|sender|operator|editor|admin)((?:\s+[^\s=]+=\S*)*)$`)

// ParseGrants reads grants, separated by semicolons. Each is GROUP=ROLE, followed by labels
// that the role is bound to, such as
//
//	ops=admin; cn=press,dc=example=editor team=press; everyone=viewer
//
// The error lists every fault.
func ParseGrants(text string) ([]Grant, error) {
	var grants []Grant
	var errs []error
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		form := grantForm.FindStringSubmatch(part)
		if form == nil || !utf8.ValidString(part) {
			errs = append(errs, fmt.Errorf("%q: must be GROUP=ROLE, with a role of viewer, sender, operator, editor or admin, and behind it labels NAME=VALUE", part))
			continue
		}
		grant := Grant{Group: strings.TrimSpace(form[1])}
		role, err := access.ParseRole(form[2])
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", part, err))
			continue
		}
		grant.Role = role
		for _, pair := range strings.Fields(form[3]) {
			name, value, _ := strings.Cut(pair, "=")
			if grant.Labels == nil {
				grant.Labels = make(access.Labels)
			}
			if _, twice := grant.Labels[name]; twice {
				errs = append(errs, fmt.Errorf("%q: the label %s appears twice", part, name))
			}
			grant.Labels[name] = value
		}
		switch {
		case grant.Group == "" || len(grant.Group) > maxGroup:
			errs = append(errs, fmt.Errorf("%q: the group must have 1 to %d bytes", part, maxGroup))
		case slices.ContainsFunc(grants, func(g Grant) bool { return g.Group == grant.Group }):
			errs = append(errs, fmt.Errorf("the group %q appears twice", grant.Group))
		}
		grants = append(grants, grant)
	}
	if len(grants) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("must grant a role to at least one group, as GROUP=ROLE"))
	}
	if len(grants) > maxGrants {
		errs = append(errs, fmt.Errorf("must be at most %d, are %d", maxGrants, len(grants)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return grants, nil
}

// granted returns the groups of a person that have a grant.
func granted(grants []Grant, groups []string) []string {
	var all []string
	for _, g := range grants {
		if slices.Contains(groups, g.Group) {
			all = append(all, g.Group)
		}
	}
	return all
}

// grantOf returns the grant of a person. If several of the person's groups have one, it is
// the first in the list. It returns false if none has.
func grantOf(grants []Grant, groups []string) (Grant, bool) {
	i := slices.IndexFunc(grants, func(g Grant) bool { return slices.Contains(groups, g.Group) })
	if i < 0 {
		return Grant{}, false
	}
	return grants[i], true
}

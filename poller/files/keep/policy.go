package keep

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ParsePolicies reads policies by kind, such as "feed=demand,telegram=all". Kinds are those whose
// messages carry files. The error has every fault, each in a line of its own.
func ParsePolicies(text string, kinds []string) (map[string]Policy, error) {
	policies := make(map[string]Policy)
	var errs []error
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		kind, word, _ := strings.Cut(part, "=")
		kind, policy := strings.TrimSpace(kind), Policy(strings.TrimSpace(word))
		switch {
		case !slices.Contains([]Policy{All, Demand, None}, policy):
			errs = append(errs, fmt.Errorf("%q: must be KIND=all, KIND=demand or KIND=none", part))
		case !slices.Contains(kinds, kind):
			errs = append(errs, fmt.Errorf("%q: is none of the kinds whose messages carry files: %s", kind, strings.Join(kinds, ", ")))
		case policies[kind] != "":
			errs = append(errs, fmt.Errorf("%q: is named twice", kind))
		default:
			policies[kind] = policy
		}
	}
	return policies, errors.Join(errs...)
}

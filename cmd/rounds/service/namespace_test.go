package service

import (
	"strings"
	"testing"
	"time"
)

// A name that a process had before, or that one has replaced, is no user of a namespace.
func TestFormerNamesAreNoUsers(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	user := func(name, roles string, silent, began time.Duration, host string) NamespaceUser {
		about := []byte(`{"host":"` + host + `","since":"` + now.Add(-began).Format(time.RFC3339) + `"}`)
		return NamespaceUser{Name: name, Roles: roles, Silent: silent, About: about}
	}
	for name, test := range map[string]struct {
		all  []NamespaceUser
		want string
	}{
		"renamed":               {[]NamespaceUser{user("new", "api", 1*time.Second, time.Hour, "h"), user("old", "api", 20*time.Second, time.Hour, "h")}, "new"},
		"replaced":              {[]NamespaceUser{user("new", "api", 1*time.Second, 15*time.Second, "h"), user("old", "api", 20*time.Second, time.Hour, "h")}, "new"},
		"two of a host":         {[]NamespaceUser{user("a", "api", 1*time.Second, time.Hour, "h"), user("b", "api", 2*time.Second, 2*time.Hour, "h")}, "a b"},
		"one that is not dead":  {[]NamespaceUser{user("a", "api", 1*time.Second, 2*time.Second, "h"), user("b", "api", 2*time.Second, 2*time.Hour, "h")}, "a b"},
		"one that began before": {[]NamespaceUser{user("a", "api", 1*time.Second, 30*time.Second, "h"), user("b", "api", 20*time.Second, 2*time.Hour, "h")}, "a b"},
		"another host":          {[]NamespaceUser{user("a", "api", 1*time.Second, 15*time.Second, "h"), user("b", "api", 20*time.Second, time.Hour, "i")}, "a b"},
		"other roles":           {[]NamespaceUser{user("a", "api", 1*time.Second, 15*time.Second, "h"), user("b", "poller", 20*time.Second, time.Hour, "h")}, "a b"},
		"nothing known":         {[]NamespaceUser{{Name: "a", Roles: "api"}, {Name: "b", Roles: "api", Silent: time.Second}, {Name: "c"}}, "a b c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var left []string
			for _, p := range withoutFormer(test.all, now) {
				left = append(left, p.Name)
			}
			if got := strings.Join(left, " "); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

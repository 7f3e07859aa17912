package access_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
)

func TestRolesAreOrdered(t *testing.T) {
	roles := access.Roles()
	if len(roles) != 5 || !slices.IsSorted(roles) {
		t.Fatalf("got %v", roles)
	}
	for i, role := range roles {
		for j, other := range roles {
			// Sender stands beside operator and editor.
			want := i >= j && (other != access.Sender || role == access.Sender || role == access.Admin)
			if got := role.Includes(other); got != want {
				t.Errorf("%s includes %s: got %t", role, other, got)
			}
		}
		for _, none := range []access.Role{0, access.Admin + 1, 255} {
			if role.Includes(none) || none.Includes(role) || none.Includes(none) || none.Valid() {
				t.Errorf("%s and what is no role (%d): one includes the other", role, none)
			}
		}
	}
}

func TestRolesAreWords(t *testing.T) {
	for _, role := range access.Roles() {
		got, err := access.ParseRole(role.String())
		if err != nil || got != role {
			t.Errorf("%s: got %s, %v", role, got, err)
		}
		text, err := json.Marshal(map[string]access.Role{"role": role})
		if err != nil || string(text) != `{"role":"`+role.String()+`"}` {
			t.Errorf("%s as JSON: got %s, %v", role, text, err)
		}
		var back struct{ Role access.Role }
		if err := json.Unmarshal(text, &back); err != nil || back.Role != role {
			t.Errorf("%s from JSON: got %s, %v", role, back.Role, err)
		}
	}
	for _, word := range []string{"", "none", "Admin", "admin ", "root", "viewer,editor"} {
		if got, err := access.ParseRole(word); err == nil || got.Valid() || !strings.Contains(err.Error(), "viewer, sender, operator, editor, admin") {
			t.Errorf("%q: got %s, %v", word, got, err)
		}
		var role access.Role
		if err := role.UnmarshalText([]byte(word)); err == nil || role != 0 {
			t.Errorf("%q as text: got %s, %v", word, role, err)
		}
	}
	for _, none := range []access.Role{0, access.Admin + 1} {
		if none.String() != "none" {
			t.Errorf("%d: got %s", none, none)
		}
		if text, err := none.MarshalText(); err == nil {
			t.Errorf("%d as text: got %s", none, text)
		}
	}
}

func TestPrincipal(t *testing.T) {
	press := access.Principal{Name: "press", Role: access.Editor, Labels: access.Labels{"team": "press"}, Via: access.ViaKey}
	both := access.Principal{Name: "both", Role: access.Viewer, Labels: access.Labels{"team": "press", "env": ""}, Via: access.ViaKey}
	if press.Bound() != true || access.Token().Bound() || access.Local().Bound() {
		t.Error("bound: only press is")
	}
	if !press.May(access.Operator) || !press.May(access.Editor) || press.May(access.Admin) || (access.Principal{}).May(access.Viewer) {
		t.Error("an editor may do what operators and editors may, and nobody nothing")
	}
	if !access.Token().May(access.Admin) || !access.Local().May(access.Admin) {
		t.Error("token and local are admins")
	}
	bot := access.Principal{Name: "bot", Role: access.Sender, Via: access.ViaKey}
	if !bot.May(access.Sender) || !bot.May(access.Viewer) || bot.May(access.Operator) || bot.May(access.Editor) {
		t.Error("a sender may read and send, and nothing else")
	}
	if press.May(access.Sender) || !access.Token().May(access.Sender) {
		t.Error("an editor may not send, and an admin may")
	}
	if got := both.Labels.String(); got != "env=,team=press" {
		t.Errorf("labels: got %s", got)
	}
	if labels := both.Labels; !maps.Equal(labels, access.Labels{"env": "", "team": "press"}) {
		t.Errorf("labels were changed: %v", labels)
	}
}

func TestContext(t *testing.T) {
	if p, ok := access.From(context.Background()); ok || p.May(access.Viewer) {
		t.Errorf("nobody: got %+v, %t", p, ok)
	}
	ctx := access.With(context.Background(), access.Token())
	if p, ok := access.From(ctx); !ok || p.Name != access.TokenName || p.Via != access.ViaToken {
		t.Errorf("token: got %+v, %t", p, ok)
	}
	if p, ok := access.From(access.With(ctx, access.Local())); !ok || p.Via != access.ViaLocal {
		t.Errorf("the one put last holds: got %+v, %t", p, ok)
	}
}

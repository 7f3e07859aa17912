package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
)

func TestMaintenance(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	if _, _, err := f.api.options.Registry.Put(t.Context(), accounts.Account{ID: "a", Kind: "plain", Labels: map[string]string{"team": "press"}}); err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"labels":{"team":"press"},"lasts":"4h"}`:                                        "reason",
		`{"lasts":"4h","reason":"why"}`:                                                   "host",
		`{"host":"a.example","reason":"why"}`:                                             "until",
		`{"host":"a.example","reason":"why","lasts":"4h","until":"2099-01-01T00:00:00Z"}`: "until",
		`{"host":"a.example","reason":"why","lasts":"31d"}`:                               "until",
		`{"host":"a.example","reason":"why","lasts":"soon"}`:                              "lasts",
	} {
		if got := f.errorReply(http.MethodPut, "/v1/maintenance/disks", body, http.StatusUnprocessableEntity); !strings.Contains(fmt.Sprint(got), want) {
			t.Errorf("%s: %v", body, got)
		}
	}
	for range 2 { // it is safe to repeat
		var w MaintenanceWindow
		if f.call(http.MethodPut, "/v1/maintenance/disks", `{"labels":{"team":"press"},"lasts":"4h","reason":"new disks"}`, http.StatusOK, &w); !w.Open || w.By == "" {
			t.Fatalf("%+v", w)
		}
	}
	var list MaintenanceList
	if f.call(http.MethodGet, "/v1/maintenance", "", http.StatusOK, &list); len(list.Windows) != 1 || list.Windows[0].Whom() != "team=press" {
		t.Errorf("%+v", list)
	}
	var why Schedule
	if f.call(http.MethodGet, "/v1/accounts/a/schedule", "", http.StatusOK, &why); len(why.Maintenance) != 1 || why.Maintenance[0].Reason != "new disks" {
		t.Errorf("%+v", why.Maintenance)
	}
	f.call(http.MethodDelete, "/v1/maintenance/disks", "", http.StatusNoContent, nil)
	f.call(http.MethodDelete, "/v1/maintenance/disks", "", http.StatusNotFound, nil)
}

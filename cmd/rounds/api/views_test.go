package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestSavedViews(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for body, want := range map[string]string{
		`{"of":"accounts","query":{"state":["odd"]}}`: "state",
		`{"of":"accounts","query":{"token":["a"]}}`:   "token",
		`{"of":"accounts","query":{}}`:                "query",
		`{"of":"sends","query":{"kind":["feed"]}}`:    "of",
	} {
		if got := f.errorReply(http.MethodPut, "/v1/views/a", body, http.StatusUnprocessableEntity); !strings.Contains(fmt.Sprint(got), want) {
			t.Errorf("%s: %v", body, got)
		}
	}
	const name = "%E6%96%B0%20of%2Fpress" // 新 of/press
	for range 2 {                         // it is safe to repeat
		var v SavedView
		if f.call(http.MethodPut, "/v1/views/"+name, `{"of":"accounts","query":{"state":["failing"],"label":["team=press"]}}`, http.StatusOK, &v); v.Name != "新 of/press" || v.By == "" || v.At.IsZero() {
			t.Fatalf("%+v", v)
		}
	}
	var list SavedViewList
	if f.call(http.MethodGet, "/v1/views", "", http.StatusOK, &list); len(list.Views) != 1 || list.Views[0].Text() != "label=team%3Dpress&state=failing" {
		t.Errorf("%+v", list)
	}
	f.call(http.MethodDelete, "/v1/views/"+name, "", http.StatusNoContent, nil)
	f.call(http.MethodDelete, "/v1/views/"+name, "", http.StatusNotFound, nil)
}

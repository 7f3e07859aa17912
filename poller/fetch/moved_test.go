package fetch

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func TestMoved(t *testing.T) {
	url := ""
	url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		status, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if code, err := strconv.Atoi(status); err == nil {
			http.Redirect(w, r, url+"/"+rest+"?key=k#part", code)
		}
	})
	for path, want := range map[string]string{
		"":                     "",
		"301/here":             "/here?key=k",
		"308/here":             "/here?key=k",
		"302/here":             "",
		"307/here":             "",
		"301/308/here":         "/here?key=k",
		"301/302/here":         "/302/here?key=k",
		"302/301/here":         "",
		"301/307/301/here":     "/307/301/here?key=k",
		"301/301/301/301/here": "/301/here?key=k", // the fourth redirect is beyond the limit, so it is the answer
	} {
		answer, err := client(t, Options{}).Do(t.Context(), Call{URL: url + "/" + path, MaxRedirects: 3})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if want != "" {
			want = url + want
		}
		if answer.Moved != want {
			t.Errorf("%s: got %s, want %s", path, answer.Moved, want)
		}
	}
}

// A redirect from https to http is never permanent, and neither are those after it.
func TestMovedNeverLeavesTLS(t *testing.T) {
	hop := func(from, to string) string {
		m := move{}
		at := from
		for next := range strings.FieldsSeq(to) {
			request := &http.Request{URL: mustParse(t, next), Response: &http.Response{StatusCode: http.StatusMovedPermanently}}
			m.follow(request, mustParse(t, at))
			at = next
		}
		return m.to
	}
	for _, c := range [][3]string{
		{"https://a/", "http://a/", ""},
		{"https://a/", "http://a/ https://a/", ""},
		{"https://a/", "https://b/ http://b/ https://c/", "https://b/"},
		{"http://a/", "https://a/ http://b/", "https://a/"},
		{"http://a/", "https://a/", "https://a/"},
		{"http://a/", "http://b/", "http://b/"},
	} {
		if got := hop(c[0], c[1]); got != c[2] {
			t.Errorf("%s by %s: got %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestSameOrigin(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"https://a/x", "https://A:443/y"}: true, {"http://a", "https://a"}: false, {"http://a", "http://a:81"}: false, {"://", "://"}: false,
	} {
		if got := SameOrigin(pair[0], pair[1]); got != want {
			t.Errorf("%q: got %v", pair, got)
		}
	}
}

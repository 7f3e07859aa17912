package service

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// TestBuildIsShown reads from the metrics of a process which program it runs.
func TestBuildIsShown(t *testing.T) {
	for name, tt := range map[string]struct{ version, commit, want string }{
		"a release": {"v1.2.3", "0123456789ab", `commit="0123456789ab"`},
		"go run":    {"(devel)", "", `commit=""`},
	} {
		w := httptest.NewRecorder()
		newExposition(tt.version, tt.commit).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		want := "\nrounds_build_info{" + tt.want + `,goarch="` + runtime.GOARCH + `",goos="` + runtime.GOOS + `",goversion="` + runtime.Version() + `",version="` + tt.version + "\"} 1\n"
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: there is no %s", name, want)
		}
	}
}

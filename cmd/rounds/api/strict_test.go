package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rounds-dev/rounds/circulate"
)

// asked makes a request and returns the status and the body of the reply.
func (f *fixture) asked(method, path, body string) (int, string) {
	f.Helper()
	r := f.do(f.request(method, path, body))
	return r.status, string(r.body)
}

// No route may accept ids that some decoder takes for other ids: two accounts would become
// one.
func TestIDsThatAlias(t *testing.T) {
	f := newFixture(t, nil)
	for name, c := range map[string]struct {
		method, path, body string
		field              string
	}{
		"half a pair":            {"POST", "/v1/accounts", `{"id":"a\ud800","kind":"plain"}`, `body.id"`},
		"another half":           {"PUT", "/v1/accounts/x", `{"id":"x\udc00","kind":"plain"}`, `body.id"`},
		"two ids":                {"PUT", "/v1/accounts/x", `{"id":"x","id":"y","kind":"plain"}`, `body.id"`},
		"not UTF-8 in a path":    {"PUT", "/v1/accounts/%ff", `{"kind":"plain"}`, `body.id"`},
		"a surrogate in a path":  {"PUT", "/v1/accounts/a%ED%A0%80", `{"kind":"plain"}`, `body.id"`},
		"half a pair in a list":  {"POST", "/v1/parked:revive", `{"ids":["a\ud800"]}`, `ids[0]`},
		"twice in a config":      {"PUT", "/v1/accounts/x", `{"kind":"plain","config":{"u":1,"u":2}}`, `config.u`},
		"a config that is deep":  {"PUT", "/v1/accounts/x", `{"kind":"plain","config":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`, `body.config"`},
		"a hint with half a one": {"POST", "/v1/accounts/x/nudge", `{"hint":"\ud800"}`, `hint`},
	} {
		status, body := f.asked(c.method, c.path, c.body)
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, c.field) {
			t.Errorf("%s: got %d: %s", name, status, body)
		}
	}
	status, body := f.asked("POST", "/v1/accounts:import", `{"id":"b\ud800","kind":"plain"}`+"\n"+`{"id":"c","kind":"plain"}`+"\n")
	if status != http.StatusOK || !strings.Contains(body, "surrogate") || !strings.Contains(body, `"created":1`) {
		t.Errorf("import: got %d: %s", status, body)
	}
	if _, body := f.asked("GET", "/v1/accounts", ""); strings.Contains(body, "\ufffd") || !strings.Contains(body, `"c"`) {
		t.Errorf("registered: %s", body)
	}
}

// A stored record may be too deep, because depth was not always checked. It must not keep the
// others out of lists.
func TestListingWithARecordThatIsTooDeep(t *testing.T) {
	f := newFixture(t, nil)
	for id, depth := range map[string]int{"deep": 9_990, "less": 70, "flat": 1} {
		record := `{"id":"` + id + `","kind":"plain","config":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`
		_, err := f.ring.Register(context.Background(), f.ring.ShardOf(id), []circulate.Registration{{ID: id, Record: []byte(record)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	status, body := f.asked("GET", "/v1/accounts", "")
	if status != http.StatusOK || !strings.Contains(body, `"flat"`) || !strings.Contains(body, `"deep"`) || strings.Count(body, "cannot be shown") != 2 {
		t.Errorf("got %d: %.2000s", status, body)
	}
	for _, path := range []string{"/v1/accounts/deep", "/v1/accounts/less", "/v1/accounts/flat", "/v1/accounts?kind=plain"} {
		if status, body := f.asked("GET", path, ""); status != http.StatusOK {
			t.Errorf("%s: got %d: %.500s", path, status, body)
		}
	}
	if status, body := f.asked("GET", "/v1/accounts:export", ""); status != http.StatusOK || strings.Count(body, "\n") < 3 {
		t.Errorf("export: got %d: %.500s", status, body)
	}
	if status, _ := f.asked("DELETE", "/v1/accounts/deep", ""); status/100 != 2 {
		t.Errorf("delete: got %d", status)
	}
}

// A message that is too deep does not keep others from being read either.
func TestMessagesWithOneThatIsTooDeep(t *testing.T) {
	for depth, shown := range map[int]bool{10: true, maxShownDepth: true, maxShownDepth + 1: false, 9_999: false} {
		data := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		m := messageOf(&circulate.Found{Message: circulate.Message{ID: "1", Data: []byte(data)}})
		if (m.Data[0] == '[') != shown {
			t.Errorf("%d deep: %.20s", depth, m.Data)
		}
	}
}

// A body that breaks off is the caller's fault. The answer and the trail say so.
func TestABodyThatBreaksOff(t *testing.T) {
	f := newFixture(t, nil)
	for _, path := range []string{"/v1/accounts", "/v1/parked:revive", "/v1/accounts/a/nudge", "/v1/reshard", "/v1/groups/g/read"} {
		answer := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "http://localhost"+path, io.MultiReader(strings.NewReader(`{"id":`), iotest.ErrReader(io.ErrUnexpectedEOF)))
		f.api.ServeHTTP(answer, r)
		var p problemBody
		if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil || answer.Code != 400 || p.Status != 400 || p.Title != "Bad Request" || p.Detail != "the body broke off before its end" || len(p.Errors) > 0 {
			t.Errorf("%s: %d, %s, %v", path, answer.Code, answer.Body, err)
		}
		if got := f.trail("limit=1"); path != "/v1/groups/g/read" && (len(got) != 1 || got[0].Outcome != "refused" || got[0].Status != 400) {
			t.Errorf("%s leaves %+v", path, got)
		}
	}
}

// A body may contain a secret under a misspelt name, so no problem quotes a body.
func TestProblemsQuoteNoBody(t *testing.T) {
	f := newFixture(t, nil)
	const secret = "s3cr3t-of-somebody"
	for _, c := range [][3]string{
		{"PUT", "/v1/secrets/KEY", `{"vaule":"` + secret + `"}`}, {"PUT", "/v1/secrets/KEY", `{"value":["` + secret + `"]}`}, {"PUT", "/v1/secrets/KEY", secret},
		{"POST", "/v1/keys", `{"name":"a","role":"` + secret + `"}`}, {"POST", "/v1/reshard", `{"shards":"` + secret + `"}`},
		{"POST", "/v1/accounts", `{"id":"a","kind":"plain","` + "labels" + `":{"a":["` + secret + `"]}}`}, {"PUT", "/v1/accounts/a", `"` + secret + `"`},
	} {
		r := f.do(f.request(c[0], c[1], c[2]))
		if r.status < 400 || r.status >= 500 || strings.Contains(r.body, secret) {
			t.Errorf("%s %s %s: %d %s", c[0], c[1], c[2], r.status, r.body)
		}
	}
	// A parameter is quoted, because it is no place for a secret.
	if r := f.do(f.request("GET", "/v1/accounts?limit=0", "")); !strings.Contains(r.body, `"value":0`) {
		t.Errorf("%s", r.body)
	}
}

package command

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// evil is a text that a third party may have written. It tries to make a terminal red, to
// clear it, to start a line of its own, and to reverse the direction of the text.
const evil = "\x1b[31mE\r\nFAKE LINE\tTAB\u202e\u009b2J\x07\u2028\U000e0041"

// fill sets every text within a value to evil, and every other field to something. Cursors
// stay empty, so that there is no other page.
func fill(v reflect.Value, name string, depth int) {
	if depth > 8 || !v.CanSet() || name == "Next" {
		return
	}
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(1_700_000_000, 0)))
		return
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		text, _ := json.Marshal(map[string]string{evil: evil})
		v.SetBytes(text)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(evil)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name, depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name, depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, "", depth+1)
		fill(value, "", depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name, depth+1)
		}
	}
}

func filled[T any]() []byte {
	var value T
	fill(reflect.ValueOf(&value).Elem(), "", 0)
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}

// hostileAPI answers every call with hostile texts in all places that hold a text. If refuse
// is set, it answers with a problem that quotes them.
func hostileAPI(t *testing.T, refuse bool) string {
	t.Helper()
	summary := []byte(`{"summary":{"matched":1,"changed":1,"seen":1}}` + "\n")
	answers := []struct {
		route string
		text  []byte
	}{
		{`GET /v1/accounts`, filled[api.AccountList]()},
		{`GET /v1/accounts/[^/]+/schedule`, filled[api.Schedule]()},
		{`GET (/v1/accounts/[^/]+/trail|/v1/trail)`, filled[api.TrailPage]()},
		{`GET /v1/accounts/[^/]+/timeline`, filled[api.TimelinePage]()},
		{`GET /v1/accounts/[^/]+/versions`, filled[api.AccountVersions]()},
		{`GET /v1/accounts/[^/]+/checks`, filled[api.AccountChecks]()},
		{`POST /v1/accounts/[^/]+/restore`, filled[api.Restored]()},
		{`GET /v1/problems`, filled[api.Problems]()},
		{`GET /v1/concerns`, filled[concern.Concerns]()},
		{`GET /v1/backup`, hostileBackup()},
		{`GET /v1/accounts:export`, filled[api.Account]()},
		{`POST /v1/accounts:import`, append(filled[api.BadLine](), `{"summary":{"lines":1,"failed":1}}`...)},
		{`POST /v1/accounts:(pause|resume|delete)`, append(filled[api.BulkLine](), summary...)},
		{`(POST /v1/accounts|(GET|PUT|PATCH) /v1/accounts/[^/]+)`, filled[api.Account]()},
		{`GET /v1/jobs`, filled[api.JobList]()},
		{`(GET|POST) /v1/jobs/.*`, filled[api.Job]()},
		{`GET /v1/dead`, filled[api.DeadList]()},
		{`POST /v1/dead:replay`, filled[api.Replayed]()},
		{`POST /v1/dead:drop`, filled[api.Dropped]()},
		{`GET /v1/kinds`, filled[api.KindList]()},
		{`GET /v1/groups`, filled[api.GroupList]()},
		{`POST /v1/groups/.*/read`, filled[api.GroupBatch]()},
		{`GET /v1/sessions`, filled[api.SessionList]()},
		{`GET /v1/backup:last`, filled[api.Backups]()},
		{`GET /v1/maintenance`, filled[api.MaintenanceList]()},
		{`PUT /v1/maintenance/[^/]+`, filled[api.MaintenanceWindow]()},
		{`GET /v1/views`, filled[api.SavedViewList]()},
		{`PUT /v1/views/[^/]+`, filled[api.SavedView]()},
		{`GET /v1/webhooks`, filled[api.WebhookList]()},
		{`GET /v1/webhooks/[^/]+`, filled[api.Webhook]()},
		{`PUT /v1/webhooks/[^/]+`, filled[api.WebhookStored]()},
		{`DELETE /v1/webhooks/[^/]+`, filled[api.WebhookRemoved]()},
		{`POST /v1/webhooks/[^/]+/test`, filled[api.WebhookTested]()},
		{`GET /v1/webhooks/[^/]+/attempts`, filled[api.WebhookAttempts]()},
		{`POST /v1/webhooks/[^/]+/retry`, filled[api.WebhookRetried]()},
		{`POST /v1/webhooks/[^/]+/skip`, filled[api.WebhookSkipped]()},
		{`GET /v1/messages/[^/]+`, hostileMessage()},
		{`GET /v1/messages/[^/]+/files/.*`, []byte("a stranger's bytes")},
		{`POST /v1/files`, filled[api.UploadedFile]()},
		{`POST /v1/accounts/[^/]+/sends`, filled[api.Send]()},
		{`GET /v1/sends`, filled[api.SendList]()},
		{`(GET|POST) /v1/sends/.*`, filled[api.Send]()},
		{`GET /v1/parked`, filled[api.ParkedList]()},
		{`POST /v1/parked:revive`, filled[api.Revived]()},
		{`GET /v1/stats`, filled[api.Stats]()},
		{`(GET|POST) /v1/audit.*`, filled[api.Audit]()},
		{`(GET|POST) /v1/reshard.*`, []byte(`{"from":4,"to":4}`)},
		{`POST /v1/reload`, filled[api.Reloaded]()},
		{`GET /v1/keys`, filled[api.KeyList]()},
		{`POST /v1/keys`, filled[api.NewKey]()},
		{`GET /v1/whoami`, filled[api.Caller]()},
		{`GET /v1/secrets`, filled[api.SecretList]()},
		{`PUT /v1/secrets/[^/]+`, filled[api.Secret]()},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			text, _ := json.Marshal(map[string]any{"detail": evil, "errors": []map[string]string{{"location": evil, "message": evil}}})
			_, _ = w.Write(text)
			return
		}
		route := r.Method + " " + r.URL.Path
		if route == "GET /v1/messages" {
			_, _ = fmt.Fprintf(w, "id: 1\ndata: %s\n", filled[api.Message]())
			return
		}
		for _, a := range answers {
			if regexp.MustCompile("^" + a.route + "$").MatchString(route) {
				_, _ = w.Write(a.text)
				return
			}
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// hostileMessage returns a message that carries two kept files with hostile names, and one that is lost.
func hostileMessage() []byte {
	m := api.Message{Files: []api.File{
		{Name: evil, State: "kept", URL: "/v1/messages/1:1-1/files/0"}, {N: 1, Name: "../" + evil, State: "kept", URL: "/v1/messages/1:1-1/files/1"}, {N: 2, Name: evil, State: "lost", Reason: evil},
	}}
	text, _ := json.Marshal(m) // it has nothing that cannot be written
	return append(text, '\n')
}

// hostileBackup returns a backup that verifies, of a namespace with a hostile name.
func hostileBackup() []byte {
	header, _ := json.Marshal(map[string]any{"header": map[string]any{"is": "rounds backup", "format": 1, "program": evil, "namespace": evil, "shards": 1, "time": time.Unix(1, 0)}})
	header = append(header, '\n')
	return fmt.Appendf(header, `{"end":{"groups":0,"accounts":0,"messages":0,"dead":0,"sha256":"%x"}}`+"\n", sha256.Sum256(header))
}

// obeys returns the part of a text that a terminal would obey, or that would look like a line
// of the program.
func obeys(text string) string {
	for _, c := range text {
		if c != '\n' && c != '\t' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c)) || c == '\u2028' {
			return fmt.Sprintf("%q", c)
		}
	}
	if strings.Contains(text, "\nFAKE LINE") {
		return "a line of its own"
	}
	return ""
}

// TestNothingOthersWroteIsObeyed runs every command that prints. The API, a feed and a
// connector send only hostile texts.
func TestNothingOthersWroteIsObeyed(t *testing.T) {
	t.Parallel()
	third := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, _ := json.Marshal(map[string]any{"messages": []map[string]any{{"id": evil, "type": evil, "data": map[string]string{evil: evil}}}, "next_cursor": evil, "error": nil})
		switch r.URL.Path {
		case "/feed":
			page = []byte("<rss version='2.0'><channel><title>\u202e</title><item><guid>\u202e\u009b2J&#9;</guid><title>\u009b31m&#10;FAKE LINE</title><link>javascript:alert(1)</link></item></channel></rss>")
		case "/error":
			page, _ = json.Marshal(map[string]any{"error": map[string]string{"kind": "config", "code": evil, "message": evil}})
		}
		_, _ = w.Write(page)
	}))
	defer third.Close()
	file := filepath.Join(t.TempDir(), "records.ndjson")
	if err := os.WriteFile(file, []byte(`{"id":"a","kind":"feed","config":{}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "saved.ndjson")
	if err := os.WriteFile(saved, hostileBackup(), 0o600); err != nil {
		t.Fatal(err)
	}
	reached := make(map[string]bool)
	run := func(url string, args ...string) {
		t.Helper()
		variables := map[string]string{"ROUNDS_API_URL": url, "ROUNDS_ALLOW_NETWORKS": "127.0.0.1", "VISUAL": "true", "ROUNDS_CHECK_TIMEOUT": "2s"}
		printed, err := runWith(t.Context(), variables, "value", args...)
		if cmd, _, found := newRoot(environment{}).Find(args); found == nil {
			reached[cmd.CommandPath()] = true
		}
		for _, text := range []string{printed.out, printed.err} {
			if what := obeys(text); what != "" {
				t.Errorf("rounds %s prints %s in\n%q", strings.Join(args, " "), what, text)
			}
		}
		if err == nil && printed.out == "" && printed.err == "" && !slices.Contains(args, "enable") {
			t.Errorf("rounds %s prints nothing", strings.Join(args, " "))
		}
	}
	for _, url := range []string{hostileAPI(t, false), hostileAPI(t, true)} {
		for _, line := range []string{
			"account add a --kind feed", "account edit a", "account export", "account get a", "account import " + file, "account list", "jobs list", "jobs show a", "jobs stop a", "jobs resume a", "jobs undo a", "account pause --all --job", "account list --sort due", "account nudge a",
			"account pause a", "account pause --all", "account resume a", "account rm a --yes", "account set a --every 1m", "account set --where kind=feed --every 1m", "account retry a", "account retry --all --job", "account why a", "account versions a", "account checks a", "account restore a 1-1 --yes", "account restore a 1-1 --dry-run",
			"audit", "doctor", "weixin login a", "mail login a --provider google", "dead drop 1:1-1", "dead list", "dead replay 1:1-1", "groups list", "kinds", "groups rm a --yes", "health --url " + url, "messages tail --from start --limit 1", "messages search a",
			"messages tail --group g --from start --limit 1", "backup " + filepath.Join(t.TempDir(), "b"), "restore " + saved + " --dry-run", "parked list", "parked revive a", "problems", "concerns list", "concerns acknowledge a", "concerns silence a --lasts 1h --reason r", "concerns unsilence a", "maintenance set a --host h --lasts 1h --reason r", "maintenance list", "maintenance end a", "views save a --where kind=feed", "views list", "views rm a", "sessions list", "sessions end a", "reload", "reshard --to 4", "stats", "trail", "webhooks enable a", "webhooks list",
			"webhooks add a https://a.example/", "webhooks add a --to kafka --set topic=t", "webhooks set a --new-key", "webhooks test a", "webhooks remove a --yes", "webhooks retry a", "webhooks show a", "webhooks attempts a", "webhooks skip a --yes", "key list", "key create a --role viewer", "key revoke a --yes", "whoami", "secret list", "secret set A", "secret rm A --yes",
			"send a --to b --text c", "send a --to b --file " + file, "messages save 1:1-1 --to " + t.TempDir(), "sends list", "sends show a", "sends cancel a", "sends retry a --yes", "sends resolve a --as accepted",
		} {
			args := strings.Fields(line)
			if cmd, rest, err := newRoot(environment{}).Find(args); err != nil || cmd == nil || len(rest) == len(args) {
				t.Errorf("there is no command %s", line)
				continue
			}
			run(url, args...)
			if cmd, _, err := newRoot(environment{}).Find(args); err == nil && cmd.Flags().Lookup("json") != nil {
				run(url, append(args, "--json")...)
			}
		}
	}
	for _, line := range []string{
		"check --kind feed --set url=" + third.URL + "/feed", "check --kind http --set url=" + third.URL + "/page", "check --kind http --set url=" + third.URL + "/error",
		"connector verify " + third.URL + "/page", "connector verify " + third.URL + "/error",
	} {
		run("http://127.0.0.1:1", strings.Fields(line)...)
		run("http://127.0.0.1:1", append(strings.Fields(line), "--json")...)
	}
	// A new command must appear in this test, unless it is known to print no text of others.
	ours := []string{"completion", "connector schema", "demo", "help", "serve", "settings", "version", "namespace rm", "secret keygen", "secret rotate"}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "rounds ")
		if slices.ContainsFunc(ours, func(known string) bool { return path == known || strings.HasPrefix(path, known+" ") }) {
			return
		}
		if len(cmd.Commands()) == 0 && !reached[cmd.CommandPath()] {
			t.Errorf("%q was not run: add it to this test", path)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(environment{}))
}

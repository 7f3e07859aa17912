package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// lines reads a reply line by line.
type jsonLines struct {
	*testing.T
	scanner *bufio.Scanner
}

func (l jsonLines) next(v any) {
	l.Helper()
	if !l.scanner.Scan() {
		l.Fatalf("no more lines: %v", l.scanner.Err())
	}
	if err := json.Unmarshal(l.scanner.Bytes(), v); err != nil {
		l.Fatalf("%v: %s", err, l.scanner.Text())
	}
}

func (l jsonLines) end() {
	l.Helper()
	if l.scanner.Scan() {
		l.Errorf("one line too many: %s", l.scanner.Text())
	}
}

func TestImport(t *testing.T) {
	f := newFixture(t, nil)
	var text strings.Builder
	for i := 1; i <= 3000; i++ {
		if i%300 == 0 {
			fmt.Fprintf(&text, "{\"id\":\"id-%d\",\"kind\":\"web\",\"x\":1}\n", i)
		} else {
			fmt.Fprintf(&text, "{\"id\":\"id-%d\",\"kind\":\"plain\"}\n", i)
		}
	}
	text.WriteString("not json")
	response, err := f.server.Client().Do(f.request("POST", "/v1/accounts:import", text.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %v", response.StatusCode, response.Header)
	}
	l := jsonLines{t, bufio.NewScanner(response.Body)}
	for i := 300; i <= 3000; i += 300 {
		var bad BadLine
		l.next(&bad)
		if bad.Line != i || bad.ID != fmt.Sprint("id-", i) || len(bad.Errors) != 2 || bad.Errors[0].Field != "x" || bad.Errors[1].Field != "config.url" {
			t.Errorf("bad line: %+v", bad)
		}
	}
	var bad BadLine
	l.next(&bad)
	if bad.Line != 3001 || bad.ID != "" || bad.Errors[0].Field != "record" {
		t.Errorf("bad line: %+v", bad)
	}
	var end ImportEnd
	l.next(&end)
	l.end()
	if want := (ImportEnd{Summary: ImportSummary{Lines: 3001, Created: 2990, Failed: 11}}); end != want {
		t.Errorf("end: %+v", end)
	}

	got := f.do(f.request("GET", "/v1/accounts:export", ""))
	if got.status != 200 || got.header.Get("Content-Type") != "application/x-ndjson" || strings.Count(got.body, "\n") != 2990 || strings.Contains(got.body, "state") {
		t.Fatalf("export: %d, %d lines", got.status, strings.Count(got.body, "\n"))
	}
	again := f.do(f.request("POST", "/v1/accounts:import", got.body))
	if want := `{"summary":{"lines":2990,"created":0,"updated":0,"unchanged":2990,"failed":0}}` + "\n"; again.body != want {
		t.Errorf("import of the export: %s", again.body)
	}
	if got := f.do(f.request("HEAD", "/v1/accounts:export", "")); got.status != 200 {
		t.Errorf("HEAD: %d", got.status)
	}
}

// startImport begins an import. The test sends its lines one by one.
func (f *fixture) startImport() (*io.PipeWriter, jsonLines) {
	f.Helper()
	in, out := io.Pipe()
	r := f.request("POST", "/v1/accounts:import", "")
	r.Body, r.ContentLength = in, -1
	response, err := f.server.Client().Do(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = response.Body.Close()
		_ = in.Close()
	})
	return out, jsonLines{f.T, bufio.NewScanner(response.Body)}
}

// The answer to a bad line comes before the end of the request.
func TestImportAnswersAsItGoes(t *testing.T) {
	f := newFixture(t, nil)
	out, l := f.startImport()
	for i := 1; i <= 5; i++ {
		if _, err := fmt.Fprintf(out, "{\"id\":\"id-%d\"}\n", i); err != nil {
			t.Fatal(err)
		}
		var bad BadLine
		l.next(&bad)
		if bad.Line != i {
			t.Errorf("line %d answered with %+v", i, bad)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	var end ImportEnd
	l.next(&end)
	l.end()
	if end.Summary.Lines != 5 || end.Summary.Failed != 5 || end.Error != "" {
		t.Errorf("end: %+v", end)
	}
}

func TestImportStops(t *testing.T) {
	t.Run("redis fails", func(t *testing.T) {
		f := newFixture(t, nil)
		out, l := f.startImport()
		if _, err := io.WriteString(out, "x\n"); err != nil {
			t.Fatal(err)
		}
		l.next(new(BadLine))
		f.redis.Miniredis().SetError("OOM secret")
		if _, err := io.WriteString(out, `{"id":"a","kind":"plain"}`); err != nil {
			t.Fatal(err)
		}
		_ = out.Close()
		var end ImportEnd
		l.next(&end)
		l.end()
		if end.Summary.Lines != 2 || !strings.Contains(end.Error, "1 of the 2 lines") || !strings.HasSuffix(end.Error, ": "+atItsLimit) {
			t.Errorf("end: %+v", end)
		}
		if !strings.Contains(f.logs.String(), "secret") {
			t.Errorf("log: %s", f.logs)
		}
	})
	t.Run("server closes", func(t *testing.T) {
		f := newFixture(t, nil)
		out, l := f.startImport()
		if _, err := io.WriteString(out, "x\n"); err != nil {
			t.Fatal(err)
		}
		l.next(new(BadLine))
		f.api.Close() // while the import waits for more lines
		var end ImportEnd
		l.next(&end)
		if !strings.HasSuffix(end.Error, ": the server is shutting down") || end.Summary.Lines != 1 {
			t.Errorf("end: %+v", end)
		}
		_ = out.Close()
	})
}

// A server that another one replaces, because the number of shards changes, does not say that it
// shuts down.
func TestWhatLastsWhenShardsChange(t *testing.T) {
	f := newFixture(t, nil)
	out, l := f.startImport()
	if _, err := io.WriteString(out, "x\n"); err != nil {
		t.Fatal(err)
	}
	l.next(new(BadLine))
	f.api.Replaced()
	var end ImportEnd
	l.next(&end)
	if !strings.HasSuffix(end.Error, ": the number of shards is changing: try again") || end.Summary.Lines != 1 {
		t.Errorf("import: %+v", end)
	}
	_ = out.Close()
	var refused problemBody
	got := f.call("POST", "/v1/groups/crm/read", `{"from":"now","wait":"10s"}`, 503, &refused)
	if refused.Detail != "the number of shards is changing: try again" || got.header.Get("Retry-After") != "1" {
		t.Errorf("consumer: %s, %v", got.body, got.header)
	}
	f.call("GET", "/v1/backup", "", 409, &refused)
	if refused.Detail != "no backup can be taken now: a change of the number of shards ended at this moment; try again" {
		t.Errorf("backup: %s", refused.Detail)
	}
}

// fill registers accounts with more records than the buffers between a server and its caller
// can hold.
func (f *fixture) fill(n int) {
	f.Helper()
	var text strings.Builder
	padding := strings.Repeat("x", 30<<10)
	for i := range n {
		fmt.Fprintf(&text, "{\"id\":\"id-%d\",\"kind\":\"plain\",\"config\":%q}\n", i, padding)
	}
	if got := f.do(f.request("POST", "/v1/accounts:import", text.String())); !strings.Contains(got.body, fmt.Sprintf(`"created":%d,`, n)) {
		f.Fatal(got.body)
	}
}

// An export that fails half way must not look complete.
func TestExportIsCutOff(t *testing.T) {
	f := newFixture(t, nil)
	f.fill(400)
	response, err := f.server.Client().Do(f.request("GET", "/v1/accounts:export", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	// The buffers cannot hold the rest, so the server waits.
	if _, err := io.CopyN(io.Discard, response.Body, 1000); err != nil {
		t.Fatal(err)
	}
	f.redis.Miniredis().SetError("LOADING")
	if n, err := io.Copy(io.Discard, response.Body); err == nil {
		t.Errorf("the export ended well after %d bytes", n)
	}
}

// A caller that goes away is not logged as a failure of the server.
func TestCallersThatGoAreNotLogged(t *testing.T) {
	f := newFixture(t, nil)
	f.fill(400)
	for _, r := range [][2]string{{"POST", "/v1/accounts:import"}, {"GET", "/v1/accounts:export"}, {"GET", "/v1/messages"}} {
		ctx, cancel := context.WithCancel(context.Background())
		request := f.request(r[0], r[1], "").WithContext(ctx)
		request.Header.Set("Accept", "text/event-stream, application/x-ndjson")
		in, out := io.Pipe()
		if r[0] == "POST" {
			request.Body, request.ContentLength = in, -1
			go func() { _, _ = io.WriteString(out, "x\n") }()
		}
		response, err := f.server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, response.Body, 10); err != nil {
			t.Fatal(err)
		}
		cancel()
		_ = response.Body.Close()
		_ = in.Close()
	}
	f.server.Close() // waits for the requests
	if f.logs.Len() > 0 {
		t.Error(f.logs)
	}
}

func TestDocs(t *testing.T) {
	f := newFixture(t, nil)
	for path, want := range map[string]string{"/docs": "text/html", "/docs/docs.css": "text/css", "/docs/docs.js": "text/javascript"} {
		got := f.do(f.request("GET", path, ""))
		if got.status != 200 || !strings.HasPrefix(got.header.Get("Content-Type"), want) || !strings.Contains(got.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d %v", path, got.status, got.header)
		}
		for _, foreign := range []string{"https://", "http://", "//cdn", "innerHTML", "style=", "onclick"} {
			if strings.Contains(got.body, foreign) {
				t.Errorf("%s has %q", path, foreign)
			}
		}
	}
	for language, want := range map[string]string{"zh-CN,zh;q=0.9": `<html lang="zh-CN">`, "en": `<html lang="en">`} {
		r := f.request("GET", "/docs", "")
		r.Header.Set("Accept-Language", language)
		if got := f.do(r); !strings.Contains(got.body, want) || got.header.Get("Vary") != "Accept-Language" {
			t.Errorf("%s: %v %s", language, got.header, got.body)
		}
	}
	if got := f.do(f.request("GET", "/metrics", "")); got.status != 200 || got.body != "rounds_up 1\n" {
		t.Errorf("/metrics: %d %q", got.status, got.body)
	}
}

// The description has all routes and no others, and each of its references leads somewhere.
func TestOpenAPI(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = "t"; o.Version = "1.2.3" })
	var doc struct {
		OpenAPI string
		Info    struct{ Title, Version string }
		Tags    []struct{ Name string }
		Paths   map[string]map[string]struct {
			OperationID string
			Summary     string
			Tags        []string
			Responses   map[string]struct {
				Description string
				Content     map[string]any
			}
			RequestBody struct {
				Content map[string]struct{ Schema map[string]any }
			}
			Security []map[string][]string
		}
		Components struct{ Schemas map[string]any }
		Security   []map[string][]string
	}
	got := f.call("GET", "/openapi.json", "", 200, &doc)
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") || doc.Info.Title != "rounds" || doc.Info.Version != "1.2.3" || len(doc.Security) != 2 {
		t.Errorf("%s %+v %v", doc.OpenAPI, doc.Info, doc.Security)
	}
	want := map[string]string{
		"/v1/session": "delete get post", "/v1/accounts": "get post", "/v1/accounts/{id}": "delete get put", "/v1/accounts/{id}/pause": "post",
		"/v1/accounts/{id}/resume": "post", "/v1/accounts/{id}/nudge": "post", "/v1/accounts:import": "post",
		"/v1/accounts/{id}/schedule": "get", "/v1/parked": "get", "/v1/parked:revive": "post",
		"/v1/kinds": "get", "/v1/accounts:count": "get", "/v1/accounts:nudge": "post", "/v1/accounts:retry": "post", "/v1/accounts:set": "post", "/v1/accounts:pause": "post", "/v1/accounts:resume": "post", "/v1/accounts:delete": "post",
		"/v1/accounts:export": "get", "/v1/messages": "get", "/v1/messages:search": "get", "/v1/stats": "get", "/v1/audit": "get", "/v1/law": "get", "/v1/system": "get", "/v1/concerns": "get", "/v1/audit:repair": "post", "/v1/backup": "get", "/v1/reshard": "get post", "/v1/reshard:finish": "post", "/v1/reshard:abort": "post",
		"/v1/activity": "get", "/v1/history": "get", "/v1/problems": "get", "/v1/jobs": "get", "/v1/jobs/{id}": "get", "/v1/jobs/{id}/stop": "post", "/v1/jobs/{id}/resume": "post", "/v1/jobs/{id}/undo": "post",
		"/v1/accounts/{id}/sends": "post", "/v1/accounts/{id}/conversations": "get", "/v1/sends": "get", "/v1/sends/{id}": "get", "/v1/sends/{id}/cancel": "post", "/v1/sends/{id}/retry": "post", "/v1/sends/{id}/resolve": "post",
		"/healthz": "get", "/readyz": "get",
		"/v1/messages/{ref}": "get", "/v1/dead/{id}": "get", "/v1/limits": "get", "/v1/credentials": "get", "/v1/concerns/{code}/acknowledge": "post", "/v1/concerns/{code}/silence": "post", "/v1/concerns/{code}/unsilence": "post", "/v1/maintenance": "get", "/v1/views": "get", "/v1/views/{name}": "delete put", "/v1/sessions": "get", "/v1/sessions/{session}": "delete", "/v1/backup:last": "get", "/v1/backup:verified": "post", "/v1/maintenance/{name}": "delete put",
		"/v1/groups": "get", "/v1/groups/{name}": "delete", "/v1/groups/{name}/read": "post", "/v1/webhooks": "get", "/v1/webhooks/{name}": "delete get put", "/v1/webhooks/{name}/test": "post", "/v1/webhooks:types": "get", "/v1/webhooks/{name}/retry": "post", "/v1/webhooks/{name}/skip": "post", "/v1/webhooks/{name}/enable": "post",
		"/v1/trail": "get", "/v1/accounts/{id}/trail": "get", "/v1/accounts/{id}/timeline": "get", "/v1/accounts/{id}/versions": "get", "/v1/accounts/{id}/checks": "get", "/v1/webhooks/{name}/attempts": "get", "/v1/accounts/{id}/restore": "post", "/v1/dead": "get", "/v1/dead:replay": "post", "/v1/dead:drop": "post", "/metrics": "get", "/openapi.json": "get", "/v1/keys": "get post", "/v1/keys/{name}": "delete", "/v1/whoami": "get", "/v1/secrets": "get", "/v1/secrets/{name}": "delete put",
	}
	tags := make(map[string]bool)
	for _, tag := range doc.Tags {
		tags[tag.Name] = true
	}
	ids := make(map[string]bool)
	for path, methods := range want {
		for _, method := range strings.Fields(methods) {
			o, ok := doc.Paths[path][method]
			if !ok {
				t.Errorf("%s %s is not described", method, path)
				continue
			}
			if o.Summary == "" || o.OperationID == "" || ids[o.OperationID] || len(o.Tags) != 1 || !tags[o.Tags[0]] || len(o.Responses) == 0 {
				t.Errorf("%s %s: %+v", method, path, o)
			}
			ids[o.OperationID] = true
			for status, response := range o.Responses {
				if response.Description == "" {
					t.Errorf("%s %s %s has no description", method, path, status)
				}
			}
			// The described route exists.
			r := f.request(strings.ToUpper(method), strings.NewReplacer("{id}", "a", "{name}", "a", "{ref}", "0:1-1").Replace(path), "")
			if got := f.do(r); got.status == http.StatusMethodNotAllowed || strings.Contains(got.body, "no such route") {
				t.Errorf("%s %s: %d", method, path, got.status)
			}
		}
	}
	if len(doc.Paths) != len(want) {
		t.Errorf("%d paths are described, not %d", len(doc.Paths), len(want))
	}
	if schema := doc.Paths["/v1/accounts"]["post"].RequestBody.Content["application/json"].Schema; schema["$ref"] != "#/components/schemas/Record" {
		t.Errorf("body of POST /v1/accounts: %v", schema)
	}
	if _, ok := doc.Paths["/v1/accounts/{id}"]["put"].Responses["201"]; !ok {
		t.Error("PUT does not say 201")
	}
	if _, ok := doc.Paths["/v1/messages"]["get"].Responses["200"].Content["text/event-stream"]; !ok {
		t.Error("messages do not say text/event-stream")
	}
	const ref = `"$ref":"#/components/schemas/`
	for rest := []byte(got.body); ; {
		_, after, ok := bytes.Cut(rest, []byte(ref))
		if !ok {
			break
		}
		name, _, _ := bytes.Cut(after, []byte(`"`))
		if _, ok := doc.Components.Schemas[string(name)]; !ok {
			t.Errorf("schema %s is missing", name)
		}
		rest = after
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if s := doc.Paths[path]["get"].Security; len(s) != 1 || len(s[0]) != 0 {
			t.Errorf("%s: security %v", path, s)
		}
	}
}

// An import that is refused before all of it was read leaves a connection on which
// net/http reads the next request. With the body open it would panic there
// (golang/go#68560).
func TestImportThatEndsEarlyLeavesTheConnectionInOrder(t *testing.T) {
	f := newFixture(t, nil)
	var logged bytes.Buffer
	server := httptest.NewUnstartedServer(f.api)
	server.Config.ErrorLog = log.New(&logged, "", 0)
	server.Start()
	address := strings.TrimPrefix(server.URL, "http://")
	for range 5 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		// The body is longer than what is sent of it.
		_, _ = fmt.Fprintf(conn, "POST /v1/accounts:import HTTP/1.1\r\nHost: %s\r\nContent-Length: 100000\r\n\r\nname,kind\na,b\n%s", address, strings.Repeat("x,y\n", 5000))
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body) // it may be cut
		_, _ = fmt.Fprint(conn, strings.Repeat("x,y\n", 20000))
		_ = conn.Close()
	}
	server.Close()
	if strings.Contains(logged.String(), "panic") {
		t.Errorf("the server logged %s", logged.String())
	}
}

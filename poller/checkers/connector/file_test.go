package connector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream"
)

func startFileParty(t *testing.T) checktest.FileParty {
	u, stop, err := upstream.Serve(upstream.Options{SigningSecret: signingKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	client := checktest.Client(t, fetch.Options{})
	config := func(account string) json.RawMessage { return signedConfig(u.URL("connector", account)) }
	numbers := make(map[string]int) // by the message's id
	fault := func(name string, f upstream.Fault, kind poller.ErrorKind, code string) checktest.FileFault {
		return checktest.FileFault{Name: name, Kind: kind, Code: code, Cuts: f.Cut, Hangs: f.Hang, Endless: f.Endless, Break: func(account string) { u.FailFiles(account, f) }}
	}
	return checktest.FileParty{
		New:    func() poller.FileKeeper { return New(client, source()) },
		Config: config,
		Post: func(account string, data []byte) poller.Message {
			n := u.PostFile(account, upstream.File{Name: "报价.pdf", Type: "application/pdf", Data: data})
			r, err := New(client, source()).Check(t.Context(), poller.Request{Account: account, CheckID: "c", Config: config(account), Cursor: fmt.Append(nil, n-1), Limit: 1, Attempt: 1})
			if err != nil || len(r.Messages) != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
			numbers[r.Messages[0].ID] = n
			return r.Messages[0]
		},
		Forget: func(account string, m poller.Message) { u.ForgetFile(account, numbers[m.ID]) },
		Heal:   u.Heal,
		Faults: []checktest.FileFault{
			fault("cut", upstream.Fault{Cut: true}, poller.Transient, "reset"),
			fault("503", upstream.Fault{Status: 503}, poller.Transient, "http_503"),
			fault("401", upstream.Fault{Status: 401}, poller.Transient, "http_401"),
			fault("429", upstream.Fault{Status: 429}, poller.RateLimited, "http_429"),
			fault("410", upstream.Fault{Status: 410}, poller.Gone, "file_gone"),
			fault("hang", upstream.Fault{Hang: true}, "", ""),
			fault("endless", upstream.Fault{Endless: true}, "", ""),
		},
		Secrets: []string{signingKey, apiToken},
	}
}

func TestFileSuite(t *testing.T) {
	checktest.RunFiles(t, checktest.FileKind{Start: startFileParty})
}

func TestFileAddresses(t *testing.T) {
	t.Parallel()
	fetching := func(c *Checker) poller.Checker {
		return checktest.Fetching(c, func(raw json.RawMessage) poller.Message {
			var config struct{ URL string }
			_ = json.Unmarshal(raw, &config) // a wrong one has no file
			data, _ := json.Marshal(map[string]any{"files": []any{map[string]any{"url": config.URL}}})
			return poller.Message{Data: data}
		})
	}
	checktest.RunAddresses(t, checktest.HTTP{
		New:         func(client *fetch.Client) poller.Checker { return fetching(New(client, source())) },
		WithSecrets: func(client *fetch.Client, s secrets.Source) poller.Checker { return fetching(New(client, s)) },
		Values:      source().Lookup,
		Config:      signedConfig,
		Secret:      apiToken,
	})
}

// A request for a file is signed, and has the config's headers, if the file is where the connector is.
// Other hosts learn nothing of the connector, wherever a redirect leads.
func TestFilesOfOtherHosts(t *testing.T) {
	type seen struct{ header http.Header }
	var asked []seen
	webhook, err := standardwebhooks.NewWebhook(signingKey)
	if err != nil {
		t.Fatal(err)
	}
	server := func(to *string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, seen{r.Header.Clone()})
			if to != nil {
				http.Redirect(w, r, *to, http.StatusFound)
				return
			}
			_, _ = io.WriteString(w, "file")
		}))
		t.Cleanup(s.Close)
		return s
	}
	other := server(nil)
	away := other.URL + "/x"
	own := server(&away)
	c := New(checktest.Client(t, fetch.Options{}), source())
	for _, url := range []string{own.URL + "/f", "/f", other.URL + "/f"} {
		asked = nil
		m := poller.Message{ID: "报价", Data: json.RawMessage(`{"files":[{"url":"` + url + `"}]}`)}
		body, err := c.FetchFile(t.Context(), poller.FileRequest{Account: "a", Config: signedConfig(own.URL + "/check"), Message: &m})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != "file" {
			t.Errorf("%q, %v", got, err)
		}
		_ = body.Close()
		last := asked[len(asked)-1].header
		if last.Get("Authorization") != "" || last.Get("Webhook-Signature") != "" || last.Get("X-Plain") != "" {
			t.Errorf("another host was told %v", last)
		}
		if url == other.URL+"/f" {
			continue
		}
		first := asked[0].header
		if len(asked) != 2 || first.Get("Authorization") != "Bearer "+apiToken || webhook.Verify(nil, first) != nil || first.Get("Content-Type") != "" {
			t.Errorf("the connector was told %v", first)
		}
		id := first.Get("Webhook-Id")
		asked = nil
		if body, err := c.FetchFile(t.Context(), poller.FileRequest{Account: "a", Config: signedConfig(own.URL + "/check"), Message: &m}); err != nil {
			t.Error(err)
		} else {
			_ = body.Close()
		}
		if again := asked[0].header.Get("Webhook-Id"); again != id || !strings.HasPrefix(id, "file-") {
			t.Errorf("the second request has the id %q, the first %q", again, id)
		}
	}
}

// The schema describes the files that are fetched, with all their fields.
func TestSchemaAgreesWithFiles(t *testing.T) {
	s := schema(t, "file")
	for _, text := range []string{
		`{"url":"https://example.com/a"}`, `{"url":"http://example.com","name":"a.pdf","type":"application/pdf","size":0,"more":1}`,
		`{"url":"https://x","name":null,"type":null,"size":null,"sha256":null,"until":null}`,
		`{"url":"https://x","sha256":"` + strings.Repeat("aF", 32) + `","until":"2026-11-21T12:00:00Z"}`,
		`{"url":"/a?b=c"}`, `{"url":"/"}`, `{"url":"//x"}`, `{"url":"/\\x"}`, `{"url":""}`, `{"url":"a"}`,
		`{}`, `[]`, `"https://x"`, `{"url":"ftp://x"}`, `{"url":7}`, `{"url":"https://x","size":"4"}`, `{"url":"https://x","size":-1}`, `{"url":"https://x","size":1.5}`,
		`{"url":"https://x","sha256":"aa"}`, `{"url":"https://x","until":"tomorrow"}`, `{"url":"https://x","name":7}`, `{"url":"https://x","type":"image"}`,
	} {
		_, wrong := readFile(json.RawMessage(text))
		if got := fits(t, s, text); got != (wrong == nil) {
			t.Errorf("%s: the schema says %v, and the reader %v", text, got, wrong)
		}
	}
}

func TestFilesOfAMessage(t *testing.T) {
	c := New(checktest.Client(t, fetch.Options{}), source())
	many := `{"url":"https://x"}` + strings.Repeat(`,{"url":"https://x"}`, 99)
	for _, tt := range []struct {
		files string
		want  []poller.File
	}{
		{`null`, nil},
		{`7`, nil},
		{`[7,"https://x",{"url":"a"},{"url":"https://x","size":"4","until":"x","name":"../a.pdf"}]`, []poller.File{{Name: "a.pdf"}}},
		{`[{"url":"https://x","size":4,"type":"image/png","until":"2026-11-21T12:00:00+01:00"}]`, []poller.File{{Size: 4, Type: "image/png", Until: time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC)}}},
		{`[` + many + `]`, make([]poller.File, poller.MaxFiles)},
		{`[{"url":"https://` + strings.Repeat("x", maxFileURL) + `"}]`, nil},
	} {
		if files := c.Files(&poller.Message{Data: json.RawMessage(`{"files":` + tt.files + `}`)}); fmt.Sprint(files) != fmt.Sprint(tt.want) {
			t.Errorf("%.80s: %+v", tt.files, files)
		}
	}
}

func FuzzFiles(f *testing.F) {
	for _, seed := range []string{`{"files":[{"url":"https://x","name":"a","size":1,"until":"2026-11-21T12:00:00Z"}]}`, `{"files":{}}`, `{"files":[[]]}`, `{`} {
		f.Add([]byte(seed))
	}
	c := New(fetch.New(fetch.Options{}), source())
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		checktest.JudgeFiles(t, c, &poller.Message{Data: data})
		if !bytes.Equal(before, data) {
			t.Error("the data was changed")
		}
	})
}

package feed

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream"
)

const fileSecret = "t0ken-of-a-feed"

func fileSource() secrets.Source {
	return secrets.Source{Lookup: func(name string) (string, bool) { return fileSecret, name == secrets.EnvPrefix+"TOKEN" }}
}

func fileConfig(url string) json.RawMessage {
	raw, err := json.Marshal(map[string]any{"url": url, "headers": map[string]any{"X-Token": strict.Ref("TOKEN")}})
	if err != nil {
		panic(err) // maps and texts can always be marshalled
	}
	return raw
}

func startFileParty(t *testing.T) checktest.FileParty {
	u, stop, err := upstream.Serve(upstream.Options{Window: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	client := checktest.Client(t, fetch.Options{})
	config := func(account string) json.RawMessage { return fileConfig(u.URL("feed", account)) }
	numbers := make(map[string]int) // by the message's id
	fault := func(name string, f upstream.Fault, kind poller.ErrorKind, code string) checktest.FileFault {
		return checktest.FileFault{Name: name, Kind: kind, Code: code, Cuts: f.Cut, Hangs: f.Hang, Endless: f.Endless, Break: func(account string) { u.FailFiles(account, f) }}
	}
	return checktest.FileParty{
		New:    func() poller.FileKeeper { return New(client, fileSource()) },
		Config: config,
		Post: func(account string, data []byte) poller.Message {
			n := u.PostFile(account, upstream.File{Name: "报价.pdf", Type: "application/pdf", Data: data})
			r, err := New(client, fileSource()).Check(t.Context(), poller.Request{Account: account, CheckID: "c", Config: config(account), Limit: 1, Attempt: 1})
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
			fault("403", upstream.Fault{Status: 403}, poller.Transient, "http_403"),
			fault("429", upstream.Fault{Status: 429}, poller.RateLimited, "http_429"),
			fault("410", upstream.Fault{Status: 410}, poller.Gone, "file_gone"),
			fault("hang", upstream.Fault{Hang: true}, "", ""),
			fault("endless", upstream.Fault{Endless: true}, "", ""),
		},
		Secrets: []string{fileSecret},
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
			data, _ := json.Marshal(data{Enclosures: []enclosure{{URL: config.URL}}})
			return poller.Message{Data: data}
		})
	}
	checktest.RunAddresses(t, checktest.HTTP{
		New:         func(client *fetch.Client) poller.Checker { return fetching(New(client, fileSource())) },
		WithSecrets: func(client *fetch.Client, s secrets.Source) poller.Checker { return fetching(New(client, s)) },
		Config:      fileConfig,
		Secret:      fileSecret,
	})
}

// The feed's headers go to files at its own host, and to no other.
func TestFilesOfOtherHosts(t *testing.T) {
	var got string
	serve := func() string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("X-Token")
			_, _ = io.WriteString(w, "file")
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	own, other := serve(), serve()
	c := New(checktest.Client(t, fetch.Options{}), fileSource())
	for at, want := range map[string]string{own: fileSecret, other: ""} {
		m := poller.Message{Data: json.RawMessage(`{"enclosures":[{"url":"` + at + `/a.mp3"}]}`)}
		body, err := c.FetchFile(t.Context(), poller.FileRequest{Account: "a", Config: fileConfig(own + "/feed"), Message: &m})
		if err != nil {
			t.Fatal(err)
		}
		_ = body.Close()
		if got != want {
			t.Errorf("a host was told %q, want %q", got, want)
		}
	}
}

// Enclosures, and what Media RSS names besides, are files, each once.
func TestFilesOfAnItem(t *testing.T) {
	rss := `<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"><channel><item><guid>1</guid>
		<enclosure url="https://x.example/%E6%8A%A5.mp3?a=b" type="audio/mpeg" length="7"/>
		<media:content url="https://x.example/%E6%8A%A5.mp3?a=b" type="audio/mpeg"/>
		<media:group><media:content url="/b.jpg" type="image/jpeg" fileSize="9"/></media:group>
		<media:content url="https://x.example/c" medium="image"/><media:content/></item></channel></rss>`
	read, err := parse(t.Context(), []byte(rss), "application/rss+xml", fetch.New(fetch.Options{}).Reserve)
	if err != nil {
		t.Fatal(err)
	}
	read.setBase("https://feed.example/x/")
	m := read.items[0].message()
	want := []poller.File{{Name: "报.mp3", Type: "audio/mpeg", Size: 7}, {Name: "c"}, {Name: "b.jpg", Type: "image/jpeg", Size: 9}}
	if files := New(fetch.New(fetch.Options{}), fileSource()).Files(&m); fmt.Sprint(files) != fmt.Sprint(want) {
		t.Errorf("%+v\n%s", files, m.Data)
	}
	odd := poller.Message{Data: json.RawMessage(`{"enclosures":[7,{"url":"javascript:1"},{"url":"https://x/..","length":"many"}]}`)}
	if files := New(fetch.New(fetch.Options{}), fileSource()).Files(&odd); len(files) != 1 || files[0] != (poller.File{}) {
		t.Errorf("%+v", files)
	}
}

func FuzzFiles(f *testing.F) {
	for _, seed := range []string{`{"enclosures":[{"url":"https://x/a.mp3","type":"audio/mpeg","length":"7"}]}`, `{"enclosures":{}}`, `{`} {
		f.Add([]byte(seed))
	}
	c := New(fetch.New(fetch.Options{}), fileSource())
	f.Fuzz(func(t *testing.T, data []byte) { checktest.JudgeFiles(t, c, &poller.Message{Data: data}) })
}

package wecomkf

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/upstream/wecom"
)

func startFileParty(t *testing.T, kind, name string) checktest.FileParty {
	w, stop, err := wecom.Serve(wecom.Options{Concurrency: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	w.AddCorp(corp, secret)
	client, shared := checktest.Client(t, fetch.Options{}), token.NewMemory()
	fault := func(name string, f wecom.Fault, kind poller.ErrorKind, code string) checktest.FileFault {
		return checktest.FileFault{Name: name, Kind: kind, Code: code, Cuts: f.Cut, Hangs: f.Hang, Endless: f.Endless, Break: func(string) { w.Fail(corp, wecom.GetMedia, f) }}
	}
	return checktest.FileParty{
		New: func() poller.FileKeeper { return New(client, source(secret), shared) },
		Config: func(openKfID string) json.RawMessage {
			w.AddAccount(corp, openKfID)
			return configOf(w.URL(), openKfID)
		},
		Post: func(openKfID string, data []byte) poller.Message {
			w.AddAccount(corp, openKfID)
			m, err := readMessage(w.SendFile(openKfID, kind, name, data))
			if err != nil {
				t.Fatal(err)
			}
			return m
		},
		Forget: func(_ string, m poller.Message) {
			var e map[string]json.RawMessage
			_ = json.Unmarshal(m.Data, &e)
			var one media
			_ = json.Unmarshal(e[m.Type], &one)
			w.ForgetMedia(one.ID)
		},
		Heal: func(string) { w.Heal() },
		Faults: []checktest.FileFault{
			fault("cut", wecom.Fault{Cut: true}, poller.Transient, "reset"),
			fault("reset", wecom.Fault{Reset: true}, poller.Transient, "reset"),
			fault("502", wecom.Fault{Status: 502}, poller.Transient, "http_502"),
			fault("404 of a gateway", wecom.Fault{Status: 404}, poller.Transient, "http_404"),
			fault("206", wecom.Fault{Status: 206}, poller.Protocol, "protocol"),
			fault("busy", wecom.Fault{Code: -1}, poller.Transient, "wecom_-1"),
			fault("crowded", wecom.Fault{Code: 45033}, poller.RateLimited, "wecom_45033"),
			fault("an address that is not trusted", wecom.Fault{Code: 60020}, poller.Transient, "wecom_60020"),
			fault("no such medium", wecom.Fault{Code: 40007}, poller.Gone, "wecom_40007"),
			fault("unheard of", wecom.Fault{Code: 99999}, poller.Transient, "wecom_99999"),
			fault("hang", wecom.Fault{Hang: true}, "", ""),
			fault("endless", wecom.Fault{Endless: true}, "", ""),
		},
		Secrets: []string{secret, "access_token", "media_id="},
	}
}

func TestFileSuite(t *testing.T) {
	for kind, name := range map[string]string{"file": "报价.json", "voice": ""} {
		t.Run(kind, func(t *testing.T) {
			checktest.RunFiles(t, checktest.FileKind{Start: func(t *testing.T) checktest.FileParty { return startFileParty(t, kind, name) }})
		})
	}
}

// fetchFile fetches a message's only file.
func fetchFile(t *testing.T, c *Checker, m *poller.Message) ([]byte, error) {
	t.Helper()
	body, err := c.FetchFile(t.Context(), poller.FileRequest{Account: "wk1", Config: configOf("", "wk1"), Message: m})
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return io.ReadAll(body)
}

// A refused access token is replaced once. Media are kept for three days.
func TestFilesAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wecom.New(wecom.Options{})
		w.AddCorp(corp, secret)
		w.AddAccount(corp, "wk1")
		c := New(fetch.New(fetch.Options{Transport: w}), source(secret), token.NewMemory())
		m, err := readMessage(w.SendFile("wk1", "image", "", []byte("abc")))
		if err != nil {
			t.Fatal(err)
		}
		if files := c.Files(&m); len(files) != 1 || !files[0].Until.Equal(m.Time.Add(72*time.Hour)) {
			t.Errorf("%+v", files)
		}
		for step, before := range map[string]func(){
			"at first": func() {}, "revoked": func() { w.Revoke(corp) }, "expired": func() { time.Sleep(2*time.Hour + time.Minute) },
		} {
			before()
			if got, err := fetchFile(t, c, &m); err != nil || string(got) != "abc" {
				t.Errorf("%s: %q, %v", step, got, err)
			}
			time.Sleep(time.Minute) // a token is not dropped again at once
		}
		w.Fail(corp, wecom.GetMedia, wecom.Fault{Code: 42001})
		calls := w.Stats(corp).GetMedia
		if _, err := fetchFile(t, c, &m); checktest.Failure(t, err).Code != "wecom_42001" || w.Stats(corp).GetMedia != calls+2 {
			t.Errorf("refused for ever: %v after %d calls", err, w.Stats(corp).GetMedia-calls)
		}
		w.Fail(corp, wecom.GetMedia, wecom.Fault{Code: 45009, Times: 1})
		if _, err := fetchFile(t, c, &m); checktest.Failure(t, err).Kind != poller.RateLimited {
			t.Errorf("too many calls: %v", err)
		}
		w.Heal()
		time.Sleep(72 * time.Hour)
		if _, err := fetchFile(t, c, &m); checktest.Failure(t, err).Kind != poller.Gone || checktest.Failure(t, err).Code != "wecom_40007" {
			t.Errorf("after three days: %v", err)
		}
	})
}

// A file whose bytes look like an error of WeCom's is a file, if the answer says so.
func TestFilesThatLookLikeErrors(t *testing.T) {
	w := wecom.New(wecom.Options{})
	w.AddCorp(corp, secret)
	w.AddAccount(corp, "wk1")
	c := New(fetch.New(fetch.Options{Transport: w}), source(secret), token.NewMemory())
	for _, text := range []string{`{"errcode":40007}`, `{"errcode":0}`, `{"errcode":`, "", strings.Repeat("[", errorBytes+7)} {
		m, err := readMessage(w.SendFile("wk1", "file", "a.json", []byte(text)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fetchFile(t, c, &m); err != nil || string(got) != text {
			t.Errorf("%.20s: %.20q, %v", text, got, err)
		}
	}
}

func FuzzFiles(f *testing.F) {
	w := wecom.New(wecom.Options{})
	w.AddCorp(corp, secret)
	w.AddAccount(corp, "wk1")
	for _, kind := range wecom.Types() {
		f.Add(kind, []byte(w.SendFile("wk1", kind, "", nil)))
	}
	c := New(fetch.New(fetch.Options{Transport: w}), source(secret), token.NewMemory())
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		checktest.JudgeFiles(t, c, &poller.Message{Type: kind, Data: data, Time: time.Unix(int64(len(data)), 0)})
	})
}

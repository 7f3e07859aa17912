package command

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// sending makes accounts of the kind feed send texts and links.
func sending(o *api.Options) {
	o.Sending = func(string, json.RawMessage) api.Sending {
		return api.Sending{Types: []string{"text", "link"}, Prepare: func(o *api.Outgoing, answers *circulate.Message) error {
			if answers != nil {
				o.Peer = "writer of " + answers.ID
			}
			return nil
		}}
	}
}

// queued runs a command that prints one send as JSON.
func (s *apiServer) queued(args ...string) api.Send {
	s.t.Helper()
	var send api.Send
	if err := json.Unmarshal([]byte(s.must(append(args, "--json")...)), &send); err != nil {
		s.t.Fatal(err)
	}
	return send
}

// attempted begins the attempts that may begin, and ends them.
func (s *apiServer) attempted(as circulate.SendOutcome) {
	s.t.Helper()
	for shard := range s.ring.Shards() {
		attempts, _, err := s.ring.Sends().Attempt(s.t.Context(), shard, circulate.AttemptOrder{
			Replica: "replica001", Step: rand.Text(), Kinds: []string{"feed"}, Most: 100, Lasts: time.Minute,
		})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, a := range attempts {
			if _, err := s.ring.Sends().Settle(s.t.Context(), []circulate.Settlement{{ID: a.ID, Fence: a.Fence, Outcome: as, Code: "cut", Text: "the call was cut"}}); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

func TestSendCommands(t *testing.T) {
	s := startAPI(t, sending)
	s.must("account", "add", "inbox", "--kind", "feed", "--set", "url=x")
	first := s.queued("send", "inbox", "--to", "anna", "--text", "hello & bye", "--key", "k1")
	if first.State != "queued" || string(first.Data) != `{"text":"hello & bye"}` {
		t.Errorf("queued: %+v", first)
	}
	if again := s.queued("send", "inbox", "--to", "anna", "--text", "hello & bye", "--key", "k1"); again.ID != first.ID {
		t.Errorf("again: %+v", again)
	}
	if _, err := s.rounds("send", "inbox", "--to", "anna", "--text", "other", "--key", "k1"); err == nil || !strings.Contains(err.Error(), "another send of the account has this key") || strings.Contains(err.Error(), "may have been queued") {
		t.Errorf("another text: %v", err)
	}
	if got := s.must("send", "inbox", "--to", "anna", "--text", "one more"); !strings.Contains(got, ": queued; rounds sends show ") {
		t.Errorf("said %q", got)
	}
	link := filepath.Join(t.TempDir(), "link.json")
	if err := os.WriteFile(link, []byte(`{"url":"https://example.com"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	later := s.queued("send", "inbox", "--to", "bob", "--type", "link", "--data", "@"+link, "--when", "open", "--expires", "10m")
	if later.Type != "link" || later.When != "open" || time.Until(later.Expires) > 10*time.Minute || time.Until(later.Expires) < 9*time.Minute {
		t.Errorf("a link: %+v", later)
	}

	list := s.must("sends", "list", "--account", "inbox", "--state", "queued")
	if lines := strings.Split(strings.TrimSpace(list), "\n"); len(lines) != 4 || !strings.HasPrefix(lines[0], "ID ") || !strings.Contains(lines[1], first.ID) {
		t.Errorf("list:\n%s", list)
	}
	if got := s.must("sends", "show", first.ID); !strings.Contains(got, "state     queued") || !strings.Contains(got, `{"text":"hello & bye"}`) {
		t.Errorf("show:\n%s", got)
	}
	if got := s.must("sends", "cancel", later.ID); got != later.ID+": canceled\n" {
		t.Errorf("cancel: %q", got)
	}
	s.attempted(circulate.AttemptUnknown)
	if got := s.must("sends", "show", first.ID); !strings.Contains(got, "unknown") || !strings.Contains(got, "cut: the call was cut") || !strings.Contains(got, "rounds sends resolve "+first.ID+" --as accepted") {
		t.Errorf("show:\n%s", got)
	}
	// Nobody can be asked whether an unknown one may arrive twice.
	if _, err := s.rounds("sends", "retry", first.ID); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("retry: %v", err)
	}
	if got := s.must("sends", "retry", first.ID, "--yes"); got != first.ID+": queued\n" {
		t.Errorf("retry: %q", got)
	}
	s.attempted(circulate.AttemptAccepted) // the other one to anna
	s.attempted(circulate.AttemptUnknown)
	if got := s.must("sends", "resolve", first.ID, "--as", "accepted", "--reason", "seen"); got != first.ID+": accepted\n" {
		t.Errorf("resolve: %q", got)
	}
	if _, err := s.rounds("sends", "resolve", first.ID, "--as", "accepted"); err == nil || !strings.Contains(err.Error(), "the send is accepted") {
		t.Errorf("twice: %v", err)
	}
}

func TestSendAnswersFromTheCommandLine(t *testing.T) {
	s := startAPI(t, sending)
	s.must("account", "add", "inbox", "--kind", "feed", "--set", "url=x")
	s.find("inbox", circulate.Message{ID: "m1", Data: json.RawMessage("{}")})
	var m api.Message
	if err := json.Unmarshal([]byte(s.must("messages", "tail", "--from", "start", "--limit", "1", "--json")), &m); err != nil {
		t.Fatal(err)
	}
	if got := s.queued("send", "inbox", "--reply-to", fmt.Sprint(m.Shard, ":", m.Position), "--text", "hello"); got.To != "writer of m1" {
		t.Errorf("got %+v", got)
	}
	if _, err := s.rounds("send", "inbox", "--reply-to", "0:1-1", "--text", "hello"); err == nil || !strings.Contains(err.Error(), "reply_to: must be a message of the account that is still stored") {
		t.Errorf("no message: %v", err)
	}
}

func TestSendFlags(t *testing.T) {
	s := startAPI(t, sending)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--to", "anna"}, "--text, --data or --file"},
		{[]string{"--text", "x"}, "--to or --reply-to"},
		{[]string{"--to", "anna", "--text", "x", "--type", "link"}, "cannot be combined"},
		{[]string{"--to", "anna", "--data", "{"}, "--data is not JSON"},
		{[]string{"--to", "anna", "--text", "x", "--expires", "soon"}, "--expires is"},
		{[]string{"--to", "anna", "--text", "x", "--expires", "-1m"}, "--expires is"},
	} {
		if _, err := s.rounds(append([]string{"send", "inbox"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

// If nobody knows whether a send was queued, the command says how to repeat it.
func TestSendWithoutAnAnswer(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"Redis is away": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		keys := make(chan string, 10)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			keys <- r.Header.Get("Idempotency-Key")
			handler(w, r)
		}))
		t.Cleanup(server.Close)
		_, err := runWith(t.Context(), map[string]string{"ROUNDS_API_URL": server.URL}, "", "send", "inbox", "--to", "anna", "--text", "x", "--expires", "10m")
		key := ""
		for len(keys) > 0 {
			key = <-keys
		}
		if err == nil || key == "" || !strings.Contains(err.Error(), "repeat it with --key "+key+" --expires 2") {
			t.Errorf("%s: key %q, %v", name, key, err)
		}
	}
}

// The command why says what waits to be answered, how long a person may be, and what is in doubt.
func TestWhyTellsOfAnswers(t *testing.T) {
	s := startAPI(t, func(o *api.Options) {
		sending(o)
		inner := o.Sending
		o.Sending = func(kind string, config json.RawMessage) api.Sending {
			can := inner(kind, config)
			can.Windowed, can.Most = true, 10
			return can
		}
	})
	s.must("account", "add", "inbox", "--kind", "feed", "--set", "url=x")
	if out := s.must("account", "why", "inbox"); strings.Contains(out, "answers:") {
		t.Errorf("without sends:\n%s", out)
	}
	for _, text := range []string{"one", "two"} {
		s.must("send", "inbox", "--to", "anna", "--text", text, "--when", "open")
	}
	until := time.Now().Add(time.Hour)
	batch, err := s.ring.Claim(t.Context(), s.ring.ShardOf("inbox"), "replica001", 1, 0)
	if err != nil || len(batch.Claims) != 1 {
		t.Fatal(batch, err)
	}
	if _, err := s.ring.Return(t.Context(), s.ring.ShardOf("inbox"), []circulate.Return{{Claim: &batch.Claims[0], Kind: "feed", Due: until,
		Messages: []circulate.Message{{ID: "m", Data: json.RawMessage(`{}`), Answerable: &circulate.Answerable{Peer: "ben", For: time.Hour, Count: 3}}}}}); err != nil {
		t.Fatal(err)
	}
	s.must("send", "inbox", "--to", "ben", "--text", "lost")
	s.attempted(circulate.AttemptUnknown)
	out := s.must("account", "why", "inbox")
	for _, want := range []string{"\nanswers:\n", "1 answer is unknown since ", "rounds sends resolve", "2 answers to anna wait for a message of theirs", "the window to ben: 2 of 10 left, until "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out := s.must("account", "why", "inbox", "--json"); !strings.Contains(out, `"answers"`) {
		t.Errorf("as JSON: %s", out)
	}
}

func TestWindowsInWords(t *testing.T) {
	at := time.Now()
	three, none := 3, 0
	for want, w := range map[string]api.Window{
		"until " + clockTime(at):                                  {Open: true, Until: at},
		"3 left, until " + clockTime(at):                          {Open: true, Until: at, Left: &three},
		"3 of 10 left, until " + clockTime(at):                    {Open: true, Until: at, Left: &three, Most: 10},
		"used up; they must write again":                          {Until: at, Left: &none, Most: 10},
		"over since " + clockTime(at) + "; they must write again": {Until: at, Left: &three, Most: 10},
	} {
		if got := windowOf(&w); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A file is uploaded, and the send names it by its id. Its type is what its name says.
func TestSendFile(t *testing.T) {
	var uploaded, queued []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/files" {
			uploaded = append(uploaded, r.URL.Query().Get("account")+" "+r.URL.Query().Get("name")+" "+r.URL.Query().Get("type")+" "+string(body))
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"id":"f1"}`))
			return
		}
		queued = append(queued, string(body))
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"id":"s1","state":"queued"}`))
	}))
	defer server.Close()
	run := func(args ...string) error {
		_, err := runWith(t.Context(), map[string]string{"ROUNDS_API_URL": server.URL}, "", append([]string{"send", "inbox", "--to", "anna"}, args...)...)
		return err
	}
	dir := t.TempDir()
	for _, name := range []string{"cat.JPG", "cat.gif", "hello.amr", "song.mp3", "notes"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run("--file", filepath.Join(dir, name), "--caption", "look"); err != nil {
			t.Error(err)
		}
	}
	if err := run("--file", filepath.Join(dir, "notes"), "--type", "voice"); err != nil {
		t.Error(err)
	}
	wantUploaded := []string{"inbox cat.JPG image/jpeg cat.JPG", "inbox cat.gif image/gif cat.gif", "inbox hello.amr audio/amr hello.amr", "inbox song.mp3 audio/mpeg song.mp3", "inbox notes  notes", "inbox notes  notes"}
	if !slices.Equal(uploaded, wantUploaded) {
		t.Errorf("%q", uploaded)
	}
	for i, kind := range []string{"image", "file", "voice", "file", "file", "voice"} {
		want := `"type":"` + kind + `","data":{"caption":"look","file":"f1"}`
		if i == 5 {
			want = `"type":"voice","data":{"file":"f1"}`
		}
		if !strings.Contains(queued[i], want) {
			t.Errorf("%s, want %s", queued[i], want)
		}
	}
	for _, args := range [][]string{{"--file", "x", "--text", "y"}, {"--file", "x", "--data", "{}"}, {"--text", "x", "--caption", "y"}, {"--file", filepath.Join(dir, "none")}} {
		if err := run(args...); err == nil {
			t.Errorf("%q: done", args)
		}
	}
}

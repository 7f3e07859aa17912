package endtoend

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// marked are secrets that can be told from all else, by where they come from and what for.
// What a third party is sent of them it sends back.
var marked = map[string]string{
	"the directory, for a feed's header":      "Bearer mArk-0f/the+directory=&7d1c9a52e6",
	"the environment, for a connector":        `mArk-1f/the+environment="<>&4b8e2f06c3`,
	"the environment, for a mailbox":          `mArk-2f\the mailbox"91ac5d7730be`,
	"the directory, for WeCom":                "mArk_3f_WeCom_c41d08e95fa2",
	"the directory, for signing":              "whsec_" + "bUFyay00ZiBvZiBhIGNvbm5lY3RvcidzIHNpZ25pbmcgY2E0ZTE5",
	"the environment, for a webhook's header": "Bearer mArk-5f/the+webhook=&d8037c1be4",
	"the directory, for a webhook's signing":  "whsec_" + "bUFyay02ZiBvZiBhIHdlYmhvb2sncyBzaWduaW5nIDdiMDNkZjg4",
	"the environment, for a callback's token": "mArk7fTokenOfCallbacks5e20",
	"the directory, for a callback's key":     "mArk8fKeyOfCallbacks0123456789abcdefghijklm",
	"the environment, for the API":            "mArk-9f-token-of-the-api-b7d1",
	"a record that quotes one":                "mArk-10f-quoted-in-a-record-e61c",
	"the environment, for nothing":            "mArk-11f-that-nobody-uses-22a9",
	"the store, for a connector":              `mArk-12f/the+store="<>&0c59d1e7a3`,
	"a request that is wrong":                 "mArk-13f-under-another-name-77fe",
}

// forms are the ways in which somebody may repeat a secret, with something before it.
func forms(secret string) []string {
	quoted, _ := json.Marshal(secret)
	percent := ""
	for _, b := range []byte(secret) {
		percent += fmt.Sprintf("%%%02x", b)
	}
	all := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), percent, strings.ToUpper(percent), string(quoted[1 : len(quoted)-1]), html.EscapeString(secret),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))), url.QueryEscape(url.QueryEscape(secret)),
	}
	for _, before := range []string{"", "x", "xy"} {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(before+secret)), base64.RawURLEncoding.EncodeToString([]byte(before+secret+"z")),
			url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(before+secret+"yz"))))
	}
	return all
}

// traces are what must stand nowhere: the forms of a secret, of base64 what stays the same
// whatever stands around it, and likewise of its last word and of the key that it is.
func traces(secret string) []string {
	pieces := []string{secret}
	if word, ok := strings.CutPrefix(secret, "Bearer "); ok {
		pieces = append(pieces, word)
	}
	if key, ok := strings.CutPrefix(secret, "whsec_"); ok {
		decoded, _ := base64.StdEncoding.DecodeString(key)
		pieces = append(pieces, key, string(decoded))
	}
	var all []string
	for _, piece := range pieces {
		all = append(all, forms(piece)[:10]...)
		for before := range 3 {
			whole := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), piece...))
			within := whole[(before*8+5)/6 : (before+len(piece))*8/6]
			all = append(all, within, strings.NewReplacer("+", "-", "/", "_").Replace(within))
		}
	}
	return all
}

// markedThird is a third party that sends back what it was sent: the address /…/N does it in
// the form N.
type markedThird struct {
	*httptest.Server
	asked chan struct{}

	mu   sync.Mutex
	sent map[string]bool
}

// got returns what uses of secrets it was sent, but for those that sign.
func (m *markedThird) got() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.sent))
}

func newMarkedThird(t *testing.T) *markedThird {
	t.Helper()
	third := &markedThird{asked: make(chan struct{}, 1), sent: make(map[string]bool)}
	echo := func(r *http.Request) string {
		n, _ := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
		var all []string
		for _, values := range r.Header {
			all = append(all, values...)
		}
		for _, values := range r.URL.Query() {
			all = append(all, values...)
		}
		slices.SortFunc(all, func(a, b string) int { return strings.Compare(b, a) }) // those that begin with m first
		var text []string
		for _, value := range all {
			for use, secret := range marked {
				if value == secret {
					third.mu.Lock()
					third.sent[use] = true
					third.mu.Unlock()
				}
			}
			if strings.Contains(value, "mArk") {
				each := forms(value)
				text = append(text, each[n%len(each)])
			}
		}
		return strings.Join(text, " ")
	}
	routes := http.NewServeMux()
	routes.HandleFunc("/feed/ok/{n}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<rss version="2.0"><channel><title>t</title><item><guid>1</guid><title>fine</title></item></channel></rss>`)
	})
	routes.HandleFunc("/feed/bad/{n}", func(w http.ResponseWriter, r *http.Request) { http.Error(w, echo(r), http.StatusInternalServerError) })
	routes.HandleFunc("/feed/none/{n}", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "<rss><"+echo(r)) })
	routes.HandleFunc("/feed/moved/{n}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/feed/gone?key="+url.QueryEscape(echo(r)))
		w.WriteHeader(http.StatusFound)
	})
	routes.HandleFunc("/feed/gone", func(w http.ResponseWriter, r *http.Request) { http.Error(w, echo(r), http.StatusGone) })
	routes.HandleFunc("/connector/ok/{n}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"messages":[{"id":"1","type":"note","data":{"fine":true}}]}`)
	})
	routes.HandleFunc("/connector/bad/{n}", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"kind": "transient", "code": echo(r), "message": "refused: " + echo(r) + " at https://u:" + echo(r) + "@host/?key=" + echo(r)}})
	})
	routes.HandleFunc("/connector/none/{n}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Echo", echo(r))
		_, _ = io.WriteString(w, `{"messages":"`+echo(r)+`",`+echo(r))
	})
	routes.HandleFunc("/wecom/{n}/cgi-bin/{call}", func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/" + r.PathValue("n")
		_ = json.NewEncoder(w).Encode(map[string]any{"errcode": 40001, "errmsg": "invalid credential " + echo(r) + ", from ip, hint: " + r.URL.RawQuery})
	})
	routes.HandleFunc("/hook/{how}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("how") == "bad" {
			http.Error(w, echo(r), http.StatusInternalServerError)
			select {
			case third.asked <- struct{}{}:
			default:
			}
		}
	})
	third.Server = httptest.NewServer(routes)
	t.Cleanup(third.Close)
	return third
}

// mailbox is a mail server that refuses every login and repeats it, and returns its port.
func mailbox(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, "* OK [CAPABILITY IMAP4rev1] ready\r\n")
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					tag, rest, _ := strings.Cut(lines.Text(), " ")
					if strings.HasPrefix(rest, "CAPABILITY") {
						_, _ = fmt.Fprintf(conn, "* CAPABILITY IMAP4rev1\r\n%s OK done\r\n", tag)
						continue
					}
					_, _ = fmt.Fprintf(conn, "%s NO refused %s %s\r\n", tag, rest, strings.Join(forms(marked["the environment, for a mailbox"])[:8], " "))
				}
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// TestNoSecretAppears runs the whole service with a marked secret in each source, for each
// use, with third parties that repeat what they are sent in every form. Nothing that the
// service tells or keeps may show any of them: answers, exports, metrics, the trail, the log
// at debug, what is printed as the process crashes, Redis.
func TestNoSecretAppears(t *testing.T) {
	t.Parallel()
	binary := build(t)
	server := redistest.Start(t, redistest.WithArgs("--rdbcompression", "no"))
	third, port := newMarkedThird(t), mailbox(t)
	pair, err := secrets.Generate()
	if err != nil {
		t.Fatal(err)
	}
	private, err := pair.Text()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("secrets/FEED", marked["the directory, for a feed's header"]+"\n")
	write("secrets/WECOM", marked["the directory, for WeCom"])
	write("secrets/SIGN", marked["the directory, for signing"])
	write("secrets/service.HOOK", marked["the directory, for a webhook's signing"])
	write("secrets/service.AES", marked["the directory, for a callback's key"])
	hook := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"url":%q,"secrets":[{"secret":"HOOK"}],"headers":{"Authorization":{"secret":"HOOKAUTH"}}}`, name, third.URL+"/hook/"+name)
	}
	addr := freeAddress(t)
	settings := []string{
		"ROUNDS_REDIS_URL=" + server.URL(), "ROUNDS_API_ADDR=" + addr, "ROUNDS_API_TOKEN=" + marked["the environment, for the API"],
		"ROUNDS_ALLOW_NETWORKS=127.0.0.1", "ROUNDS_LOG_LEVEL=debug", "ROUNDS_LOG_FORMAT=json", "ROUNDS_SECRETS_DIR=" + filepath.Join(dir, "secrets"),
		"ROUNDS_SECRET_CONNECTOR=" + marked["the environment, for a connector"], "ROUNDS_SECRET_MAIL=" + marked["the environment, for a mailbox"],
		"ROUNDS_SECRETS_KEY=" + private,
		"ROUNDS_SECRET_UNUSED=" + marked["the environment, for nothing"],
		"ROUNDS_SERVICE_SECRET_HOOKAUTH=" + marked["the environment, for a webhook's header"], "ROUNDS_SERVICE_SECRET_TOKEN=" + marked["the environment, for a callback's token"],
		"ROUNDS_WEBHOOKS_FILE=" + write("webhooks.json", `{"endpoints":[`+hook("ok")+`,`+hook("bad")+`]}`),
		"ROUNDS_CALLBACKS_FILE=" + write("callbacks.json", `{"callbacks":[{"name":"kf","corp_id":"ww1","token":{"secret":"TOKEN"},"aes_key":{"secret":"AES"}}]}`),
		"ROUNDS_SETTINGS_FILE=" + write("settings", "ROUNDS_LIMITS=feed/* rate=1000/s\n"),
	}
	all := start(t, "rounds", binary, settings, "serve", "--roles", "api,poller,monitor,delivery")
	eventually(t, 20*time.Second, "the API is ready", func() bool { return status(t, "http://"+addr+"/readyz") == 200 })

	told := make(map[string]string) // what the service has told, by where
	call := func(method, path, body string) (int, string) {
		t.Helper()
		answer, text := exchange(t, method, "http://"+addr+path, marked["the environment, for the API"], body)
		told[method+" "+path] += text + fmt.Sprint(answer.Header)
		return answer.StatusCode, text
	}

	const header = `"headers":{"Authorization":{"secret":"FEED"},"X-Key":{"secret":"CONNECTOR"},"X-Stored":{"secret":"STORED"}}`
	stored, err := json.Marshal(map[string]any{"value": marked["the store, for a connector"], "hosts": []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if code, text := call("PUT", "/v1/secrets/STORED", string(stored)); code != 201 {
		t.Fatalf("put secret: %d %s", code, text)
	}
	wrong := marked["a request that is wrong"]
	for _, body := range []string{`{"vaule":"` + wrong + `"}`, `{"value":["` + wrong + `"]}`, `"` + wrong + `"`, wrong} {
		if code, text := call("PUT", "/v1/secrets/WRONG", body); code < 400 || code >= 500 {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	var records bytes.Buffer
	var ok, bad []string
	add := func(id, kind, config string) {
		fmt.Fprintf(&records, `{"id":%q,"kind":%q,"config":{%s},"cadence":"every 4s"}`+"\n", id, kind, config)
		if strings.Contains(id, "-ok-") {
			ok = append(ok, id)
		} else {
			bad = append(bad, id)
		}
	}
	for n := range forms("x") {
		for _, how := range []string{"bad", "none"} {
			if n < 3 {
				add(fmt.Sprintf("feed-%s-%d", how, n), "feed", fmt.Sprintf(`"url":"%s/feed/%s/%d",%s`, third.URL, how, n, header))
			}
			add(fmt.Sprintf("connector-%s-%d", how, n), "http", fmt.Sprintf(`"url":"%s/connector/%s/%d","signing_secret":{"secret":"SIGN"},%s`, third.URL, how, n, header))
		}
		add(fmt.Sprintf("feed-moved-%d", n), "feed", fmt.Sprintf(`"url":"%s/feed/moved/%d",%s`, third.URL, n, header))
		add(fmt.Sprintf("wecom-%d", n), "wecom-kf", fmt.Sprintf(`"corp_id":"ww%d","open_kfid":"wk1","secret":{"secret":"WECOM"},"base_url":"%s/wecom/%d"`, n, third.URL, n))
	}
	add("mail", "imap", fmt.Sprintf(`"host":"127.0.0.1","port":%d,"tls":"none","user":"u","password":{"secret":"MAIL"}`, port))
	add("feed-ok-0", "feed", fmt.Sprintf(`"url":"%s/feed/ok/0",%s`, third.URL, header))
	add("connector-ok-0", "http", fmt.Sprintf(`"url":"%s/connector/ok/0","signing_secret":{"secret":"SIGN"},%s`, third.URL, header))
	if code, text := call("POST", "/v1/accounts:import", records.String()); code != 200 || !strings.Contains(text, fmt.Sprintf(`"created":%d`, len(ok)+len(bad))) {
		t.Fatalf("import: %d %s", code, text)
	}

	// Who puts a secret into a record is refused, and not quoted.
	quoted := marked["a record that quotes one"]
	for _, c := range [][3]string{
		{"PUT", "/v1/accounts/quoted", `{"kind":"imap","config":{"host":"127.0.0.1","user":"u","password":"` + quoted + `"}}`},
		{"POST", "/v1/accounts", `{"id":"quoted","kind":"http","config":{"url":"` + third.URL + `","signing_secret":"` + quoted + `"}}`},
		{"PATCH", "/v1/accounts/mail", `{"config":{"password":{"secret":"` + quoted + `","more":1}}}`},
		{"POST", "/v1/accounts:import", `{"id":"quoted","kind":"wecom-kf","config":{"corp_id":"ww","open_kfid":"wk","secret":"` + quoted + `"}}`},
	} {
		if code, text := call(c[0], c[1], c[2]); code != 422 && !strings.Contains(text, `"failed":1`) {
			t.Errorf("%s %s: %d %s", c[0], c[1], code, text)
		}
	}
	call("POST", "/v1/callbacks/wecom/kf?msg_signature=x&timestamp=1&nonce=2", "<xml><Encrypt>aaaa</Encrypt></xml>")
	call("GET", "/v1/callbacks/wecom/kf?msg_signature=x&timestamp=1&nonce=2&echostr=aaaa", "")

	state := func(id string) (s struct {
		Error string `json:"last_error"`
		Last  string `json:"last_success"`
		Never bool   `json:"never_succeeded"`
	}) {
		_, text := call("GET", "/v1/accounts/"+id+"/schedule", "")
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return s
	}
	for _, id := range bad {
		eventually(t, time.Minute, id+" fails", func() bool { return state(id).Error != "" })
	}
	for _, id := range ok {
		eventually(t, time.Minute, id+" succeeds", func() bool { s := state(id); return s.Last != "" && !s.Never })
	}
	select {
	case <-third.asked:
	case <-time.After(time.Minute):
		t.Fatal("the webhook was not called")
	}
	eventually(t, time.Minute, "a webhook fails", func() bool {
		_, text := call("GET", "/v1/webhooks/bad", "")
		return strings.Contains(text, `"error":`)
	})
	var key struct{ Key string }
	if _, text := call("POST", "/v1/keys", `{"name":"reader","role":"viewer"}`); json.Unmarshal([]byte(text), &key) != nil || key.Key == "" {
		t.Fatalf("no key: %s", text)
	}
	delete(told, "POST /v1/keys") // it is told this once
	call("POST", "/v1/webhooks/bad/retry", "")
	call("POST", "/v1/accounts/mail/pause", "")
	call("POST", "/v1/reload", "")
	for _, path := range []string{
		"/v1/accounts?limit=1000", "/v1/accounts:export?with_state=true", "/v1/accounts/mail", "/v1/accounts/mail/trail", "/v1/backup", "/v1/backup?with_secrets=true", "/v1/parked", "/v1/messages", "/v1/stats", "/v1/groups",
		"/v1/dead", "/v1/webhooks", "/v1/trail?limit=1000", "/v1/audit", "/v1/reshard", "/v1/keys", "/v1/secrets", "/v1/whoami", "/metrics", "/openapi.json", "/readyz",
	} {
		if code, _ := call("GET", path, ""); code != 200 {
			t.Errorf("%s: %d", path, code)
		}
	}
	conn, err := redistest.Connect(t, server).Conn(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do("SAVE"); err != nil {
		t.Fatal(err)
	}
	dump, err := os.ReadFile(filepath.Join(server.Dir, "dump.rdb"))
	if err != nil || !bytes.Contains(dump, []byte("connector-ok-0")) {
		t.Fatalf("Redis' dump has %d bytes, %v", len(dump), err)
	}
	told["Redis"] = string(dump)
	// As a crash would, it prints every goroutine's stack.
	if err := syscall.Kill(all.Pid(), syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the process has ended", all.Ended)
	told["the log"] = all.Log()
	for _, want := range []string{"goroutine 1 ", `"level":"DEBUG"`, "[secret]"} {
		if !strings.Contains(told["the log"], want) {
			t.Errorf("the log has no %s", want)
		}
	}
	if got := third.got(); len(got) != 5 {
		t.Errorf("only %v were sent", got)
	}

	secrets := maps.Clone(marked)
	secrets["a key of the API"], secrets["the private key"] = key.Key, private
	for what, secret := range secrets {
		for _, trace := range traces(secret) {
			for where, text := range told {
				if at := strings.Index(text, trace); at >= 0 {
					t.Errorf("the secret of %s stands in %s, as %q: …%q…", what, where, trace, text[max(0, at-100):min(len(text), at+len(trace)+40)])
				}
			}
		}
	}
}

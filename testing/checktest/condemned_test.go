package checktest_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/connector"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/processes"
)

// secret is what a checker of these tests knows and must not reveal.
const secret = "0pen-sesame-42"

// flaw names the flaw of the checker in a process that condemned starts. It has a suffix, as
// each sort of checker has flaws of its own.
const flaw = "CHECKTEST_FLAW"

// The suite runs on each flaw without the race detector. The detector watches it where there is
// none, in TestModel, TestSendModel, TestOverHTTP, TestOverABase and TestDeclaring.
func TestMain(m *testing.M) {
	os.Exit(processes.Apart(m, "TestTheSuiteCondemns", "TestTheSuiteOfSendsCondemns", "TestTheSuiteOverHTTPCondemns", "TestTheSuiteOverABaseCondemns", "TestDeclaredCondemns").Run())
}

// condemned runs a test again in a process of its own, with a flaw in its checker, and expects
// that it fails and says a text. Without a text it must pass.
func condemned(t *testing.T, test, name, says string) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		again := exec.CommandContext(t.Context(), self, "-test.run=^"+test+"$")
		again.Env = append(os.Environ(), flaw+"="+name)
		out, err := again.CombinedOutput()
		var failed *exec.ExitError
		switch {
		case says == "" && err != nil:
			t.Errorf("%v\n%s", err, out)
		case says != "" && (!errors.As(err, &failed) || !strings.Contains(string(out), says)):
			t.Errorf("the suite does not say %q: %v\n%s", says, err, out)
		}
	})
}

// model is a third party in memory, and its checker, with at most one flaw.
type model struct {
	flaw string

	mu     sync.Mutex
	posted map[string]int
	broken map[string]string
	asked  map[string]int // by account and cursor
}

func (m *model) Kind() string {
	if m.flaw == "it has no name" {
		return ""
	}
	return "model"
}

func (m *model) Validate(config json.RawMessage) error {
	r := strict.ReadConfig(config)
	r.Text("account")
	if _, err := secrets.ParseRef(r.Take("token")); err != nil && m.flaw != "a secret's value in the config" {
		r.Refuse("token", err)
	}
	err := r.Err()
	switch {
	case m.flaw == "any config is valid":
		return nil
	case m.flaw == "no config is valid":
		return errors.New("config.account: is refused")
	case m.flaw == "it quotes the config" && err != nil:
		return fmt.Errorf("%w: %s", err, config)
	case m.flaw == "one fault at a time" && err != nil:
		first, _, _ := strings.Cut(strings.ReplaceAll(err.Error(), "; ", "\n"), "\n")
		return errors.New(first)
	}
	return err
}

func (m *model) Fields() []strict.Field {
	return []strict.Field{{Name: "account", Type: strict.TextType, Required: true}, {Name: "token", Type: strict.Secret}}
}

func (m *model) RateKey(json.RawMessage) string {
	if m.flaw == "a secret in the rate key" {
		return "model " + secret
	}
	return "model"
}

// fail returns an error, unless it is another one by the checker's flaw.
func (m *model) fail(kind poller.ErrorKind, code string) (poller.Result, error) {
	failed := &poller.CheckError{Kind: kind, Scope: poller.ScopeAccount, Code: code, Message: "it fails"}
	var result poller.Result
	switch m.flaw {
	case code + " without its kind":
		failed.Kind = poller.RateLimited
	case code + " without its scope":
		failed.Scope = poller.ScopeChecker
	case code + " without its code":
		failed.Code = "other"
	case code + " tells a secret":
		failed.Message += " with " + secret
	case code + " has a cause that tells a secret":
		failed.Err = errors.New("asked with " + secret)
	case code + " has a cause that tells a token":
		failed.Err = errors.New("asked for /?token=1")
	case code + " is a nil error of its type":
		failed = nil
	case code + " of another type":
		return result, errors.New("it fails")
	case code + " beside a result":
		result.HasMore = true
	}
	return result, failed
}

func (m *model) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	if err := m.Validate(r.Config); err != nil {
		failed := poller.ConfigError(err)
		if m.flaw == "a faulty config is transient" {
			failed.Kind = poller.Transient
		}
		if m.flaw == "an unknown field is a faulty config" {
			failed.Kind = poller.ConfigInvalid
		}
		return poller.Result{}, failed
	}
	if ctx.Err() != nil && m.flaw != "it ignores its context" {
		return m.fail(poller.Transient, "canceled")
	}
	if m.flaw == "it panics" || m.flaw == "it panics where many ask" && r.Account != "a" {
		panic("no token")
	}
	n, err := strconv.Atoi("0" + strings.TrimRight(string(r.Cursor), " "))
	if err != nil && m.flaw != "it takes a broken cursor" {
		return m.fail(poller.CursorInvalid, "cursor")
	}
	m.mu.Lock()
	fault, posted := m.broken[r.Account], m.posted[r.Account]
	again := m.asked[fmt.Sprint(r.Account, " ", n)]
	m.asked[fmt.Sprint(r.Account, " ", n)]++
	m.mu.Unlock()
	switch fault {
	case "hang":
		<-ctx.Done()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return m.fail(poller.Transient, "timeout")
		}
		return m.fail(poller.Transient, "canceled")
	case "garbage":
		return m.fail(poller.Protocol, "garbage")
	}
	most := r.Limit
	switch {
	case m.flaw == "more than the limit":
		most++
	case m.flaw == "another page the second time" && again > 0:
		most--
	case m.flaw == "it fails where many ask" && r.Account != "a":
		return m.fail(poller.Transient, "canceled")
	case m.flaw == "it mixes accounts up" && r.Account != "a":
		posted = 3
	case m.flaw == "a message twice" && n == 7:
		n--
	case m.flaw == "a message is lost" && n == 7:
		n++
	}
	var result poller.Result
	first := n
	for ; n < min(posted, first+most); n++ {
		result.Messages = append(result.Messages, m.message(r.Account, n+1))
	}
	never := m.flaw == "it never ends" || m.flaw == "a trial never ends" && r.Trial || m.flaw == "it never ends where many ask" && r.Account != "a"
	result.HasMore = n < posted || never
	if n > first || never {
		result.Cursor = m.cursor(n)
	}
	if m.flaw == "it writes into its cursor" && len(r.Cursor) > 0 && again > 0 {
		r.Cursor[0] = ' '
	}
	if m.flaw == "no failure is a nil error of its type" {
		var failed *poller.CheckError
		return result, failed
	}
	return result, nil
}

func (m *model) cursor(n int) []byte {
	text := strconv.Itoa(n)
	if m.flaw == "a large cursor" {
		text += strings.Repeat(" ", 64<<10)
	}
	if m.flaw == "a secret in the cursor" {
		text += secret
	}
	return []byte(text)
}

func (m *model) message(account string, n int) poller.Message {
	message := poller.Message{ID: modelID(account, n), Type: "one", Time: time.Now(), Data: json.RawMessage(`{}`)}
	switch m.flaw {
	case "other ids":
		message.ID += "x"
	case "a message without an id":
		message.ID = ""
	case "a long id":
		message.ID += strings.Repeat("x", 1<<10)
	case "messages without a time":
		message.Time = time.Time{}
	case "messages of years ago":
		message.Time = time.Now().AddDate(-5, 0, 0)
	case "a message of 1970":
		message.Time = time.Unix(7, 0)
	case "a message from the future":
		message.Time = time.Now().Add(2 * time.Minute)
	case "data that is no JSON":
		message.Data = json.RawMessage(`{`)
	case "large data":
		message.Data = json.RawMessage(`"` + strings.Repeat("x", 256<<10) + `"`)
	case "a secret in a message":
		message.Data = json.RawMessage(`"` + secret + `"`)
	case "a secret in a type":
		message.Type = secret
	}
	return message
}

func modelID(account string, n int) string { return fmt.Sprintf("%s-%d", account, n) }

func (m *model) start(*testing.T) checktest.Party {
	m = &model{flaw: m.flaw, posted: make(map[string]int), broken: make(map[string]string), asked: make(map[string]int)}
	set := func(account, fault string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.broken[account] = fault
	}
	party := checktest.Party{
		New:    func() poller.Checker { return m },
		Config: func(account string) json.RawMessage { return json.RawMessage(`{"account":"` + account + `"}`) },
		Post: func(account string, n int) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.posted[account] += n
		},
		ID:   modelID,
		Heal: func(account string) { set(account, "") },
		Faults: []checktest.Fault{
			{Name: "garbage", Break: func(account string) { set(account, "garbage") }, Kind: poller.Protocol, Scope: poller.ScopeAccount, Code: "garbage"},
			{Name: "hang", Break: func(account string) { set(account, "hang") }, Hangs: true},
		},
		Once: m.flaw == "messages again, of a party that gives each once", Confirms: m.flaw == "messages again, of a party that was told",
		Secrets: []string{secret},
	}
	if m.flaw == "ids that nobody judges" {
		party.ID = nil
	}
	switch m.flaw {
	case "a secret without its value":
		party.Secrets = []string{""}
	case "a party without Post":
		party.Post = nil
	case "a fault without Break":
		party.Faults[0].Break = nil
	}
	if m.flaw == "no fault hangs" {
		party.Faults = party.Faults[:1]
	}
	return party
}

func TestModel(t *testing.T) {
	m := &model{flaw: os.Getenv(flaw)}
	checktest.Run(t, checktest.Kind{Start: m.start, Faulty: `{"account":7,"zebra":1}`, Fields: []string{"config.account", "config.zebra"}, Invalid: []string{`{"account":"` + checktest.Hidden + `","` + checktest.Hidden[:4] + `":1}`}})
}

// The suite condemns each flaw that a checker may have. A judgement that is made blind fails
// here, and so does one of a flaw that another judgement happens to find.
func TestTheSuiteCondemns(t *testing.T) {
	for name, says := range map[string]string{
		"": "", "ids that nobody judges": "", "messages without a time": "", "messages of years ago": "",

		"a message is lost": "after 25 were posted: got ", "a message twice": "a-7 came twice", "other ids": "got a-1x, want a-1",
		"it never ends": "no end after 100 pages", "a trial never ends": "no end after 100 pages", "it never ends where many ask": "account 3: no end after 100 pages", "more than the limit": "8 messages, over the limit of 7",
		"another page the second time": "page 1: got [a-1 a-2 a-3 a-4 a-5 a-6], the first time", "it writes into its cursor": "the check wrote into its cursor",
		"messages again, of a party that gives each once": "page 1: got [a-1", "messages again, of a party that was told": "from the page before: got ",
		"it fails where many ask": "account 0: transient", "it mixes accounts up": "account 0: got 3 messages",

		"a large cursor": "a cursor of 65537 bytes", "a secret in the cursor": `cursor tells "0pen-sesame-42"`,
		"a message without an id": `message "": an id of 0 bytes`, "a long id": "an id of 1027 bytes", "a message of 1970": "message a-1: its time is 1970", "a message from the future": "want the zero time, for unknown, or one between the year 2000 and now",
		"data that is no JSON": "message a-1: 1 bytes of data", "large data": "message a-1: 262146 bytes of data",
		"a secret in a message": `message a-1 tells "0pen-sesame-42"`, "a secret in a type": `message a-1 tells "0pen-sesame-42"`,

		"it takes a broken cursor": "want a *poller.CheckError", "cursor without its kind": "rate_limited: cursor", "cursor beside a result": "HasMore:true",

		"it ignores its context": "want a *poller.CheckError", "no fault hangs": "no fault hangs: nothing was tried",
		"canceled without its kind": "cancelled before: got ", "canceled beside a result": "hang, cancelled: got ",
		"timeout without its kind": "hang, timed: got ", "timeout without its code": "hang, timed: got ", "timeout beside a result": "hang, timed: got ", "timeout tells a secret": `hang tells "0pen-sesame-42"`,

		"garbage without its kind": "garbage: got rate_limited", "garbage without its scope": "garbage: got protocol", "garbage without its code": "garbage: got protocol: other",
		"garbage of another type": "want a *poller.CheckError", "garbage is a nil error of its type": "got a nil *poller.CheckError", "no failure is a nil error of its type": "got a nil *poller.CheckError",
		"garbage beside a result": "garbage: the result is ", "garbage tells a secret": `garbage tells "0pen-sesame-42"`,
		"garbage has a cause that tells a secret": `garbage tells "0pen-sesame-42"`, "garbage has a cause that tells a token": `garbage tells "token="`,

		"it panics": "--- FAIL: TestModel/many_at_once", "it panics where many ask": "the checker panicked: no token",
		"a secret without its value": "config.token is a secret, and Party.Secrets is empty", "a secret's value in the config": `{"account":"a","token":"hush-hush"}: valid`,

		"a party without Post": "Party.Post is missing", "a fault without Break": `Fault.Break of "garbage" is missing`,
		"it has no name": "the kind has no name", "any config is valid": `"hush-hush": valid`, "no config is valid": "valid: config.account: is refused", "a secret in the rate key": `rate key tells "0pen-sesame-42"`,
		"it quotes the config": `tells "hush-hush"`, "one fault at a time": "not all faults at once",
		"a faulty config is transient": "checked, got transient", "an unknown field is a faulty config": "checked, got config: ",
	} {
		condemned(t, "TestModel", name, says)
	}
}

// over is a checker over HTTP with a flaw.
type over struct {
	*connector.Checker
	flaw string
}

func (o over) Validate(config json.RawMessage) error {
	if o.flaw == "private addresses are valid" {
		return nil
	}
	return o.Checker.Validate(config)
}

func (o over) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	result, err := o.Checker.Check(ctx, r)
	var failed *poller.CheckError
	if !errors.As(err, &failed) {
		if err == nil && o.flaw == "an empty answer is more" && len(result.Messages) == 0 && r.Account == "a" && r.Cursor == nil {
			result.NextPollAfter = time.Second
		}
		return result, err
	}
	told := *failed
	switch o.flaw {
	case "it tells the address":
		told.Message += string(r.Config)
	case "it tells the secret":
		told.Message += secret
	case "it tells the secret in base64":
		told.Message += base64.StdEncoding.EncodeToString([]byte(secret))
	case "it tells the address as a cause":
		told.Err = errors.New(string(r.Config))
	case "no status is an error":
		if strings.HasPrefix(told.Code, "http_4") {
			return poller.Result{}, nil
		}
	case "410 is transient":
		if told.Code == "http_410" {
			told.Kind = poller.Transient
		}
	case "503 has no code":
		if told.Code == "http_503" {
			told.Code = "http"
		}
	case "it does not wait":
		told.RetryAfter = 0
	case "it waits for ever":
		told.RetryAfter *= 40
	}
	return result, &told
}

func TestOverHTTP(t *testing.T) {
	name := os.Getenv(flaw)
	values := secrets.Source{Lookup: func(name string) (string, bool) { return secret, name == "ROUNDS_SECRET_TOKEN" }}
	checktest.RunHTTP(t, checktest.HTTP{
		New: func(client *fetch.Client) poller.Checker {
			if name == "it reaches private addresses" {
				networks, err := fetch.ParseNetworks("127.0.0.0/8,::1/128,10.0.0.0/8")
				if err != nil {
					t.Fatal(err)
				}
				client = fetch.New(fetch.Options{Networks: networks, Timeout: time.Second})
				t.Cleanup(client.Close)
			}
			return over{connector.New(client, values), name}
		},
		WithSecrets: func(client *fetch.Client, source secrets.Source) poller.Checker {
			switch name {
			case "a secret is used without a host":
				return careless{source, client, secrets.Use{Kind: "careless", Stays: true}, true}
			case "a secret is used for another host":
				return careless{source, client, secrets.Use{Kind: "careless", Host: "other.example:443", TLS: true}, true}
			case "a call with a secret is not confined":
				return careless{source, client, secrets.Use{}, false}
			case "a secret is used as it should be":
				return careless{source, client, secrets.Use{}, true}
			}
			return over{connector.New(client, source), name}
		},
		Config: func(url string) json.RawMessage {
			raw, err := json.Marshal(map[string]any{"url": url, "headers": map[string]any{"X-Token": strict.Ref("TOKEN")}})
			if err != nil {
				t.Fatal(err)
			}
			return raw
		},
		Route: "connector", Secret: secret,
	})
}

// careless is a checker that sends a secret, with the use that it names; without one, with the right
// one.
type careless struct {
	source   secrets.Source
	client   *fetch.Client
	use      secrets.Use
	confined bool
}

func (careless) Kind() string                   { return "careless" }
func (careless) Validate(json.RawMessage) error { return nil }
func (careless) RateKey(json.RawMessage) string { return "" }

func (c careless) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	var config struct{ URL string }
	if err := json.Unmarshal(r.Config, &config); err != nil {
		return poller.Result{}, err
	}
	use := c.use
	if use == (secrets.Use{}) {
		use = secrets.ForURL("careless", config.URL)
	}
	token, err := c.source.Get(ctx, "TOKEN", use)
	if err != nil {
		return poller.Result{}, secrets.CheckError(err)
	}
	_, err = c.client.Do(ctx, fetch.Call{URL: config.URL, Header: http.Header{"X-Token": {token}}, Confined: c.confined && use.Open()})
	if err != nil {
		return poller.Result{}, fetch.CheckError(err)
	}
	return poller.Result{}, &poller.CheckError{Code: "http_503"}
}

func TestTheSuiteOverHTTPCondemns(t *testing.T) {
	for name, says := range map[string]string{
		"":                            "",
		"private addresses are valid": "http://127.0.0.1:1/: valid", "it reaches private addresses": "a private address was reached",
		"it tells the address": `tells "hush-hush"`, "it tells the address as a cause": `tells "hush-hush"`,
		"it tells the secret": `tells "0pen-sesame-42"`, "it tells the secret in base64": `tells "MHBlbi1zZXNhbWUtNDI="`,
		"no status is an error": "404: no error", "410 is transient": "410: got transient", "503 has no code": "503: got ",
		"a secret is used as it should be": "",
		"a secret is used without a host":  "does not get there: its use must name that host", "a secret is used for another host": "does not get there: its use must name that host",
		"a call with a secret is not confined": "over the public internet without TLS",
		"it does not wait":                     "429: got ", "it waits for ever": "retry after ", "an empty answer is more": "204: got ",
	} {
		condemned(t, "TestOverHTTP", name, says)
	}
}

// based is a checker over HTTP whose URL is one that it puts a path behind, with a flaw.
type based struct {
	form   *strict.Form[base]
	client *fetch.Client
	source secrets.Source
	flaw   string
}

type base struct {
	url   string
	token secrets.Ref
}

func newBased(client *fetch.Client, source secrets.Source, flaw string) based {
	return based{client: client, source: source, flaw: flaw, form: strict.NewForm([]strict.Entry[base]{
		{
			Field: strict.Field{Name: "url", Type: strict.URL, Required: true},
			Read: func(v strict.Value, to *base) {
				if to.url, _ = client.ReadBaseURL(v); flaw == "it refuses every address" {
					v.Refuse(errors.New("is refused"))
				}
			},
		},
		{
			Field: strict.Field{Name: "token", Type: strict.Secret, Required: true},
			Read:  func(v strict.Value, to *base) { to.token = secrets.ReadRef(v) },
		},
	})}
}

func (based) Kind() string                            { return "based" }
func (b based) Validate(config json.RawMessage) error { return b.form.Validate(config) }
func (based) RateKey(json.RawMessage) string          { return "" }

func (b based) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	site, err := b.form.Read(r.Config)
	if err != nil {
		return poller.Result{}, poller.ConfigError(err)
	}
	use := secrets.ForURL(b.Kind(), site.url)
	token, err := b.source.Get(ctx, site.token.Name, use)
	if err != nil {
		return poller.Result{}, secrets.CheckError(err)
	}
	answer, err := b.client.Do(ctx, fetch.Call{URL: site.url + "/messages", Header: http.Header{"X-Token": {token}}, Confined: use.Open()})
	if err != nil {
		return poller.Result{}, fetch.CheckError(err)
	}
	failed := &poller.CheckError{Code: fmt.Sprint("http_", answer.Status), Message: "it fails"}
	switch b.flaw {
	case "it tells the secret":
		failed.Message += token
	case "it tells the address":
		failed.Message += site.url
	case "it panics":
		panic("it has no answer")
	}
	return poller.Result{}, failed
}

func TestOverABase(t *testing.T) {
	name := os.Getenv(flaw)
	values := secrets.Source{Lookup: func(name string) (string, bool) {
		return secret, name == "ROUNDS_SECRET_TOKEN" && os.Getenv(flaw) != "its source is empty"
	}}
	checktest.RunAddresses(t, checktest.HTTP{
		New: func(client *fetch.Client) poller.Checker { return newBased(client, values, name) },
		WithSecrets: func(client *fetch.Client, source secrets.Source) poller.Checker {
			return newBased(client, source, name)
		},
		Config: func(url string) json.RawMessage {
			return fmt.Appendf(nil, `{"url":%q,"token":{"secret":"TOKEN"}}`, url)
		},
		Secret: secret,
	})
}

// A checker that takes no query is judged by a URL without one, and one that calls nobody is not judged
// blindly.
func TestTheSuiteOverABaseCondemns(t *testing.T) {
	for name, says := range map[string]string{
		"": "", "it tells the secret": `tells "0pen-sesame-42"`, "it tells the address": `tells "hush-hush"`,
		"it refuses every address": "no call was made: nothing was tested",
		"its source is empty":      "redirect to http://10.0.0.1/: got the code secret, want refused_address or http_302: ",
		"it panics":                "--- FAIL: TestOverABase/secrets_go_where_they_may",
	} {
		condemned(t, "TestOverABase", name, says)
	}
}

// declaring is a kind that declares other fields than it knows.
type declaring struct {
	*connector.Checker
	flaw string
}

func (d declaring) Fields() []strict.Field {
	fields := d.Checker.Fields()
	at := func(name string) *strict.Field {
		return &fields[slices.IndexFunc(fields, func(f strict.Field) bool { return f.Name == name })]
	}
	switch d.flaw {
	case "no field is declared":
		return nil
	case "it panics":
		panic("no fields")
	case "a field is not declared":
		return fields[:len(fields)-1]
	case "a field is declared that is unknown":
		other := *at("settings")
		other.Name = "other"
		return append(fields, other)
	case "a field is declared to be required":
		at("settings").Required = true
	case "an example is refused":
		at("hold").Example = 1000
	case "an example of a required field is refused":
		at("url").Example = "ftp://example.com"
	case "a field has no label":
		at("hold").Label = strict.Words{}
	}
	return fields
}

func TestDeclaring(t *testing.T) {
	checktest.Declared(t, declaring{connector.New(checktest.Client(t, fetch.Options{}), secrets.Source{}), os.Getenv(flaw)}, "../../poller/checkers/connector", "../../poller/fetch")
}

func TestDeclaredCondemns(t *testing.T) {
	for name, says := range map[string]string{
		"": "", "no field is declared": "declares no fields", "it panics": "the checker panicked: no fields", "a field is not declared": "settings: declared false, known to Validate true",
		"a field is declared that is unknown": "other: declared true, known to Validate false", "a field is declared to be required": "settings is required, and without it there is",
		"an example is refused": "hold: 1000 is refused", "an example of a required field is refused": "the examples of all required fields are refused", "a field has no label": "label",
	} {
		condemned(t, "TestDeclaring", name, says)
	}
}

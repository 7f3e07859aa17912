package examples

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/testing/processes"
)

// bots are the examples, each with the command that runs it. When a process dies that delivers, its
// messages wait 15 s for another one. So one dies in one language only.
var bots = []struct {
	language string
	command  func(t *testing.T) []string
	victims  []string // besides those of all
}{
	{"Go", compiled("./bot-go"), []string{"delivery 1"}},
	{"Python", interpreted("python3", "bot-python/bot.py"), nil},
	{"Node", interpreted("node", "bot-node/bot.mjs"), nil},
}

// Everybody who writes is answered once, whichever process is killed in the middle of a call, and
// whichever replies are lost. Where nobody knows whether the answer has arrived, its send is unknown,
// and once somebody has looked and decided, all are answered.
func TestBotsAnswerEachMessageOnce(t *testing.T) {
	binary, err := processes.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bots {
		t.Run(b.language, func(t *testing.T) {
			t.Parallel()
			answersOnce(t, startBotWorld(t, binary, b.command(t)), b.victims)
		})
	}
	t.Run("broken", func(t *testing.T) {
		t.Parallel()
		brokenBotIsFound(t, binary)
	})
}

func answersOnce(t *testing.T, w *botWorld, more []string) {
	t.Helper()
	victims := []string{"bot", "bot", "api", "poller 1", "poller 2", "poller 2"}
	rand.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
	for _, victim := range slices.Insert(victims, 2, more...) { // by then every process does its part
		w.third.write(5)
		w.killAt(victim, moments[rand.IntN(len(moments))])
	}
	sends := w.settled()
	for _, fault := range faultsOf(w.third.answered(), sends) {
		t.Error(fault)
	}
	decided := w.resolve()
	if decided == 0 || w.repeated() == 0 {
		t.Errorf("%d answers were in doubt, and the bot repeated %d: there must be some", decided, w.repeated())
	}
	for person, answers := range w.third.answered() {
		if answers != 1 {
			t.Errorf("in the end %s has %d answers", person, answers)
		}
	}
	t.Logf("%d messages, each answered once; %d answers were in doubt, and the bot repeated %d", len(sends), decided, w.repeated())
}

// brokenBotIsFound has a bot make up a key for each request. It answers some messages twice.
func brokenBotIsFound(t *testing.T, binary string) {
	t.Helper()
	const right, wrong = `"Idempotency-Key": key`, `"Idempotency-Key": os.urandom(9).hex()`
	command := interpreted("python3", "bot-python/bot.py")(t)
	program, err := os.ReadFile(command[1])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(program), right) != 1 {
		t.Fatalf("the bot has no %s", right)
	}
	broken := filepath.Join(t.TempDir(), "bot.py")
	if err := os.WriteFile(broken, []byte(strings.Replace(string(program), right, wrong, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	w := startBotWorld(t, binary, []string{command[0], broken})
	w.third.write(4 * loseEach)
	sends := w.settled()
	if faults := strings.Join(faultsOf(w.third.answered(), sends), "\n"); !strings.Contains(faults, "has 2 answers") {
		t.Errorf("nobody was found to be answered twice:\n%s", faults)
	}
}

// A bot tells rounds by its status whether to bring the message again, and whether to pause before
// that. It acts only on what is signed.
func TestBotsTellWhetherToBringTheMessageAgain(t *testing.T) {
	for _, b := range bots {
		t.Run(b.language, func(t *testing.T) {
			t.Parallel()
			tellsWhetherToBringItAgain(t, b.command(t))
		})
	}
}

func tellsWhetherToBringItAgain(t *testing.T, command []string) {
	t.Helper()
	var status, calls atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, err := io.ReadAll(r.Body)
		if got, want := r.Method+" "+r.RequestURI, "POST /v1/accounts/a%2Fb%20c/sends"; err != nil || got != want {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
		if r.Header.Get("Idempotency-Key") != "msg_1" || r.Header.Get("Authorization") != "Bearer "+apiToken || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", r.Header)
		}
		if want := `{"reply_to":"12:1-0","data":{"text":"Thank you, we have your message."}}`; !sameJSON(t, body, want) {
			t.Errorf("body %s, want %s", body, want)
		}
		if status.Load() == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(service.Close)
	addr := address(t)
	_, port, _ := strings.Cut(addr, ":")
	bot, err := processes.Start("bot", command[0], []string{"BOT_SECRET=" + signingKey, "BOT_PORT=" + port, "ROUNDS_API_URL=" + service.URL, "ROUNDS_API_TOKEN=" + apiToken}, command[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bot.Kill)
	const body = `{"type":"message.found","data":{"account":"a/b c","kind":"http","id":"1","type":"text","time":null,"data":{},"handle":"12:1-0"}}`
	bring := func(body string, at time.Time, signature string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {fmt.Sprint(at.Unix())}, "Webhook-Signature": {signature}}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		return answer.StatusCode, answer.Header.Get("Retry-After")
	}
	key, err := standardwebhooks.NewWebhook(signingKey)
	if err != nil {
		t.Fatal(err)
	}
	signature := func(at time.Time) string {
		text, err := key.Sign("msg_1", at, []byte(body))
		if err != nil {
			t.Error(err)
		}
		return text
	}
	now := time.Now()
	eventually(t, "the bot listens", func() (bool, string) {
		got, seen := bring("", now, "")
		return got != 0, seen
	})
	for said, want := range map[int32]string{
		202: "204 ", 409: "204 ", 422: "204 ",
		401: "503 ", 403: "503 ", 404: "503 ", 500: "503 ",
		429: "503 1", 502: "503 1", 503: "503 1", 504: "503 1", 0: "503 1",
	} {
		status.Store(said)
		calls.Store(0)
		got, pause := bring(body, now, "v1,AAAA "+signature(now))
		if seen := fmt.Sprint(got, " ", pause); seen != want || calls.Load() == 0 { // Go's client repeats a request under a key by itself
			t.Errorf("the API says %d: the bot says %q after %d calls, want %q", said, seen, calls.Load(), want)
		}
	}
	calls.Store(0)
	old, ahead := now.Add(-10*time.Minute), now.Add(10*time.Minute)
	for name, got := range map[string]func() (int, string){
		"no signature":       func() (int, string) { return bring(body, now, "") },
		"a forged one":       func() (int, string) { return bring(body, now, "v1,"+strings.Repeat("A", 43)+"=") },
		"of another version": func() (int, string) { return bring(body, now, strings.Replace(signature(now), "v1", "v2", 1)) },
		"another body":       func() (int, string) { return bring(body+" ", now, signature(now)) },
		"an old one":         func() (int, string) { return bring(body, old, signature(old)) },
		"one from ahead":     func() (int, string) { return bring(body, ahead, signature(ahead)) },
	} {
		if code, _ := got(); code != http.StatusUnauthorized || calls.Load() > 0 {
			t.Errorf("%s: %d, and %d calls", name, code, calls.Load())
		}
	}
}

// sameJSON reports whether two texts are the same JSON.
func sameJSON(t *testing.T, got []byte, want string) bool {
	t.Helper()
	var one, other any
	if err := errors.Join(json.Unmarshal(got, &one), json.Unmarshal([]byte(want), &other)); err != nil {
		t.Error(err)
	}
	return reflect.DeepEqual(one, other)
}

// The guide prints the bot in Python as it stands in the examples, and as the test above runs it.
func TestTheGuidePrintsTheBot(t *testing.T) {
	program, err := os.ReadFile("bot-python/bot.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"../guide/answers.md", "../guide/zh-CN/answers.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "```python\n"+string(program)+"```\n") {
			t.Errorf("%s prints another bot than bot-python/bot.py", page)
		}
	}
}

// faultsOf returns what is wrong: a person who was answered twice, or not at all although no send to
// them is in doubt, and a send that has not ended as it should.
func faultsOf(answered map[string]int, sends []api.Send) (faults []string) {
	doubt := make(map[string]bool)
	for _, s := range sends {
		switch s.State {
		case "unknown":
			doubt[s.To] = true
		case "accepted":
		default:
			faults = append(faults, fmt.Sprintf("the send to %s is %s (%s)", s.To, s.State, s.Code))
		}
	}
	for person, answers := range answered {
		if answers > 1 || answers == 0 && !doubt[person] {
			faults = append(faults, fmt.Sprintf("%s has %d answers", person, answers))
		}
	}
	slices.Sort(faults)
	return faults
}

package command

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/testing/processes"
)

// patience is how long a test of the demo waits.
const patience = 60 * time.Second

// hasty is the value of programVariable with which a demo finds the death of a poller
// sooner.
const hasty = "hasty"

func runHastyDemo() {
	env := systemEnvironment(Program{})
	env.change = func(s *settings.Settings) {
		s.Poller.HeartbeatInterval, s.Monitor.DeadAfter, s.Monitor.SweepInterval = 500*time.Millisecond, 3*time.Second, 500*time.Millisecond
	}
	if err := run(context.Background(), os.Args[1:], env); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// demonstration is a demo in a process of its own.
type demonstration struct {
	*testing.T
	*processes.Process
	base string
}

func startDemo(t *testing.T) *demonstration {
	t.Helper()
	p, err := processes.Start("demo", os.Args[0], []string{programVariable + "=" + hasty, "TMPDIR=" + t.TempDir()}, "demo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the demo said:\n%.2000s", p.Log())
		}
	})
	d := &demonstration{T: t, Process: p}
	d.await("the address of the dashboard", func() bool {
		d.base = addressOf(p.Log())
		return d.base != ""
	})
	return d
}

// addressOf returns the URL of the dashboard, which the first line of a demo says, or "".
func addressOf(text string) string {
	found := regexp.MustCompile(`^Dashboard +(http://127\.0\.0\.1:\d+)/\n`).FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return found[1]
}

func (d *demonstration) await(what string, so func() bool) {
	d.Helper()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(deadline) {
			d.Fatalf("waited in vain for %s", what)
		}
	}
}

// pollers waits until all run, and returns them.
func (d *demonstration) pollers() []api.DemoPoller {
	d.Helper()
	var list api.DemoPollers
	d.await("three pollers", func() bool {
		running := 0
		list = api.DemoPollers{}
		if status, body := processes.Get(d.T, d.base+"/v1/demo", ""); status != http.StatusOK || json.Unmarshal([]byte(body), &list) != nil {
			return false
		}
		for _, p := range list.Pollers {
			if p.State == api.DemoRunning {
				running++
			}
		}
		return running == 3
	})
	return list.Pollers
}

// gone waits until none of the processes is left.
func (d *demonstration) gone(list []api.DemoPoller) {
	d.Helper()
	for _, p := range list {
		d.await(fmt.Sprintf("the end of process %d", p.PID), func() bool { return !runs(p.PID) })
	}
}

// runs reports whether a process runs. One that has ended, and that nobody has waited for,
// does not.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !bytes.Contains(stat, []byte(") Z "))
}

// A visitor kills a poller. The accounts that it held are checked again, and every account
// stays in exactly one place. Then the demo itself is killed, and nothing of it is left.
func TestDemoSurvivesTheDeathOfAPoller(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	calls := client.New(d.base, "")
	defer calls.Close()
	running := d.pollers()

	held := func() map[string][]string {
		page, err := calls.List(t.Context(), client.Query{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		by := make(map[string][]string)
		for _, a := range page.Accounts {
			if a.State.Replica != "" && strings.HasPrefix(a.ID, "shop-") { // those do not fail
				by[a.State.Replica] = append(by[a.State.Replica], a.ID)
			}
		}
		return by
	}
	var victim string
	var lost []string
	d.await("a poller that holds accounts", func() bool {
		for replica, ids := range held() {
			if len(ids) > len(lost) {
				victim, lost = replica, ids
			}
		}
		return len(lost) > 1
	})
	body := fmt.Sprintf(`{"replica":%q}`, victim)
	killed := time.Now()
	answer, err := http.Post(d.base+"/v1/demo:kill", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		t.Fatalf("the kill is answered %s", answer.Status)
	}
	for _, p := range running {
		if (p.Replica == victim) == runs(p.PID) {
			t.Errorf("process %d of %s runs: %t", p.PID, p.Replica, runs(p.PID))
		}
	}
	for _, id := range lost {
		d.await(id+" to be checked again", func() bool {
			if law, err := calls.Audit(t.Context(), false, ""); err != nil || len(law.Kinds) > 0 {
				t.Fatalf("the law: %+v, %v", law, err)
			}
			a, err := calls.Get(t.Context(), id)
			return err == nil && a.State.LastSuccess.After(killed)
		})
	}

	d.Kill()
	d.gone(running)
}

func TestDemoShowsMessagesAndEndsWithAllItsPollers(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	p := startProgram(t, nil, "demo", "--weixin-login", "--for", "1h")
	for _, text := range []string{"/docs", "Scanned.", "weixin-mei is signed in", "  news-", "  shop-", "  weixin-1", "  weixin-mei"} {
		p.out.Await(t, text)
	}
	d := &demonstration{T: t, base: addressOf(p.out.String())}
	running := d.pollers()
	for _, p := range running {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err != nil || bytes.Contains(args, []byte("redis")) || !bytes.HasSuffix(args, []byte("demo\x00poller\x00")) {
			t.Errorf("everybody on the machine sees %q, %v", args, err)
		}
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	d.gone(running)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

// Somebody opens the page of the WeChat account, answers its friend in the box, by a form that is posted
// twice, and sees the answer on the phone, once.
func TestAnAnswerReachesThePhoneOfTheDemo(t *testing.T) {
	d := startDemo(t)
	var phone, page string
	d.await("the address of the phone", func() bool {
		found := regexp.MustCompile(`  phone +(\S+)`).FindStringSubmatch(d.Log())
		if found != nil {
			phone = found[1]
		}
		return found != nil
	})
	form := regexp.MustCompile(`action="(/account\?id=weixin-1&amp;peer=[^"]+)".*name="key" value="([^"]+)".*name="reply_to" value="([^"]+)"`)
	var box []string
	d.await("a message that can be answered", func() bool {
		_, page = processes.Get(t, d.base+"/account?id=weixin-1", "")
		box = form.FindStringSubmatch(page)
		return box != nil
	})
	for range 2 {
		answer, err := http.PostForm(d.base+html.UnescapeString(box[1]), url.Values{"key": {box[2]}, "reply_to": {box[3]}, "text": {"On our way"}, "when": {"now"}})
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK || answer.Request.URL.Query().Get("id") != "weixin-1" {
			t.Fatalf("answered %s at %s", answer.Status, answer.Request.URL)
		}
	}
	d.await("the answer on the phone", func() bool {
		_, page = processes.Get(t, phone, "")
		return strings.Contains(page, "On our way")
	})
	if !strings.Contains(page, "Answers to the friend: 1.") {
		t.Errorf("the phone shows\n%s", page)
	}
	d.await("its outcome", func() bool {
		_, page = processes.Get(t, d.base+"/account?id=weixin-1", "")
		return strings.Contains(page, `<span class="text">On our way</span>`) && strings.Contains(page, ">accepted</span>")
	})
	if !regexp.MustCompile(`\d of 10 left, until <time`).MatchString(page) {
		t.Errorf("no window in\n%s", page)
	}
	to, err := url.Parse(html.UnescapeString(box[1]))
	if err != nil {
		t.Fatal(err)
	}
	d.exchangePictures(phone, to.Query().Get("peer"))
}

// exchangePictures has the friend on a phone send a picture, of which the account's page shows a
// thumbnail, and sends it back as a file.
func (d *demonstration) exchangePictures(phone, friend string) {
	d.Helper()
	answer, err := http.PostForm(phone+"/picture", url.Values{"person": {"Lin"}})
	if err != nil {
		d.Fatal(err)
	}
	answer.Body.Close()
	var shown []string
	d.await("a thumbnail", func() bool {
		_, page := processes.Get(d.T, d.base+"/account?id=weixin-1", "")
		shown = regexp.MustCompile(`<a class="thumbnail" href="([^"]+)"[^>]*><img src="([^"]+)"`).FindStringSubmatch(page)
		return shown != nil
	})
	_, whole := processes.Get(d.T, d.base+shown[1], "")
	_, small := processes.Get(d.T, d.base+shown[2], "")
	for text, widest := range map[string]int{whole: 320, small: 256} {
		if is, _, err := image.DecodeConfig(strings.NewReader(text)); err != nil || is.Width == 0 || is.Width > widest {
			d.Errorf("a picture is %+v, %v", is, err)
		}
	}

	path := filepath.Join(d.TempDir(), "back.png")
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		d.Fatal(err)
	}
	sent, err := runWith(d.Context(), map[string]string{"ROUNDS_API_URL": d.base}, "", "send", "weixin-1", "--to", friend, "--file", path)
	if err != nil {
		d.Fatalf("%v, %+v", err, sent)
	}
	d.await("the picture on the phone", func() bool {
		_, page := processes.Get(d.T, phone, "")
		return strings.Contains(html.UnescapeString(page), `<img src="data:image/png;base64,`+base64.StdEncoding.EncodeToString([]byte(whole)))
	})
	_, page := processes.Get(d.T, d.base+"/account?id=weixin-1", "")
	if !regexp.MustCompile(`<li class="ours"><ul class="files">.*<img src="/v1/sends/\w+/file/thumbnail".*<bdi>back.png</bdi>`).MatchString(page) {
		d.Errorf("no picture of ours in\n%s", page)
	}
}

// What the demo starts by itself is no command for people.
func TestDemoPollerNeedsOrders(t *testing.T) {
	for _, stdin := range []string{"", "\n", "{}", "rounds\n"} {
		out, err := runWith(t.Context(), nil, stdin, "demo", "poller")
		if err == nil || !strings.Contains(err.Error(), "rounds demo") {
			t.Errorf("with %q: %v, %+v", stdin, err, out)
		}
	}
}

func TestCalledAs(t *testing.T) {
	for path, want := range map[string]string{"/tmp/go-build123/b001/exe/rounds": "go run ./cmd/rounds", "/usr/bin/rounds": "rounds"} {
		if got := calledAs(path, nil); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// A demo says that it does not listen where the service would.
func TestADemoSaysThatItReadsNoSettings(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := runWith(ctx, map[string]string{"ROUNDS_API_ADDR": "127.0.0.1:1"}, "", "demo")
	if err != nil || strings.Count(got.err, "does not listen at ROUNDS_API_ADDR") != 1 {
		t.Errorf("%v\n%s", err, got.err)
	}
	if got, err := runWith(ctx, nil, "", "demo"); err != nil || strings.Contains(got.err, "ROUNDS_API_ADDR") {
		t.Errorf("%v\n%s", err, got.err)
	}
}

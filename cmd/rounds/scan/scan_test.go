package scan_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/login"
	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
	"github.com/rounds-dev/rounds/poller/checkers/weixin"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const origin = "http://ilink.example"

type kinds struct{}

func (kinds) Validate(kind string, _ json.RawMessage) error {
	if kind != weixin.Kind && kind != "feed" {
		return errors.New("kind: not known")
	}
	return nil
}

// world is a ring, the fake, and what signing in has stored.
type world struct {
	*faketime.World
	fake     *ilinkd.Server
	client   *fetch.Client
	registry *accounts.Registry

	mu     sync.Mutex
	stored map[string]string // secrets, as base|token
	fails  error             // of storing a secret
	noted  []string
}

func run(t *testing.T, test func(w *world)) {
	faketime.Run(t, 2, func(b *faketime.World) {
		w := &world{World: b, fake: ilinkd.New(ilink.Options{Host: "https://far.example"}), stored: make(map[string]string)}
		w.client = fetch.New(fetch.Options{Transport: w.fake})
		w.registry = accounts.NewRegistry(b.Ring, kinds{})
		test(w)
	})
}

// desk returns the desk of another process.
func (w *world) desk() *scan.Desk {
	return &scan.Desk{
		Ring: w.Open(w.Redis),
		Server: scan.Server{
			Base: origin, Kind: weixin.Kind, Validate: w.client.Validate,
			NewCode: func(ctx context.Context, base string) (scan.Code, error) {
				c, err := weixin.NewCode(ctx, w.client, base)
				return scan.Code(c), err
			},
			Ask: func(ctx context.Context, base, qrcode, digits string) (scan.Told, error) {
				s, err := weixin.AskStatus(ctx, w.client, base, qrcode, digits)
				return scan.Told(s), err
			},
		},
		Keep: func(_ context.Context, name, base, token string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.fails == nil {
				w.stored[name] = base + "|" + token
			}
			return w.fails
		},
		Stored: func(_ context.Context, name string) (bool, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			_, there := w.stored[name]
			return there, nil
		},
		Note: func(_ context.Context, id string, again bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.noted = append(w.noted, fmt.Sprint(id, " ", again))
		},
	}
}

func (w *world) begin(id string) *scan.Login {
	w.Helper()
	l, err := w.desk().Begin(w.Context(), w.registry, login.By{Name: "me"}, accounts.Account{ID: id, Cadence: "every 0", Labels: map[string]string{"team": "x"}}, "")
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// step follows a sign-in at another process, or types digits, and expects a state.
func (w *world) step(l *scan.Login, digits, want string) *scan.Login {
	w.Helper()
	d, next := w.desk(), (*scan.Login)(nil)
	var err error
	if digits == "" {
		next, err = d.Follow(w.Context(), w.registry, l.Name, scan.MaxHold)
	} else {
		next, err = d.Type(w.Context(), w.registry, l.Name, digits, scan.MaxHold)
	}
	if err != nil || next.State != want {
		w.Fatalf("got %+v, %v, want %s", next, err, want)
	}
	return next
}

func (w *world) code() string {
	w.Helper()
	open := w.fake.Codes()
	if len(open) == 0 {
		w.Fatal("there is no code")
	}
	return open[len(open)-1]
}

// registered returns an account's place, or "" if there is none.
func (w *world) registered(id string) circulate.Place {
	w.Helper()
	if _, err := w.registry.Get(w.Context(), id); errors.Is(err, accounts.ErrNotFound) {
		return ""
	}
	return w.Look(id).Place
}

// Each step is served by another process: nobody scans at first, digits are asked for, wrong and
// right, the code is followed at another host, and the account is registered once.
func TestSigningIn(t *testing.T) {
	run(t, func(w *world) {
		l := w.begin("me")
		if l.State != scan.Waiting || !strings.HasPrefix(l.Link, "https://") || l.Drawn != 1 {
			t.Errorf("got %+v", l)
		}
		w.step(l, "", scan.Waiting)
		q := w.code()
		w.fake.Redirect(q, "other.example")
		w.step(l, "", scan.Scanned)
		w.fake.Scan(q, "U", "42")
		w.step(l, "", scan.Digits)
		w.step(l, "", scan.Digits) // it does not wait, nor ask
		if l = w.step(l, "13", scan.Digits); !l.Wrong {
			t.Error("wrong digits are not called wrong")
		}
		w.step(l, "42", scan.Scanned)
		if w.registered("me") != "" || len(w.stored) != 0 {
			t.Error("it is registered before the phone has confirmed")
		}
		time.AfterFunc(3*time.Second, func() { w.fake.Confirm(q) })
		if l = w.step(l, "", scan.Done); l.Link != "" || l.Account != "me" {
			t.Errorf("got %+v", l)
		}
		if w.registered("me") == "" || !strings.HasPrefix(w.stored["weixin-me"], "https://far.example|token-") {
			t.Errorf("got %s, %v", w.registered("me"), w.stored)
		}
		w.step(l, "", scan.Done) // asked again, nothing is done again
		if len(w.noted) != 1 || w.noted[0] != "me false" {
			t.Errorf("noted %v", w.noted)
		}
	})
}

// A process dies, or Redis is away, behind the confirmation: the server does not tell the token
// again, and the next step goes on with it.
func TestNothingIsLostBehindTheConfirmation(t *testing.T) {
	run(t, func(w *world) {
		l := w.begin("me")
		w.fake.Scan(w.code(), "U", "")
		w.fake.Confirm(w.code())
		w.fails = errors.New("the process died")
		if _, err := w.desk().Follow(w.Context(), w.registry, l.Name, scan.MaxHold); !errors.Is(err, w.fails) || w.registered("me") != "" {
			t.Errorf("got %v", err)
		}
		w.fails = nil
		w.step(l, "", scan.Done)
		if w.registered("me") == "" {
			t.Error("it is not registered")
		}
	})
}

// A sign-in that is abandoned leaves nothing behind, and neither does one that runs out.
func TestAbandoned(t *testing.T) {
	run(t, func(w *world) {
		first, second := w.begin("me"), w.begin("you")
		w.fake.Scan(w.code(), "U", "")
		if err := w.desk().Abandon(w.Context(), second.Name); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{second.Name, "", "x", strings.Repeat("a", 52), strings.Repeat("a", 500)} {
			if _, err := w.desk().Follow(w.Context(), w.registry, name, scan.MaxHold); !errors.Is(err, login.ErrNone) {
				t.Errorf("%.10s: got %v", name, err)
			}
		}
		time.Sleep(16 * time.Minute)
		if _, err := w.desk().Look(w.Context(), first.Name); !errors.Is(err, login.ErrNone) {
			t.Errorf("a quarter of an hour later: got %v", err)
		}
		if w.registered("me") != "" || w.registered("you") != "" || len(w.stored) != 0 {
			t.Errorf("got %v", w.stored)
		}
	})
}

// A code is drawn three times, whether it has expired or was blocked.
func TestCodesRunOut(t *testing.T) {
	run(t, func(w *world) {
		l := w.begin("me")
		w.fake.Expire(w.code())
		l = w.step(l, "", scan.Again)
		w.fake.Scan(w.code(), "U", "42")
		w.step(l, "", scan.Digits)
		w.step(l, "1", scan.Digits)
		w.step(l, "2", scan.Digits)
		if l = w.step(l, "3", scan.Again); l.Drawn != 3 || l.Link == "" {
			t.Errorf("got %+v", l)
		}
		w.fake.Expire(w.code())
		l = w.step(l, "", scan.Expired)
		w.step(l, "", scan.Expired)
		if w.fake.Calls(ilinkd.GetCode) != 3 || l.Link != "" {
			t.Errorf("%d codes", w.fake.Calls(ilinkd.GetCode))
		}
	})
}

// Two sign-ins for one id: the last that is confirmed counts, and there is one account. An
// account that is there keeps its cursor and history, and circulates again.
func TestTwoSignInsForOneID(t *testing.T) {
	run(t, func(w *world) {
		one, two := w.begin("me"), w.begin("me")
		codes := w.fake.Codes()
		for i, l := range []*scan.Login{one, two} {
			w.fake.Scan(codes[i], "U", "")
			w.fake.Confirm(codes[i])
			w.step(l, "", scan.Done)
		}
		if token := strings.TrimPrefix(w.stored["weixin-me"], "https://far.example|"); len(w.stored) != 1 || !w.fake.Known(token) {
			t.Errorf("got %v", w.stored)
		}
		if _, err := w.registry.Pause(w.Context(), "me"); err != nil {
			t.Fatal(err)
		}
		w.Do("HSET", w.Key(w.Ring.ShardOf("me"), "cursors"), "me", "1:kept")
		again := w.begin("me")
		w.fake.Scan(w.code(), "U", "")
		w.fake.Confirm(w.code())
		w.step(again, "", scan.Done)
		view := w.Look("me")
		if view.Place == circulate.Parked || fmt.Sprintf("%s", w.Do("HGET", w.Key(w.Ring.ShardOf("me"), "cursors"), "me")) != "1:kept" {
			t.Errorf("got %+v", view)
		}
		if strings.Join(w.noted, ",") != "me false,me true,me true" {
			t.Errorf("noted %v", w.noted)
		}
	})
}

func TestWhatIsRefused(t *testing.T) {
	run(t, func(w *world) {
		if _, err := w.registry.Create(w.Context(), accounts.Account{ID: "news", Kind: "feed"}); err != nil {
			t.Fatal(err)
		}
		big := map[string]string{}
		for n := range 16 {
			big[fmt.Sprintf("label-%d", n)] = strings.Repeat("x", 100)
		}
		var faults accounts.Faults
		for _, c := range []struct {
			a    accounts.Account
			base string
			want error // nil: faults
		}{
			{accounts.Account{ID: "news"}, "", login.ErrKind},
			{accounts.Account{ID: "a\x01"}, "", nil},
			{accounts.Account{ID: "a", Cadence: "x"}, "", nil},
			{accounts.Account{ID: "a", Labels: big}, "", nil},
			{accounts.Account{ID: "a"}, "gopher://x", nil},
		} {
			_, err := w.desk().Begin(w.Context(), w.registry, login.By{Name: "me"}, c.a, c.base)
			if c.want != nil && !errors.Is(err, c.want) || c.want == nil && !errors.As(err, &faults) {
				t.Errorf("%+v: got %v", c.a, err)
			}
		}
		_, err := w.desk().Begin(w.Context(), w.registry, login.By{Name: "me"}, accounts.Account{ID: "a", Cadence: "x"}, "gopher://x")
		if !errors.As(err, &faults) || len(faults) != 2 {
			t.Errorf("not all faults at once: %v", err)
		}
		l := w.begin("me")
		for _, digits := range []string{"", "4x", strings.Repeat("1", 17)} {
			if _, err := w.desk().Type(w.Context(), w.registry, l.Name, digits, scan.MaxHold); !errors.As(err, &faults) {
				t.Errorf("%q: got %v", digits, err)
			}
		}
		w.fake.Fail(ilinkd.GetStatus, ilinkd.Fault{Garbage: true, Times: 1})
		if _, err := w.desk().Follow(w.Context(), w.registry, l.Name, scan.MaxHold); err == nil {
			t.Error("garbage is no error")
		}
		for _, f := range []ilinkd.Fault{{Status: 524, After: 30 * time.Second}, {Reset: true, After: 20 * time.Second}, {Hang: true}} {
			w.fake.Fail(ilinkd.GetStatus, f)
			w.step(l, "", scan.Waiting)
			w.fake.Heal()
			synctest.Wait() // a call that hung is answered before the next fault
		}
		w.bound(l)
	})
}

// bound has a person scan whose account is bound to this client already.
func (w *world) bound(l *scan.Login) {
	w.Helper()
	w.fake.Fail(ilinkd.GetStatus, ilinkd.Fault{Body: `{"status":"binded_redirect"}`})
	w.step(l, "", scan.Bound)
	if w.registered("me") != "" {
		w.Error("it is registered")
	}
}

// Redis has neither the token, nor the code, nor the name of a sign-in.
func TestWhatRedisHasIsSealed(t *testing.T) {
	run(t, func(w *world) {
		l := w.begin("me")
		w.fake.Scan(w.code(), "U", "")
		w.fake.Confirm(w.code())
		w.fails = errors.New("the process died")
		_, _ = w.desk().Follow(w.Context(), w.registry, l.Name, scan.MaxHold) // the token is kept with the sign-in
		keys, _ := w.Do("KEYS", "*").([]any)
		seen := 0
		for _, key := range keys {
			name := fmt.Sprintf("%s", key)
			if !strings.Contains(name, "signins") {
				continue
			}
			seen++
			text := name
			if strings.HasSuffix(name, ":values") {
				text += fmt.Sprintf("%s", w.Do("HGETALL", name))
			}
			for _, hidden := range []string{"token-", "qr-", "liteapp", l.Name, "team"} {
				if strings.Contains(text, hidden) {
					t.Errorf("%s is in %q", hidden, text)
				}
			}
		}
		if seen == 0 {
			t.Error("nothing was looked at")
		}
	})
}

func TestSecretNames(t *testing.T) {
	for id, want := range map[string]string{"me": "weixin-me", "a_b-9": "weixin-a_b-9", "a b": "weixin-sha256-", "微信": "weixin-sha256-", strings.Repeat("a", 41): "weixin-sha256-"} {
		if got := scan.SecretOf(id); !strings.HasPrefix(got, want) || len(got) > 64 {
			t.Errorf("%s: got %s", id, got)
		}
	}
	digest := strings.TrimPrefix(scan.SecretOf("a b"), "weixin-")
	if scan.SecretOf(digest) == scan.SecretOf("a b") {
		t.Errorf("%q has the secret of another id", digest)
	}
}

// A sign-in takes no secret from others: not one that was stored before it began, nor one that
// was stored before the phone confirmed. The account's own is replaced, and whoever may replace
// any secret may do so here.
func TestNoSecretIsTaken(t *testing.T) {
	run(t, func(w *world) {
		put := func(value string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if value == "" {
				delete(w.stored, scan.SecretOf("me"))
			} else {
				w.stored[scan.SecretOf("me")] = value
			}
		}
		account := accounts.Account{ID: "me", Cadence: "every 0"}
		begin := func(by login.By) (*scan.Login, error) {
			return w.desk().Begin(w.Context(), w.registry, by, account, "")
		}
		put("of others")
		if _, err := begin(login.By{Name: "ed"}); !errors.Is(err, scan.ErrTaken) {
			t.Errorf("begun over it: %v", err)
		}
		if _, err := begin(login.By{Name: "ada", MayReplace: true}); err != nil {
			t.Errorf("an admin: %v", err)
		}
		put("")
		l, err := begin(login.By{Name: "ed"})
		if err != nil {
			t.Fatal(err)
		}
		put("of others")
		w.fake.Scan(w.code(), "U", "")
		w.step(l, "", scan.Scanned)
		w.fake.Confirm(w.code())
		if _, err := w.desk().Follow(w.Context(), w.registry, l.Name, scan.MaxHold); !errors.Is(err, scan.ErrTaken) {
			t.Errorf("confirmed over it: %v", err)
		}
		if w.stored[scan.SecretOf("me")] != "of others" || w.registered("me") != "" {
			t.Errorf("stored %q, registered %q", w.stored, w.registered("me"))
		}
		w.step(l, "", scan.Expired)
		// A try that stored the token and failed behind that is repeated.
		put("")
		if l, err = begin(login.By{Name: "ed"}); err != nil {
			t.Fatal(err)
		}
		w.fake.Scan(w.code(), "V", "")
		w.step(l, "", scan.Scanned)
		w.fake.Confirm(w.code())
		w.fails = errors.New("stored, and nobody knows")
		if _, err := w.desk().Follow(w.Context(), w.registry, l.Name, scan.MaxHold); err == nil {
			t.Error("no error")
		}
		put("its own, of the first try")
		w.fails = nil
		w.step(l, "", scan.Done)
		// Signed in again, its own secret may be replaced.
		if _, err = begin(login.By{Name: "ed"}); err != nil {
			t.Error(err)
		}
	})
}

// A process makes one call at a time for a sign-in, whatever is typed in.
func TestOneCallAtATime(t *testing.T) {
	run(t, func(w *world) {
		l, d := w.begin("me"), w.desk()
		ask, under, most := d.Server.Ask, 0, 0
		var mu sync.Mutex
		d.Server.Ask = func(ctx context.Context, base, qrcode, digits string) (scan.Told, error) {
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				under--
			}()
			time.Sleep(2 * time.Second)
			return ask(ctx, base, qrcode, digits)
		}
		w.fake.Scan(w.code(), "U", "4711")
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { _, _ = d.Type(w.Context(), w.registry, l.Name, fmt.Sprint(1000+i), scan.MaxHold) })
			all.Go(func() { _, _ = d.Follow(w.Context(), w.registry, l.Name, scan.MaxHold) })
		}
		all.Wait()
		if most != 1 {
			t.Errorf("%d calls at once", most)
		}
		if now, err := d.Type(w.Context(), w.registry, l.Name, "4711", scan.MaxHold); err != nil || now.State != scan.Scanned {
			t.Errorf("got %+v, %v", now, err)
		}
	})
}

// A user who begins many sign-ins pushes out none of other users.
func TestSignInsAreBoundedForEach(t *testing.T) {
	run(t, func(w *world) {
		d := w.desk()
		d.Server.NewCode = func(context.Context, string) (scan.Code, error) { return scan.Code{QRCode: "q", Link: "l"}, nil }
		begin := func(by string, n int) string {
			l, err := d.Begin(w.Context(), w.registry, login.By{Name: by}, accounts.Account{ID: fmt.Sprint(by, n), Cadence: "every 0"}, "")
			if err != nil {
				t.Fatal(err)
			}
			return l.Name
		}
		other, first := begin("other", 0), begin("busy", 0)
		for n := range 1000 {
			time.Sleep(time.Millisecond)
			begin("busy", n+1)
		}
		if _, err := d.Look(w.Context(), other); err != nil {
			t.Errorf("somebody else's: %v", err)
		}
		if _, err := d.Look(w.Context(), first); !errors.Is(err, login.ErrNone) {
			t.Errorf("the first of a thousand and one: %v", err)
		}
	})
}

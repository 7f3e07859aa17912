// Package sendtest kills a replica at each point of a send, has Redis fail there and lose its last
// writes, and cuts a third party's answers. It then judges by what the third party has: no send is
// there twice, and each of which nobody knows whether it is there is listed as unknown. The tests of
// package poller do that to a sender in memory, and those of the kinds to each kind with its fake.
package sendtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// Outlet is a kind of account that sends, with a fake third party of its own.
type Outlet struct {
	Kind     string
	Config   string // of the one account
	Windowed bool   // peers may be answered only within the windows that the account's first check opens
	// Sender makes a replica's sender, whose calls go by a line.
	Sender func(l *Line) poller.Sender
	Peer   func(n int) string // whom the n-th send is for, counted from 0
	// Type is that of the sends: text if it is empty, and otherwise a type that is a file, whose
	// name tells the sends apart.
	Type  string
	Sends int // how many each test queues, at most two less than a window allows; 0: 6
	// Taken returns the texts that the third party has, or the names of files.
	Taken func() []string
	// Cut has the third party take the next sends, and lose its answers; nil: it cannot.
	Cut func(times int)
}

// Line is a replica's way to the third party. It ends with the replica.
type Line struct {
	killer *killer
	calls  chan struct{} // gets a value for each send that has reached the third party
}

// Begin is called when a send is about to leave. Its error is that of a call that did not.
func (l *Line) Begin() error {
	if l.killer.at(beforeCall) || l.killer.isDead() {
		return faketime.ErrCut
	}
	return nil
}

// End is called when the third party has a send. Its error is that of an answer that did not arrive.
func (l *Line) End() error {
	defer func() { l.calls <- struct{}{} }()
	if l.killer.at(AfterYes) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// Over makes calls of a fake over the line. Those whose path ends with send carry a send.
func (l *Line) Over(fake http.RoundTripper, send string) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, send) {
			return fake.RoundTrip(r)
		}
		if err := l.Begin(); err != nil {
			return nil, err
		}
		response, err := fake.RoundTrip(r)
		if lost := l.End(); lost != nil && err == nil {
			_ = response.Body.Close()
			return nil, lost
		}
		return response, err
	})
}

type transport func(r *http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The points at which a replica is killed. From then on it reaches neither Redis nor the third party. At
// the end of a test it reaches Redis again, as one does that was only cut off.
const (
	nowhere       = ""
	beforeAttempt = "before the attempt is noted"
	afterAttempt  = "when the attempt is noted, with its reply lost"
	inWait        = "while the attempt waits for Redis' disk"
	beforeCall    = "before the call"
	// AfterYes is the point at which a doubt is hardest: the third party has the send.
	AfterYes     = "after the third party's yes, with its answer lost"
	beforeSettle = "before the outcome is written"
	settleLost   = "when the outcome is written, with its reply lost"
)

// killer kills a replica at one of the points.
type killer struct {
	mu     sync.Mutex
	point  string
	killed chan struct{}
	healed bool
	steps  int        // of scripts that are under way
	ended  *sync.Cond // one of them has
}

func newKiller(point string) *killer {
	k := &killer{point: point, killed: make(chan struct{})}
	k.ended = sync.NewCond(&k.mu)
	return k
}

// at kills the replica if this is its point.
func (k *killer) at(point string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if point != k.point {
		return false
	}
	if !k.isDead() {
		close(k.killed)
	}
	return true
}

func (k *killer) isDead() bool {
	select {
	case <-k.killed:
		return true
	default:
		return false
	}
}

// heal lets the replica reach Redis again.
func (k *killer) heal() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.point, k.healed = nowhere, true
}

func (k *killer) reaches() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.healed || !k.isDead()
}

// has reports whether a step is a script with an argument.
func has(step faketime.Step, arg string) bool {
	return strings.HasPrefix(step.Command, "EVAL") && slices.ContainsFunc(step.Args, func(a any) bool { return a == any(arg) })
}

// fate is that of a step of the replica.
func (k *killer) fate(step faketime.Step) faketime.Fate {
	fate := k.decide(step)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case step.At == faketime.Call && fate == faketime.Healthy:
		k.steps++
	case step.At == faketime.Called:
		k.steps--
		k.ended.Broadcast()
	}
	return fate
}

// await waits until no step is under way.
func (k *killer) await() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.steps > 0 {
		k.ended.Wait()
	}
}

func (k *killer) decide(step faketime.Step) faketime.Fate {
	attempts, settles := has(step, circulate.ReasonPaused), has(step, string(circulate.AttemptAccepted))
	reply, _ := step.Reply.([]any)
	switch {
	case step.At == faketime.Called && attempts && len(reply) > 2 && k.at(afterAttempt),
		step.At == faketime.Called && settles && k.at(settleLost):
		return faketime.ReplyLost
	case step.At == faketime.Call && attempts && k.at(beforeAttempt),
		step.At == faketime.Send && step.Command == "WAITAOF" && k.at(inWait),
		step.At == faketime.Call && settles && k.at(beforeSettle),
		!k.reaches() && step.At != faketime.Called:
		return faketime.NotDone
	}
	return faketime.Healthy
}

// Points are all points at which a replica is killed, in the order of a send.
func Points() []string {
	return []string{beforeAttempt, afterAttempt, beforeCall, AfterYes, beforeSettle, settleLost}
}

// Run tests an outlet. Start makes it and its fake anew for each test. Deduplicates says that its third
// party takes a send once however often it comes, so that nothing stays unknown.
func Run(t *testing.T, deduplicates bool, start func(t *testing.T) *Outlet) {
	for _, point := range Points() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			killAt(t, point, start)
			if deduplicates {
				t.Run("repeated in fake time", func(t *testing.T) {
					faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
						w := newWorld(t, server, start(t), `,"on_unknown":"retry"`)
						end := w.kill(point)
						w.minutesLater()
						end()
						w.judgeAllAccepted()
					})
				})
			}
		})
	}
	t.Run("answers are lost", func(t *testing.T) {
		for _, policy := range []string{"hold", "retry"} {
			t.Run(policy, func(t *testing.T) {
				faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
					outlet := start(t)
					if outlet.Cut == nil {
						t.Skip("its answers are lost in a test of its own")
					}
					w := newWorld(t, server, outlet, fmt.Sprintf(`,"on_unknown":%q`, policy))
					outlet.Cut(2)
					w.minutesLater()
					switch {
					case deduplicates:
						w.judgeAllAccepted()
					case policy == "hold":
						if doubts := w.judge(nowhere); doubts != 2 {
							t.Errorf("%d sends are in doubt, want 2", doubts)
						}
					default:
						w.judgeAnswered()
					}
				})
			})
		}
	})
}

// RunLosing tests an outlet while Redis fails at the moment at which a replica is killed. Attempts
// wait for the disk of Redis or its replicas, so no send is doubled.
func RunLosing(t *testing.T, deduplicates bool, start func(t *testing.T) *Outlet, points ...string) {
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			redistest.EachLosing(t, func(t *testing.T, server *redistest.Losing) {
				w := newWorld(t, server, start(t), "")
				w.config = poller.Config{ConfirmReplicas: server.Replicas}
				w.lose(server, point, server.Unsure && slices.Contains(doubling(), point) && !deduplicates)
			})
		})
	}
}

// RunLosingUnconfirmed is a control of RunLosing, in which attempts wait for nothing: it must find
// that a send is doubled wherever Redis loses writes, and the third party does not deduplicate.
func RunLosingUnconfirmed(t *testing.T, deduplicates bool, start func(t *testing.T) *Outlet) {
	redistest.EachLosing(t, func(t *testing.T, server *redistest.Losing) {
		w := newWorld(t, server, start(t), "")
		w.config = poller.Config{ConfirmUnsynced: true}
		w.lose(server, AfterYes, !server.Lossless && !deduplicates)
	})
}

// RunLosingLater is RunLosingUnconfirmed with a Redis that fails later: its disk and its replicas have
// what was written until the replica was killed. No send is doubled then, though attempts wait for
// nothing.
func RunLosingLater(t *testing.T, start func(t *testing.T) *Outlet) {
	redistest.EachLosing(t, func(t *testing.T, server *redistest.Losing) {
		w := newWorld(t, server, start(t), "")
		w.config = poller.Config{ConfirmUnsynced: true}
		w.lose(server, AfterYes, false, server.Keep)
	})
}

// doubling are the points at which a send is doubled if Redis loses that it was attempted.
func doubling() []string { return []string{AfterYes, beforeSettle, settleLost} }

// lose kills a replica at a point, and Redis with it, after what happens between the two. Doubled
// says that a send is expected twice.
func (w *world) lose(server *redistest.Losing, point string, doubled bool, between ...func()) {
	w.t.Helper()
	server.Keep()
	w.fail = func() {
		for _, happens := range between {
			happens()
		}
		server.Lose()
	}
	end := w.kill(point)
	w.resume(w.count().Queued)
	judge := func() { w.judge(point) }
	if doubled {
		judge = w.judgeDoubled
	}
	judge()
	end()
	judge()
}

// RunInWait kills a replica whose attempts wait for Redis' disk. That is the same for all kinds.
func RunInWait(t *testing.T, start func(t *testing.T) *Outlet) { killAt(t, inWait, start) }

// killAt kills a replica at a point, on each server, and has another one go on.
func killAt(t *testing.T, point string, start func(t *testing.T) *Outlet) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		w := newWorld(t, server, start(t), "")
		end := w.kill(point)
		w.resume(w.count().Queued)
		w.judge(point)
		end()
		w.judge(point)
	})
}

// world is an account with sends that are queued.
type world struct {
	t      *testing.T
	server circulate.Server
	config poller.Config // of all replicas
	fail   func()        // is called when a replica is killed
	ring   *circulate.Ring
	outlet *Outlet
	ids    []string
}

const account = "a"

func newWorld(t *testing.T, server circulate.Server, outlet *Outlet, more string) *world {
	t.Helper()
	w := &world{t: t, server: server, fail: func() {}, outlet: outlet}
	w.ring = w.open(server)
	due := time.Now().Add(time.Hour)
	if outlet.Windowed {
		due = time.Now()
	}
	record := fmt.Sprintf(`{"id":%q,"kind":%q,"cadence":"every 1h","config":%s%s}`, account, outlet.Kind, outlet.Config, more)
	if _, err := w.ring.Register(t.Context(), 0, []circulate.Registration{{ID: account, Record: []byte(record), Due: due}}); err != nil {
		t.Fatal(err)
	}
	if outlet.Windowed {
		w.openWindows()
	}
	for n := range cmp.Or(outlet.Sends, 6) {
		s := circulate.Send{
			ID: circulate.NewSendID(account), Account: account, Kind: outlet.Kind, Peer: outlet.Peer(n), Type: cmp.Or(outlet.Type, "text"),
			Data: json.RawMessage(fmt.Sprintf(`{"text":%q}`, textOf(n))), Windowed: outlet.Windowed,
		}
		if outlet.Type != "" {
			s.Data = json.RawMessage(`{"file":"f"}`)
		}
		if _, _, err := w.ring.Sends().Queue(t.Context(), s, "", circulate.SendBounds{}); err != nil {
			t.Fatal(err)
		}
		w.ids = append(w.ids, s.ID)
	}
	return w
}

// FileOf implements poller.SendFiles for sends that are files.
func (w *world) FileOf(_ context.Context, _, send string) (*poller.SendFile, error) {
	data := "the bytes of " + send
	return &poller.SendFile{
		File: poller.File{Name: textOf(slices.Index(w.ids, send)), Size: int64(len(data))},
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil },
	}, nil
}

// textOf is the text of the n-th send, by which the third party tells sends apart.
func textOf(n int) string { return fmt.Sprint("send ", n) }

func (w *world) open(server circulate.Server) *circulate.Ring {
	w.t.Helper()
	ring, err := circulate.Open(w.t.Context(), server, circulate.Options{Namespace: "kill", Shards: 1, Log: faketime.Log(w.t)})
	if err != nil {
		w.t.Fatal(err)
	}
	return ring
}

// run runs a replica.
func (w *world) run(ring *circulate.Ring, sender poller.Sender, hurry <-chan struct{}) (stop func()) {
	w.t.Helper()
	checkers, err := poller.NewCheckers(sender)
	if err != nil {
		w.t.Fatal(err)
	}
	pool, err := poller.New(ring, checkers, w.config, poller.Options{Log: faketime.Log(w.t), Hurry: hurry, Files: w})
	if err != nil {
		w.t.Fatal(err)
	}
	return faketime.Go(w.t, pool.Run)
}

// newLine is the line of a replica that a killer may kill.
func newLine(k *killer) *Line { return &Line{k, make(chan struct{}, 1000)} }

// watched is a sender whose first check is told.
type watched struct {
	poller.Sender
	once    sync.Once
	checked chan struct{}
}

func (s *watched) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	defer s.once.Do(func() { close(s.checked) })
	return s.Sender.Check(ctx, r)
}

// openWindows has the account checked. A replica that stops commits what it has found.
func (w *world) openWindows() {
	w.t.Helper()
	sender := &watched{Sender: w.outlet.Sender(newLine(newKiller(nowhere))), checked: make(chan struct{})}
	stop := w.run(w.ring, sender, nil)
	<-sender.checked
	stop()
}

// kill runs a replica until it is killed at a point. A monitor then learns that it is dead. The returned
// function lets it reach Redis again, and waits for its end.
func (w *world) kill(point string) (end func()) {
	w.t.Helper()
	k := newKiller(point)
	faulty := &faketime.Faulty{Server: w.server}
	ring := w.open(faulty)
	faulty.Set(k.fate)
	hurry := make(chan struct{})
	close(hurry)
	stop := w.run(ring, w.outlet.Sender(newLine(k)), hurry)
	<-k.killed
	k.await()
	w.fail()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	if _, err := w.ring.Sends().Sweep(w.t.Context(), 0, 100, 0, nil); err != nil {
		w.t.Fatal(err)
	}
	if left := w.count(); left.Attempting != 0 {
		w.t.Fatalf("after the sweep: %+v", left)
	}
	return func() {
		k.heal()
		<-stopped
	}
}

// resume runs another replica until so many sends have reached the third party.
func (w *world) resume(calls int) {
	w.t.Helper()
	line := newLine(newKiller(nowhere))
	stop := w.run(w.ring, w.outlet.Sender(line), nil)
	for range calls {
		<-line.calls
	}
	stop()
}

// minutesLater runs another replica for some minutes of fake time.
func (w *world) minutesLater() {
	w.t.Helper()
	stop := w.run(w.ring, w.outlet.Sender(newLine(newKiller(nowhere))), nil)
	time.Sleep(5 * time.Minute)
	stop()
}

func (w *world) count() circulate.SendCount {
	w.t.Helper()
	count, err := w.ring.Sends().Count(w.t.Context(), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return count
}

// look returns the n-th send, and how often the third party has it.
func (w *world) look(n int) (s circulate.Send, times int) {
	w.t.Helper()
	s, err := w.ring.Sends().Look(w.t.Context(), w.ids[n])
	if err != nil {
		w.t.Fatal(err)
	}
	for _, text := range w.outlet.Taken() {
		if text == textOf(n) {
			times++
		}
	}
	return s, times
}

// judge expects no send twice, and those in doubt in the list. It returns how many those are.
func (w *world) judge(point string) int {
	w.t.Helper()
	doubts, _, err := w.ring.Sends().List(w.t.Context(), 0, circulate.GroupUnknown, "", "", 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for n := range w.ids {
		s, times := w.look(n)
		listed := slices.ContainsFunc(doubts, func(d circulate.Send) bool { return d.ID == s.ID })
		switch {
		case times > 1:
			w.t.Errorf("the third party has a send %d times", times)
		case s.State == circulate.SendAccepted && times == 1 && !listed, s.State == circulate.SendUnknown && listed:
		default:
			w.t.Errorf("a send that the third party has %d times is %s (%s: %s), listed: %v", times, s.State, s.Code, s.Text, listed)
		}
	}
	if point == beforeAttempt && len(doubts) > 0 {
		w.t.Errorf("%d sends are in doubt, though none was attempted", len(doubts))
	}
	return len(doubts)
}

// judgeDoubled expects a send twice.
func (w *world) judgeDoubled() {
	w.t.Helper()
	for n := range w.ids {
		if _, times := w.look(n); times > 1 {
			return
		}
	}
	w.t.Error("no send is doubled, though Redis has lost that one was attempted")
}

// judgeAllAccepted expects each send once, and none in doubt.
func (w *world) judgeAllAccepted() {
	w.t.Helper()
	for n := range w.ids {
		if s, times := w.look(n); s.State != circulate.SendAccepted || times != 1 {
			w.t.Errorf("a send that the third party has %d times is %s (%s: %s)", times, s.State, s.Code, s.Text)
		}
	}
}

// judgeAnswered expects each send once at least, and none in doubt: on_unknown is retry, and the kind
// does not deduplicate.
func (w *world) judgeAnswered() {
	w.t.Helper()
	for n := range w.ids {
		if s, times := w.look(n); s.State != circulate.SendAccepted || times < 1 || times > 2 {
			w.t.Errorf("a send that the third party has %d times is %s (%s: %s)", times, s.State, s.Code, s.Text)
		}
	}
}

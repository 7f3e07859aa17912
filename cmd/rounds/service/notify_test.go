package service

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

func TestNotify(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	expect := func(want string) {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 64)
		n, err := conn.Read(text)
		if err != nil || string(text[:n]) != want {
			t.Fatalf("got %q, %v; want %q", text[:n], err, want)
		}
	}
	n := newNotifier(lookupIn(map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "4000"}))
	if n.every != 2*time.Millisecond {
		t.Errorf("the watchdog is told every %v", n.every)
	}
	if err := n.ready(); err != nil {
		t.Error(err)
	}
	expect("READY=1")

	ctx, cancel := context.WithCancel(t.Context())
	asked, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		n.watch(ctx, func(context.Context) bool {
			asked++
			return asked == 2 || asked == 3
		})
	}()
	expect("WATCHDOG=1")
	expect("WATCHDOG=1")
	cancel()
	<-done
	if asked < 3 {
		t.Errorf("two signs of life after %d questions, of which the first was denied", asked)
	}
	if err := n.stopping(); err != nil {
		t.Error(err)
	}
	expect("STOPPING=1")
}

func TestNotifyNobody(t *testing.T) {
	n := newNotifier(lookupIn(map[string]string{"WATCHDOG_USEC": "4000"}))
	if err := n.ready(); err != nil {
		t.Error(err)
	}
	n.watch(t.Context(), func(context.Context) bool { return true }) // returns at once
	n = newNotifier(lookupIn(map[string]string{"NOTIFY_SOCKET": filepath.Join(t.TempDir(), "none")}))
	if err := n.ready(); err == nil {
		t.Error("nobody listens, and there is no error")
	}
}

// A process whose reports are stuck is no longer alive. One that only waits for a Redis has no
// loop that could be stuck.
func TestWhoIsStuckIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		turns := 0
		p := newPresence("", func() settings.Settings {
			if turns++; turns > 1 {
				<-stuck
			}
			return settings.Settings{}
		}, func() (int, time.Time) { return 0, time.Time{} })
		if !p.pulse.alive(t.Context()) {
			t.Error("it does not run yet, and counts as stuck")
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer p.pulse.stop()
			p.pulse.beat(time.Second)
			p.about()
		}()
		time.Sleep(stuckAfter)
		if !p.pulse.alive(t.Context()) {
			t.Error("it counts as stuck too early")
		}
		time.Sleep(2 * time.Second)
		if p.pulse.alive(t.Context()) {
			t.Error("it is stuck, and counts as alive")
		}
		close(stuck)
		<-done
		if !p.pulse.alive(t.Context()) {
			t.Error("it has ended, and counts as stuck")
		}
	})
}

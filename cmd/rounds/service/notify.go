package service

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// notifier tells the service manager how the process is doing, by systemd's protocol: a
// datagram to the socket that NOTIFY_SOCKET names. Without that variable it does nothing.
type notifier struct {
	socket string
	every  time.Duration // how often Watch reports; 0: never
}

// newNotifier reads what systemd sets for a unit of Type=notify.
func newNotifier(lookup settings.Lookup) notifier {
	var n notifier
	n.socket, _ = lookup("NOTIFY_SOCKET")
	if limit, ok := lookup("WATCHDOG_USEC"); ok && n.socket != "" {
		if usec, err := strconv.ParseInt(limit, 10, 64); err == nil && usec > 1 {
			// Half of what is allowed, as sd_watchdog_enabled(3) advises.
			n.every = time.Duration(usec) * time.Microsecond / 2
		}
	}
	return n
}

// ready reports that the service does its work now.
func (n notifier) ready() error { return n.send("READY=1") }

// stopping reports that it is shutting down.
func (n notifier) stopping() error { return n.send("STOPPING=1") }

// watch reports at a steady pace that the process is alive, as long as alive returns true,
// until ctx is done. Without these reports systemd restarts the process.
func (n notifier) watch(ctx context.Context, alive func(context.Context) bool) {
	if n.every == 0 {
		return
	}
	tick := time.NewTicker(n.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if alive(ctx) {
				// A lost datagram does not matter: the next one follows.
				_ = n.send("WATCHDOG=1")
			}
		}
	}
}

func (n notifier) send(state string) error {
	if n.socket == "" {
		return nil
	}
	// A name that begins with @ is an abstract socket; net takes it as such.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}

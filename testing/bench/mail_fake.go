package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream/imapd"
)

// mailFakeServe is one of the processes of a mail server, until its input ends.
func mailFakeServe(_ context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("mailfake", flag.ContinueOnError)
	accounts := flags.Int("accounts", 0, "how many there are")
	authority := flags.String("authority", "", "the file with its certificate; that of its key is beside it")
	_ = flags.Bool("http2", false, "means nothing here")
	if err := flags.Parse(args); err != nil {
		return err
	}
	debug.SetGCPercent(heldFakeGarbage)
	f := newHeldFake(*accounts)
	f.connections = make(map[string]int)
	certificate, err := tls.LoadX509KeyPair(*authority, *authority+keySuffix)
	if err != nil {
		return err
	}
	server, err := imapd.StartWith(imapd.Options{Encryption: "implicit", Address: "0.0.0.0:0", Certificate: &certificate, Idled: f.idled, Connected: f.connected})
	if err != nil {
		return err
	}
	defer server.Close()
	return f.answer(in, out, server.Port, func(account int) {
		server.Deliver(mailUser(account), fmt.Sprintf("From: Anna <anna@example.com>\r\nSubject: %d\r\n\r\nHello\r\n", time.Now().UnixNano()))
	})
}

func mailUser(account int) string { return strconv.Itoa(account) }

// idled notes that an account has so many connections in IDLE.
func (f *heldFake) idled(user string, idling int) {
	i, err := strconv.Atoi(user)
	if err != nil || i < 0 || i >= len(f.accounts) {
		return
	}
	f.mu.Lock()
	calls := f.accounts[i].calls
	f.mu.Unlock()
	for ; calls < idling; calls++ {
		f.begin(i)
	}
	for ; calls > idling; calls-- {
		f.end(i)
	}
}

// connected counts a connection.
func (f *heldFake) connected(conn net.Conn) (ended func()) {
	address := conn.LocalAddr().String()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connections[address]++
	f.most = max(f.most, f.connections[address])
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.connections[address]--
	}
}

// mostConnections returns how many connections one address had at once, since the last call.
func (f *heldFake) mostConnections() (most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	most, f.most = f.most, 0
	return most
}

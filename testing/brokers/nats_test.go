//go:build night

package brokers

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rounds-dev/rounds/poller/delivery"
	roundsnats "github.com/rounds-dev/rounds/poller/delivery/nats"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

const token = "hunter2"

// natsServer is a real nats-server.
type natsServer struct {
	program, address, config string
	cmd                      *exec.Cmd
}

func startNATS(t testing.TB, sync string, more ...string) *natsServer {
	t.Helper()
	program, err := processes.Go(t.Context(), "tool", "-n", "nats-server").Output()
	if err != nil {
		t.Fatal(err)
	}
	address, err := ports.Address()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &natsServer{program: strings.TrimSpace(string(program)), address: address, config: filepath.Join(dir, "server.conf")}
	_, port, _ := net.SplitHostPort(address)
	text := fmt.Sprintf("host: 127.0.0.1\nport: %s\nmax_payload: 256KB\njetstream {store_dir: %q, sync_interval: %q}\nauthorization {token: %q}\n%s", port, dir, sync, token, strings.Join(more, "\n"))
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	t.Cleanup(s.kill)
	return s
}

func (s *natsServer) start(t testing.TB) {
	t.Helper()
	s.cmd = exec.Command(s.program, "-c", s.config)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if conn, err := net.Dial("tcp", s.address); err == nil {
			_ = conn.Close()
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatal("the server does not listen")
}

// kill ends the server as a power cut does.
func (s *natsServer) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
}

// stream is a stream for the suite.
type stream struct {
	of      *natsServer
	name    string
	subject string
	last    *wire
}

var streams int

func newStream(t testing.TB, of *natsServer) *stream {
	streams++
	s := &stream{of: of, name: fmt.Sprint("S", streams), subject: fmt.Sprint("rounds.", streams)}
	s.with(t, func(js jetstream.JetStream) error {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: s.name, Subjects: []string{s.subject}, Duplicates: time.Hour})
		return err
	})
	return s
}

// with calls a function with a stranger's client.
func (s *stream) with(t testing.TB, do func(jetstream.JetStream) error) {
	t.Helper()
	conn, err := nats.Connect("nats://"+s.of.address, nats.Token(token))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err == nil {
		err = do(js)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *stream) open(t testing.TB, secret string) delivery.Sink {
	s.last = &wire{by: new(net.Dialer).DialContext, steps: -1, open: make(map[*cable]bool)}
	return open(t, roundsnats.Type{
		Namespace: sinktest.Namespace, Log: faketime.Log(t), Dial: s.last.dial,
		Secrets: secrets.Source{Lookup: func(name string) (string, bool) { return secret, name == secrets.ServiceEnvPrefix+"NATS" }},
	}, fmt.Sprintf(`"servers":[%q],"stream":%q,"subject":%q,"token":{"secret":"NATS"}`, s.of.address, s.name, s.subject))
}

func (s *stream) Open(t testing.TB) delivery.Sink { return s.open(t, token) }

func (s *stream) KillAt(n int) {
	s.last.mu.Lock()
	defer s.last.mu.Unlock()
	s.last.steps = n
}

func (s *stream) Died() bool {
	s.last.mu.Lock()
	defer s.last.mu.Unlock()
	return s.last.dead
}

func (s *stream) SetAway(away bool) { s.last.setAway(away) }

func (s *stream) Stored(t testing.TB) (all []sinktest.Stored) {
	ctx := context.WithoutCancel(t.Context())
	s.with(t, func(js jetstream.JetStream) error {
		of, err := js.Stream(ctx, s.name)
		if err != nil {
			return err
		}
		for n := uint64(1); n <= of.CachedInfo().State.LastSeq; n++ {
			m, err := of.GetMsg(ctx, n)
			if err != nil {
				return err
			}
			one := stored(t, m.Data)
			if m.Header.Get("Nats-Msg-Id") != one.Key || m.Header.Get("Content-Type") != "application/json" || m.Subject != s.subject {
				t.Errorf("a message has the subject %q and the headers %q", m.Subject, m.Header)
			}
			all = append(all, one)
		}
		return nil
	})
	return all
}

// TestNATS runs the suite on a real server. Nothing is stored twice, wherever a process dies.
func TestNATS(t *testing.T) {
	server := startNATS(t, "always")
	sinktest.Run(t, sinktest.Suite{New: func(t *testing.T) sinktest.Place { return newStream(t, server) }, TooLarge: 512 << 10})
	t.Run("the server is killed", func(t *testing.T) {
		at := newStream(t, server)
		to := at.Open(t)
		if err := to.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		batch := sinktest.Messages(20, "a", "b")
		handed := make(chan []error, 1)
		go func() { handed <- to.Handle(t.Context(), batch) }()
		server.kill()
		for i, err := range <-handed {
			var later *delivery.Later
			if err != nil && !errors.As(err, &later) && !errors.Is(err, delivery.ErrHeld) || err != nil && strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("%s: %v", batch[i].Message.ID, err)
			}
		}
		server.start(t)
		for n := 0; n < 100; n++ { // the client reconnects within two seconds
			again := batch[:0:0]
			for i, err := range to.Handle(t.Context(), batch) {
				if err != nil {
					again = append(again, batch[i])
				}
			}
			if len(again) == 0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got := at.Stored(t); len(got) != len(batch) {
			t.Errorf("%d messages are stored, want %d", len(got), len(batch))
		}
	})
	t.Run("tried", func(t *testing.T) {
		at := newStream(t, server)
		all, err := sink.Types{roundsnats.Type{Secrets: secrets.Source{Lookup: func(name string) (string, bool) { return token, name == secrets.ServiceEnvPrefix+"NATS" }}}}.Read(
			strings.NewReader(fmt.Sprintf(`{"endpoints":[{"name":"a","type":"nats","servers":[%q],"stream":%q,"subject":"x","token":{"secret":"NATS"}},
				{"name":"b","type":"nats","servers":[%q],"stream":"NONE","subject":"x","token":{"secret":"NATS"}}]}`, server.address, at.name, server.address)))
		if err != nil {
			t.Fatal(err)
		}
		if err := all[0].Config.(sink.Tester).Try(t.Context()); err != nil {
			t.Error(err)
		}
		if err := all[1].Config.(sink.Tester).Try(t.Context()); err == nil || err.Error() != "the stream is not there: create it" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		at := newStream(t, server)
		missing := newStream(t, server)
		missing.name = "NONE"
		for want, to := range map[string]delivery.Sink{
			"the login is refused": at.open(t, "wrong"), "the stream is not there": missing.open(t, token), "secret NATS: ": at.open(t, ""),
		} {
			err := to.Prepare(t.Context())
			var later *delivery.Later
			if !errors.As(err, &later) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}

// TestNATSVerifiesBothSides adds a stream of a server that demands a certificate of ours.
func TestNATSVerifiesBothSides(t *testing.T) {
	pair, authority := certificate(t)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	ca, private := string(text), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	keyFile := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(keyFile, []byte(private), 0o600); err != nil {
		t.Fatal(err)
	}
	server := startNATS(t, "always", fmt.Sprintf("tls {cert_file: %q, key_file: %q, ca_file: %q, verify: true}", authority, keyFile, authority))
	conn, err := nats.Connect("tls://"+server.address, nats.Token(token), nats.RootCAs(authority), nats.ClientCert(authority, keyFile))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Duplicates: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for fields, want := range map[string]string{
		`,"ca_certificate":{"secret":"CA"},"client_certificate":{"secret":"OWN"}`: "",
		`,"ca_certificate":{"secret":"CA"}`:                                       "certificate required: see client_certificate",
		`,"client_certificate":{"secret":"OWN"}`:                                  "the server's certificate is not trusted: see ca_certificate",
	} {
		source := secrets.Source{Lookup: func(name string) (string, bool) {
			if strings.HasPrefix(name, secrets.ServiceBindingEnvPrefix) {
				return "hosts=127.0.0.1", true
			}
			value, ok := map[string]string{"CA": ca, "OWN": ca + private, "NATS": token}[strings.TrimPrefix(name, secrets.ServiceEnvPrefix)]
			return value, ok
		}}
		to := added(t, roundsnats.Type{Namespace: sinktest.Namespace, Secrets: source, Network: reaching(t, server.address)},
			fmt.Sprintf(`"servers":[%q],"stream":"S","subject":"s","tls":true,"token":{"secret":"NATS"}%s`, server.address, fields))
		for _, err := range append(to.Handle(t.Context(), sinktest.Messages(3, "a", "b")), to.Prepare(t.Context())) {
			if (err == nil) != (want == "") || err != nil && !errors.Is(err, delivery.ErrHeld) && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", fields, err, want)
			}
		}
		done := to.(sink.Testable).Test(t.Context(), sink.TestEvent("bus", "id", time.Now()))
		if (done.Outcome == sink.Delivered) != (want == "") || !strings.Contains(done.Why, want) {
			t.Errorf("%s: %+v, want %s", fields, done, want)
		}
	}
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 7 {
		t.Errorf("the stream has %+v, %v", info, err)
	}
}

// BenchmarkHandleNATS writes to a real server as it is by default, which syncs every two minutes.
func BenchmarkHandleNATS(b *testing.B) { handled(b, newStream(b, startNATS(b, "2m")).Open(b)) }

// BenchmarkHandleNATSSynced writes to one that syncs each message.
func BenchmarkHandleNATSSynced(b *testing.B) {
	handled(b, newStream(b, startNATS(b, "always")).Open(b))
}

package nats

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// recorder is a network that tells where it was asked to connect.
type recorder struct {
	*fetch.Client
	dialled chan string
}

func (r *recorder) Dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := r.Client.Dial(ctx, address)
	select {
	case r.dialled <- fmt.Sprintf("%s: %v", address, err):
	default:
	}
	return conn, err
}

// server accepts everybody, speaks TLS if it has a config, names another server, and answers messages with
// what it likes.
func server(t *testing.T, secured *tls.Config, answer func(subject, reply string) string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				info, _ := json.Marshal(map[string]any{
					"server_id": "x", "version": "2.10.0", "proto": 1, "headers": true, "max_payload": 1 << 20, "jetstream": true,
					"tls_required": secured != nil, "connect_urls": []string{"10.0.0.7:4222"},
				})
				_, _ = fmt.Fprintf(conn, "INFO %s\r\n", info)
				if secured != nil {
					conn = tls.Server(conn, secured)
				}
				for in := bufio.NewReader(conn); ; {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					switch words := strings.Fields(line); {
					case len(words) == 0:
					case words[0] == "PING":
						_, _ = fmt.Fprint(conn, "PONG\r\n")
					case words[0] == "HPUB":
						size, _ := strconv.Atoi(words[4])
						if _, err := in.Discard(size + 2); err != nil {
							return
						}
						_, _ = fmt.Fprint(conn, answer(words[1], words[2]))
					}
				}
			})
		}
	})
	return listener.Addr().String()
}

func added(t *testing.T, network sink.Network, address, more string, values map[string]string) delivery.Sink {
	t.Helper()
	source := secrets.Source{Lookup: func(name string) (string, bool) {
		value, ok := values[strings.TrimPrefix(name, secrets.ServiceEnvPrefix)]
		if strings.HasPrefix(name, secrets.ServiceBindingEnvPrefix) {
			return "hosts=127.0.0.1", true
		}
		return value, ok
	}}
	e, err := sink.Types{Type{Namespace: sinktest.Namespace, Secrets: source, Network: network}}.ReadAdded(
		fmt.Appendf(nil, `{"name":"bus","type":"nats","servers":[%q],"stream":"S","subject":"s"%s}`, address, more), 1)
	if err != nil {
		t.Fatal(err)
	}
	to, err := e.Config.Open()
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func allowing(t *testing.T, networks string) *fetch.Client {
	t.Helper()
	allowed, err := fetch.ParseNetworks(networks)
	if err != nil {
		t.Fatal(err)
	}
	client := fetch.New(fetch.Options{Networks: allowed})
	t.Cleanup(client.Close)
	return client
}

// A server names others, which are judged as the first one was. A message that announces more bytes than
// there can be does not end the process.
func TestHostileServer(t *testing.T) {
	for name, answer := range map[string]string{
		"too large": "MSG %s 1 9223372036854775807\r\n", "larger than memory": "MSG %s 1 99999999999\r\n", "with headers": "HMSG %s 1 12 9223372036854775807\r\n",
		"a long line": "-ERR '" + strings.Repeat("x", maxLine) + "'\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			address := server(t, nil, func(_, reply string) string { return strings.ReplaceAll(answer, "%s", reply) })
			network := &recorder{allowing(t, address), make(chan string, 100)}
			to := added(t, network, address, "", nil)
			err := to.Handle(t.Context(), sinktest.Messages(1, "a"))[0]
			var later *delivery.Later
			if !errors.As(err, &later) {
				t.Errorf("got %v", err)
			}
			timeout := time.After(30 * time.Second)
			for said := ""; !strings.HasPrefix(said, "10.0.0.7:4222: "); {
				select {
				case said = <-network.dialled:
				case <-timeout:
					t.Fatal("the other server was not tried")
				}
				if strings.HasPrefix(said, "10.") && !strings.Contains(said, "refused address: 10.0.0.7 is not among those that may be reached") {
					t.Error(said)
				}
			}
			if err := to.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server is verified by a certificate from a secret, and verifies ours. What it sends over TLS has bounds,
// too.
func TestTLS(t *testing.T) {
	ours, authority := sinktest.Certificate(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(authority))
	pair, err := tls.X509KeyPair([]byte(ours), []byte(ours))
	if err != nil {
		t.Fatal(err)
	}
	_, strange := sinktest.Certificate(t)
	secured := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	taken := func(_, reply string) string {
		const ack = `{"stream":"S","seq":1}`
		return fmt.Sprintf("MSG %s 1 %d\r\n%s\r\n", reply, len(ack), ack)
	}
	const both = `,"tls":true,"ca_certificate":{"secret":"CA"},"client_certificate":{"secret":"OWN"}`
	for name, one := range map[string]struct {
		secured *tls.Config
		answer  func(_, reply string) string
		fields  string
		ca      string
		want    string
	}{
		"taken":              {secured, taken, both, authority, ""},
		"too large":          {secured, func(_, reply string) string { return "MSG " + reply + " 1 9223372036854775807\r\n" }, both, authority, "nats: "},
		"a stranger's":       {secured, taken, both, strange, "the server's certificate is not trusted: see ca_certificate"},
		"without ours":       {secured, taken, `,"tls":true,"ca_certificate":{"secret":"CA"}`, authority, "certificate required: see client_certificate"},
		"it speaks no TLS":   {nil, taken, both, authority, "server and endpoint differ in tls"},
		"it demands TLS":     {secured, taken, "", authority, "the server's certificate is not trusted"},
		"no TLS on its side": {nil, taken, "", authority, ""},
	} {
		t.Run(name, func(t *testing.T) {
			address := server(t, one.secured, one.answer)
			to := added(t, allowing(t, address), address, one.fields, map[string]string{"CA": one.ca, "OWN": ours})
			err := to.Handle(t.Context(), sinktest.Messages(1, "a"))[0]
			if (err == nil) != (one.want == "") || err != nil && !strings.Contains(err.Error(), one.want) {
				t.Errorf("got %v, want %s", err, one.want)
			}
			if err := to.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a server sends is followed as the client reads it, wherever the reads end.
func TestBounded(t *testing.T) {
	const good = "INFO {}\r\nPING\r\nMSG a.b 1 5\r\nMSG 9\r\n+OK\r\nHMSG a 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\nmsg a 1 0\r\n\r\n-ERR 'x'\r\n"
	for text, whole := range map[string]bool{
		good: true, good + "MSG a 1 1048576\r\n": true, good + "MSG a 1 1048577\r\n": false, "hmsg a 1 1 99999999999999999999\r\n": false,
		"MSG a 1 5\r\nhello trailing\nMSG a 1 2000000\r\n": false, "MSG\n": false, "PING\r\n" + strings.Repeat("x", maxLine+1): false,
		"MSG a 1 3\r\nMSG\r\nPING\r\n": true, strings.Repeat("INFO "+strings.Repeat("x", 1000)+"\r\n", maxInfo/1000+1): false,
	} {
		for name, from := range map[string]io.Reader{"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
			got, err := io.ReadAll(&bounded{Conn: reading{from: from}})
			if (err == nil) != whole || whole && string(got) != text {
				t.Errorf("%.40q %s: %q, %v", text, name, got, err)
			}
		}
	}
}

type reading struct {
	net.Conn
	from io.Reader
}

func (r reading) Read(p []byte) (int, error) { return r.from.Read(p) }

// A connection that breaks again and again is made anew, once.
func TestBreaks(t *testing.T) {
	c := &connection{lost: make(chan struct{}), left: breaksMost}
	for n := range 2 * breaksMost {
		if lost := c.lost; c.broke() != (n == breaksMost-1) {
			t.Errorf("break %d", n)
		} else if _, open := <-lost; open {
			t.Error("nobody was told")
		}
	}
}

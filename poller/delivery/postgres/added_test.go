package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

func TestAdded(t *testing.T) {
	sinktest.Added{
		New: func(network sink.Network, source secrets.Source) sink.Addable {
			return Type{Namespace: sinktest.Namespace, Secrets: source, Network: network}
		},
		List: "servers", Fields: `,"database":"d","user":"u","password":{"secret":"S"}`,
	}.Run(t)
}

// added returns an endpoint of servers on this machine that was added while the service runs.
func added(t *testing.T, fields string, values map[string]string) *config {
	t.Helper()
	allowed, err := fetch.ParseNetworks("127.0.0.1,localhost")
	if err != nil {
		t.Fatal(err)
	}
	client := fetch.New(fetch.Options{Networks: allowed})
	t.Cleanup(client.Close)
	source := secrets.Source{Lookup: func(name string) (string, bool) {
		if strings.HasPrefix(name, secrets.ServiceBindingEnvPrefix) {
			return "hosts=127.0.0.1,localhost", true
		}
		value, ok := values[strings.TrimPrefix(name, secrets.ServiceEnvPrefix)]
		return value, ok
	}}
	e, err := sink.Types{Type{Namespace: sinktest.Namespace, Secrets: source, Network: client}}.ReadAdded([]byte(`{"name":"crm","type":"postgres",`+fields+`}`), 1)
	if err != nil {
		t.Fatal(err)
	}
	return e.Config.(*config)
}

// database is a server that begins TLS if it has a config, and then refuses every user. It notes what a
// client says of itself.
func database(t *testing.T, secured *tls.Config, said *string) (address string) {
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
	message := func(conn net.Conn) (string, error) { // https://www.postgresql.org/docs/current/protocol-message-formats.html
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return "", err
		}
		text := make([]byte, min(binary.BigEndian.Uint32(size[:]), 1024)-4)
		_, err := io.ReadFull(conn, text)
		return string(text), err
	}
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			func() {
				defer conn.Close()
				begin, err := message(conn)
				if err == nil && begin == "\x04\xd2\x16\x2f" { // SSLRequest
					if secured == nil {
						_, _ = io.WriteString(conn, "N")
						return
					}
					if _, err = io.WriteString(conn, "S"); err == nil {
						conn = tls.Server(conn, secured)
						begin, err = message(conn)
					}
				}
				if err != nil {
					return
				}
				*said = begin
				const refusal = "SFATAL\x00C28P01\x00Mno\x00\x00"
				_, _ = conn.Write(append(binary.BigEndian.AppendUint32([]byte("E"), uint32(len(refusal)+4)), refusal...))
			}()
		}
	})
	return listener.Addr().String()
}

// What a server says without being asked has an end.
func TestAServerSaysOnlySoMuch(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	ended := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(theirs, io.LimitReader(zeros{}, 2*maxAnswers))
		ended <- n
	}()
	conn := &asked{Conn: ours}
	n, err := io.Copy(io.Discard, conn)
	if n > maxAnswers || err == nil || !strings.Contains(err.Error(), "more than this client expects") {
		t.Errorf("read %d bytes, %v", n, err)
	}
	_ = ours.Close()
	<-ended
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// An added endpoint takes its certificates from secrets, and nothing from the environment or the home of
// the process: neither a password for all hosts, nor what a service file says.
func TestAnAddedEndpointTakesNothingFromTheProcess(t *testing.T) {
	ours, authority := sinktest.Certificate(t)
	_, strange := sinktest.Certificate(t)
	home := t.TempDir()
	for name, text := range map[string]string{
		".pgpass": "*:*:*:*:hunter2\n", ".pg_service.conf": "[all]\noptions=-c hunter2=1\nhost=/tmp\nsslrootcert=/etc/hunter2\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{
		"HOME": home, "PGPASSWORD": "hunter2", "PGSERVICE": "all", "PGHOST": "/tmp", "PGOPTIONS": "-c hunter2=2", "PGAPPNAME": "hunter2", "PGUSER": "hunter2", "PGDATABASE": "hunter2", "PGSSLMODE": "disable",
	} {
		t.Setenv(name, value)
	}
	pair, err := tls.X509KeyPair([]byte(ours), []byte(ours))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(authority))
	secured := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	const both = `,"tls":true,"ca_certificate":{"secret":"CA"},"client_certificate":{"secret":"OWN"}`
	for name, one := range map[string]struct {
		secured          *tls.Config
		fields, ca, want string
	}{
		"without TLS":      {nil, "", "", "28P01: the user or the password is wrong"},
		"with TLS":         {secured, both, authority, "28P01: the user or the password is wrong"},
		"a stranger's":     {secured, both, strange, "the server's certificate is not trusted: see ca_certificate"},
		"without ours":     {secured, `,"tls":true,"ca_certificate":{"secret":"CA"}`, authority, "certificate required: see client_certificate"},
		"it speaks no TLS": {nil, both, authority, "the server speaks no TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			said := ""
			address := database(t, one.secured, &said)
			e := added(t, `"servers":["`+address+`"],"database":"d","user":"u"`+one.fields, map[string]string{"CA": one.ca, "OWN": ours})
			if err := e.Try(t.Context()); err == nil || !strings.Contains(err.Error(), one.want) {
				t.Errorf("got %v, want %s", err, one.want)
			}
			if strings.HasPrefix(one.want, "28P01") && (strings.Contains(said, "hunter2") || !strings.Contains(said, "user\x00u\x00") || !strings.Contains(said, "database\x00d\x00")) {
				t.Errorf("it said %q", said)
			}
		})
	}
}

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/pgtest"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

var errCut = errors.New("cut")

// wire is the network between a process and the database. The process dies before it sends, or
// before it reads the answer.
type wire struct {
	mu    sync.Mutex
	steps int // until it dies; less than 0: it does not
	dead  bool
	away  bool
	open  []net.Conn
}

func (w *wire) step() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead || w.away {
		return errCut
	}
	if w.steps == 0 {
		w.dead = true
		for _, conn := range w.open { // the system closes what a dead process has open
			_ = conn.Close()
		}
		return errCut
	}
	w.steps--
	return nil
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := w.step(); err != nil {
		return nil, &net.OpError{Op: "dial", Err: err}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = append(w.open, conn)
	return &cable{conn, w}, nil
}

type cable struct {
	net.Conn
	of *wire
}

func (c *cable) Write(p []byte) (int, error) {
	if err := c.of.step(); err != nil {
		_ = c.Close()
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *cable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if cut := c.of.step(); cut != nil && err == nil {
		_ = c.Close()
		return 0, cut
	}
	return n, err
}

// place is a table.
type place struct {
	url   string
	table string
	last  *wire
}

const password = "hunter2"

func (p *place) open(t testing.TB, url string) *Sink {
	p.last = &wire{steps: -1}
	opened, err := (&config{Type: Type{Namespace: sinktest.Namespace, Secrets: secrets.Source{Lookup: func(name string) (string, bool) {
		return url, name == secrets.EnvPrefix+"DB"
	}}, Log: faketime.Log(t), Dial: p.last.dial}, name: "crm", url: secrets.Ref{Name: "DB"}, table: p.table}).Open()
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*Sink)
	t.Cleanup(func() { _ = s.Close() }) // of those that died
	return s
}

func (p *place) Open(t testing.TB) delivery.Sink { return p.open(t, p.url) }

func (p *place) KillAt(n int) {
	p.last.mu.Lock()
	defer p.last.mu.Unlock()
	p.last.steps = n
}

func (p *place) Died() bool {
	p.last.mu.Lock()
	defer p.last.mu.Unlock()
	return p.last.dead
}

func (p *place) SetAway(away bool) {
	p.last.mu.Lock()
	defer p.last.mu.Unlock()
	p.last.away = away
}

func (p *place) Stored(t testing.TB) (all []sinktest.Stored) {
	t.Helper()
	db, err := sql.Open("pgx", p.url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT id, account, message, data::text FROM "+p.table+" ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var m sinktest.Stored
		if err := rows.Scan(&m.Key, &m.Account, &m.ID, &m.Data); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// No message is stored twice, wherever a process dies.
func TestSuite(t *testing.T) {
	pair, authority := sinktest.Certificate(t)
	server := pgtest.Start(t, pgtest.WithTLS(pair, authority, rules...))
	database, tables := server.NewDatabase(t), 0
	url := server.URL(database)
	newPlace := func() *place {
		tables++
		return &place{url: url, table: fmt.Sprint("messages_", tables)}
	}
	sinktest.Run(t, sinktest.Suite{New: func(*testing.T) sinktest.Place { return newPlace() }})
	t.Run("the server is killed", func(t *testing.T) {
		p := newPlace()
		s := p.Open(t)
		if err := s.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		stored := func() (all int) {
			for _, err := range s.Handle(t.Context(), sinktest.Messages(3, "a")) {
				var later *delivery.Later
				if err == nil {
					all++
				} else if !errors.As(err, &later) && !errors.Is(err, delivery.ErrHeld) {
					t.Errorf("got %v", err)
				}
			}
			return all
		}
		server.Kill()
		if n := stored(); n != 0 {
			t.Errorf("%d messages are stored nowhere", n)
		}
		server.Restart(t)
		for n := 0; n < 5 && stored() < 3; n++ { // each broken connection fails once
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if got := p.Stored(t); len(got) != 3 {
			t.Errorf("stored are %v", got)
		}
	})
	t.Run("TLS", func(t *testing.T) { testTLS(t, server, database, pair, authority) })
	t.Run("several servers", func(t *testing.T) { testSeveralServers(t, server) })
	t.Run("wrong password", func(t *testing.T) {
		p := newPlace()
		for at, want := range map[string]string{
			strings.Replace(url, "@", password+"@", 1): "28P01: the user or the password is wrong",
			server.URL("none"):                         "3D000: the database does not exist", password + "://": "secret DB: must be a URL as postgres://",
		} {
			s := p.open(t, at)
			if err := s.Try(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("got %v, want %s", err, want)
			}
			err := s.Prepare(t.Context())
			var later *delivery.Later
			if !errors.As(err, &later) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("got %v, want %s", err, want)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("other columns", func(t *testing.T) {
		p := newPlace()
		s := p.Open(t)
		for range 2 { // without and with the table
			if err := s.(*Sink).Try(t.Context()); err != nil {
				t.Error(err)
			}
			if err := s.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := pgtest.Open(t, url).ExecContext(t.Context(), "ALTER TABLE "+p.table+" ALTER data TYPE jsonb"); err != nil {
			t.Fatal(err)
		}
		bad, good := sinktest.Message("a", 0), sinktest.Message("b", 0)
		bad.Message.Data = []byte(`"\u0000"`)
		errs := s.Handle(t.Context(), []delivery.Delivery{bad, good})
		var dead *delivery.Dead
		if !errors.As(errs[0], &dead) || errs[1] != nil {
			t.Errorf("got %v", errs)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("the table changes under it", func(t *testing.T) {
		p := newPlace()
		s := p.Open(t)
		handle := func(account string) error { return s.Handle(t.Context(), sinktest.Messages(1, account))[0] }
		waits := func(account, want string) {
			t.Helper()
			var later *delivery.Later
			if err := handle(account); !errors.As(err, &later) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		if err := handle("a"); err != nil {
			t.Error(err)
		}
		db := pgtest.Open(t, url)
		execute(t, db, "ALTER TABLE "+p.table+" RENAME data TO content")
		waits("b", "42703: the table has other columns")
		execute(t, db, "DROP TABLE "+p.table)
		waits("b", "42P01: the table is gone")
		if err := handle("b"); err != nil || len(p.Stored(t)) != 1 {
			t.Errorf("got %v, and %v", err, p.Stored(t))
		}
		execute(t, db, "DROP TABLE "+p.table+", "+p.table+"_applied")
		waits("c", "42P01: the table is gone")
		if err := errors.Join(handle("c"), s.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestRead(t *testing.T) {
	types := sink.Types{Type{}}
	for fields, want := range map[string]string{
		``: "url: missing", `,"url":"postgres://u:hunter2@h/d"`: `url: must be {"secret": "NAME"}`, `,"url":{"secret":"a b"}`: "url: is not a name",
		`,"url":{"secret":"DB"},"table":"a;b"`: "table: must be NAME", `,"url":{"secret":"DB"},"table":""`: "table: must be NAME",
		`,"url":{"secret":"DB"},"format":"cloudevents"`: "format: must be left out", `,"url":{"secret":"DB"},"secrets":[]`: "secrets: unknown field",
	} {
		_, err := types.Read(strings.NewReader(`{"endpoints":[{"name":"crm","type":"postgres"` + fields + `}]}`))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: got %v, want %s", fields, err, want)
		}
	}
	if _, err := types.Read(strings.NewReader(`{"endpoints":[{"name":"crm","type":"postgres","url":{"secret":"DB"},"table":"crm.messages"}]}`)); err != nil {
		t.Error(err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(processes.Apart(m, "TestSuite")) }

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/testing/redistest"
)

const testAccounts = 1000

// TestSubjectsKeepWhatTheyHave runs each system for a moment, with few in flight and with
// many. Afterwards each must still have every account, task or delivery, waiting. A
// system that lost some would be measured as too fast.
func TestSubjectsKeepWhatTheyHave(t *testing.T) {
	for name, c := range map[string]struct {
		spec     spec
		settings settings
		waiting  string // the lists
	}{
		"ring":                  {spec{Kind: "ring", Shards: 4}, settings{}, "*}:message_queue"},
		"ring, few shards":      {spec{Kind: "ring", Shards: 1}, settings{}, "*}:message_queue"},
		"ring, one by one":      {spec{Kind: "ring", Shards: 4}, settings{Batch: 1, Workers: 8}, "*}:message_queue"},
		"bare":                  {spec{Kind: "bare"}, settings{Batch: 1, Workers: 8}, "*}:message_queue"},
		"bare, lists, batches":  {spec{Kind: "bare", Shards: 4}, settings{}, "*}:message_queue"},
		"asynq":                 {spec{Kind: "asynq"}, settings{}, "asynq:{default}:pending"},
		"asynq, several queues": {spec{Kind: "asynq", Queues: 3}, settings{}, "asynq:{default3-?}:pending"},
		"rmq":                   {spec{Kind: "rmq"}, settings{}, `rmq::queue::\[accounts\]::ready`},
		"rmq, several queues":   {spec{Kind: "rmq", Queues: 3}, settings{}, `rmq::queue::\[accounts3-?\]::ready`},
		"poller":                {spec{Kind: "poller", Shards: 4, Cadence: tightCadence}, settings{}, "*}:message_queue"},
	} {
		t.Run(name, func(t *testing.T) {
			process := redistest.Start(t)
			conn, err := process.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			s := &server{process, conn}
			c.spec.Redis, c.spec.Accounts = process.URL(), testAccounts
			it := serve(t, c.spec)
			for _, held := range []int{0, 200} {
				c.settings.Servers, c.settings.Concurrency, c.settings.Pool, c.settings.InFlight, c.settings.Warm = 2, 8, 10, held, true
				it.tell(order{Do: "start", Settings: c.settings})
				a := it.tell(order{Do: "measure", For: 150 * time.Millisecond})
				it.tell(order{Do: "stop"})
				if a.Cycles == 0 || a.Seconds < 0.15 || a.Allocs == 0 {
					t.Errorf("%d in flight: measured %+v", held, a)
				}
				if n, err := s.sum(c.waiting, "LLEN"); err != nil || n != testAccounts {
					t.Errorf("%d in flight: %v of %d are waiting afterwards, %v", held, n, testAccounts, err)
				}
			}
		})
	}
}

func TestSubjectTellsWhatIsWrong(t *testing.T) {
	it := serve(t, spec{Kind: "ring", Redis: redistest.Start(t).URL(), Accounts: 1})
	if a := it.ask(order{Do: "dance"}); a.Error == "" {
		t.Errorf("got %+v", a)
	}
	if err := serveSubject(t.Context(), []string{`{"kind":"none"}`}, nil, io.Discard); err == nil {
		t.Error("a kind that does not exist was accepted")
	}
}

func TestMemoryIsThatOfTheServerAlone(t *testing.T) {
	process := redistest.Start(t)
	conn, err := redis.Dial("tcp", process.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := &server{process, conn}
	before, err := s.memory()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Do("SETRANGE", "key", 1<<20-1, "x"); err != nil {
		t.Fatal(err)
	}
	after, err := s.memory()
	if grown := after - before; err != nil || grown < 1<<20 || grown > 1.5*(1<<20) {
		t.Errorf("a MiB took %v bytes, %v", grown, err)
	}
}

// served is a subject in a goroutine, with its input and output.
type served struct {
	*testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func serve(t *testing.T, s spec) *served {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	ordersOut, ordersIn := io.Pipe()
	answersOut, answersIn := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- serveSubject(t.Context(), []string{string(text)}, ordersOut, answersIn) }()
	it := &served{t, ordersIn, bufio.NewReader(answersOut)}
	t.Cleanup(func() {
		_ = ordersIn.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if a := it.read(); a.Error != "" {
		t.Fatal(a.Error)
	}
	return it
}

func (s *served) read() (a answer) {
	s.Helper()
	line, err := s.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		s.Fatal(err)
	}
	return a
}

func (s *served) ask(o order) answer {
	s.Helper()
	line, err := json.Marshal(o)
	if err == nil {
		_, err = s.in.Write(append(line, '\n'))
	}
	if err != nil {
		s.Fatal(err)
	}
	return s.read()
}

// tell is ask for what must succeed.
func (s *served) tell(o order) answer {
	s.Helper()
	a := s.ask(o)
	if a.Error != "" {
		s.Fatalf("%s: %s", o.Do, a.Error)
	}
	return a
}

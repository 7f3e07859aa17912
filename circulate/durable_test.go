package circulate_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A server that cannot tell what is on its disk is asked once in a while, and never
// causes an error.
func TestSyncWhereTheServerCannotTell(t *testing.T) {
	for name, refusal := range map[string]string{
		"no append-only file": "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
		"not allowed":         "NOPERM User rounds has no permissions to run the 'waitaof' command",
		"older than 7.2":      "ERR unknown command 'WAITAOF', with args beginning with: '1' '0' '2000' ",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				syncer := answering(t, func(c *server.Peer) {
					asked++
					c.WriteError(refusal)
				})
				for range 3 {
					if synced, err := syncer.Sync(t.Context(), 0); synced || err != nil {
						t.Fatalf("%v, %v", synced, err)
					}
				}
				if asked != 1 {
					t.Errorf("asked %d times", asked)
				}
				time.Sleep(2 * time.Minute)
				if _, err := syncer.Sync(t.Context(), 1); err != nil || asked != 2 {
					t.Errorf("%v, asked %d times", err, asked)
				}
			})
		})
	}
}

// Only a server that says so has synced. Any other answer leaves that open.
func TestSyncTakesNothingForAYes(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(*server.Peer)
		synced bool
		err    error
		says   string
		fails  bool // somehow
	}{
		"synced": {answer: synced(1), synced: true},
		"late":   {answer: synced(0), err: circulate.ErrNotDurable},
		"cannot write": {
			answer: func(c *server.Peer) { c.WriteError("MISCONF Errors writing to the AOF file: No space left on device") },
			says:   "MISCONF",
		},
		"another form": {answer: func(c *server.Peer) { c.WriteOK() }, says: "unexpected"},
		"cut":          {answer: func(c *server.Peer) { c.Close() }, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := answering(t, test.answer).Sync(t.Context(), 0)
				if got != test.synced || test.err != nil && !errors.Is(err, test.err) || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) ||
					(test.fails || test.err != nil || test.says != "") != (err != nil) {
					t.Errorf("%v, %v", got, err)
				}
			})
		})
	}
}

// A call that arrives during a round waits for the next one, because its write may be
// younger than the round. All such calls share that next round.
func TestSyncsShareARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		gate := make(chan struct{})
		syncer := answering(t, func(c *server.Peer) {
			asked.Add(1)
			<-gate
			synced(1)(c)
		})
		var done atomic.Int32
		begin := func(shard int) {
			go func() {
				if synced, err := syncer.Sync(t.Context(), shard); !synced || err != nil {
					t.Errorf("%v, %v", synced, err)
				}
				done.Add(1)
			}()
		}
		begin(0)
		synctest.Wait()
		for range 10 {
			begin(0)
			begin(1)
		}
		synctest.Wait()
		gate <- struct{}{}
		synctest.Wait()
		if asked.Load() != 2 || done.Load() != 1 {
			t.Errorf("asked %d times when the first was done, %d are done", asked.Load(), done.Load())
		}
		gate <- struct{}{}
		synctest.Wait()
		if asked.Load() != 2 || done.Load() != 21 {
			t.Errorf("asked %d times for 21 callers, %d are done", asked.Load(), done.Load())
		}
	})
}

// A real server of 7.2 or later says what is on its disk; one that never syncs does not say
// that it has.
func TestSyncOnARealServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "everysec"))
	conn := dial(t, s)
	_, err := conn.Do("WAITAOF", 0, 0, 0)
	knows := err == nil
	syncer := circulate.NewSyncer(openRing(t, redistest.Connect(t, s), 2), circulate.Durability{Disk: true})
	if synced, err := syncer.Sync(t.Context(), 0); synced != knows || err != nil {
		t.Errorf("knows WAITAOF: %v; %v, %v", knows, synced, err)
	}
	if !knows {
		return
	}
	if _, err := conn.Do("CONFIG", "SET", "appendfsync", "no"); err != nil {
		t.Fatal(err)
	}
	if synced, err := syncer.Sync(t.Context(), 1); synced || !errors.Is(err, circulate.ErrNotDurable) {
		t.Errorf("a server that does not sync: %v, %v", synced, err)
	}
}

// A Syncer that wants replicas waits until as many have the writes. A server that has too few,
// or that cannot tell, is not synced; nobody asks it about its disk unless that is wanted too.
func TestSyncWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	redistest.StartReplica(t, master)
	ring := openRing(t, redistest.Connect(t, master), 2)
	conn := dial(t, master)
	sync := func(want circulate.Durability, synced bool, err error) {
		t.Helper()
		got, failed := circulate.NewSyncer(ring, want).Sync(t.Context(), 1)
		if got != synced || !errors.Is(failed, err) || (failed == nil) != (err == nil) {
			t.Errorf("%+v: %v, %v; want %v, %v", want, got, failed, synced, err)
		}
	}
	sync(circulate.Durability{}, false, nil)
	sync(circulate.Durability{Replicas: 1}, false, nil)
	sync(circulate.Durability{Disk: true, Replicas: 1}, false, nil) // there is no append-only file
	sync(circulate.Durability{Disk: true, Replicas: 2}, false, circulate.ErrNotReplicated)
	if calls := calls(t, redistest.Connect(t, master), "wait"); calls != 3 {
		t.Errorf("asked for replicas %d times, want 3", calls)
	}
	if _, err := conn.Do("ACL", "SETUSER", "default", "-wait"); err != nil {
		t.Fatal(err)
	}
	sync(circulate.Durability{Replicas: 1}, false, circulate.ErrNotReplicated)

	embedded := openRing(t, redistest.Embedded(t), 1)
	if synced, err := circulate.NewSyncer(embedded, circulate.Durability{Replicas: 1}).Sync(t.Context(), 0); synced || !errors.Is(err, circulate.ErrNotReplicated) {
		t.Errorf("a server without replicas: %v, %v", synced, err)
	}
}

func dial(t *testing.T, s *redistest.Server) redis.Conn {
	t.Helper()
	conn, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// synced answers WAITAOF.
func synced(local int) func(*server.Peer) {
	return func(c *server.Peer) {
		c.WriteLen(2)
		c.WriteInt(local)
		c.WriteInt(0)
	}
}

// answering returns a Syncer over two shards of an embedded server that answers WAITAOF so.
func answering(t *testing.T, answer func(*server.Peer)) *circulate.Syncer {
	t.Helper()
	s := redistest.Embedded(t)
	ring := openRing(t, s, 2) // which starts the server
	if err := s.Miniredis().Server().Register("WAITAOF", func(c *server.Peer, _ string, _ []string) { answer(c) }); err != nil {
		t.Fatal(err)
	}
	return circulate.NewSyncer(ring, circulate.Durability{Disk: true})
}

// A disk that syncs once a second makes nobody wait for two syncs: what is written during a round is
// in the next one, which does not wait for the end of the first. There are never more than a few.
func TestRoundsOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		epoch := time.Now()
		var under, most, asked atomic.Int64
		syncer := answering(t, func(c *server.Peer) {
			asked.Add(1)
			most.Store(max(most.Load(), under.Add(1)))
			time.Sleep(time.Second - time.Since(epoch)%time.Second)
			under.Add(-1)
			synced(1)(c)
		})
		var done sync.WaitGroup
		for i := range 500 {
			began := time.Now()
			done.Go(func() {
				if synced, err := syncer.Sync(t.Context(), i%2); !synced || err != nil {
					t.Errorf("%v, %v", synced, err)
				}
				if took := time.Since(began); took > 1100*time.Millisecond {
					t.Errorf("the caller waited %v", took)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		done.Wait()
		if most.Load() < 4 || most.Load() > 16 || asked.Load() > 100 {
			t.Errorf("%d rounds, %d at once", asked.Load(), most.Load())
		}
	})
}

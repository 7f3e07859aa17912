package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/connect"
)

const bareConnections = 50

// bareRing is the pattern without tickets, scripts and batches: RPOPLPUSH to claim;
// MULTI, LREM, LPUSH, EXEC to return. The ring is compared with it.
type bareRing struct{ server *connect.Single }

func (b *bareRing) fill(accounts int) error {
	conn, err := b.server.Conn(context.Background(), "")
	if err != nil {
		return err
	}
	defer conn.Close()
	for i := range accounts {
		if err := conn.Send("LPUSH", "message_queue", fmt.Sprintf("%013d|account%06d", 1795226313819, i)); err != nil {
			return err
		}
	}
	_, err = conn.Do("")
	return err
}

// cycles runs with bareConnections connections, each holding so many claims.
func (b *bareRing) cycles(ctx context.Context, d time.Duration, each int) (int64, error) {
	stop := time.Now().Add(d)
	var done atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, bareConnections)
	for range bareConnections {
		wg.Go(func() {
			n, err := b.work(ctx, stop, each)
			done.Add(n)
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return done.Load(), nil
}

func (b *bareRing) work(ctx context.Context, stop time.Time, each int) (int64, error) {
	conn, err := b.server.Conn(ctx, "")
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var held []string
	var done int64
	for time.Now().Before(stop) {
		for len(held) < each {
			entry, err := redis.String(conn.Do("RPOPLPUSH", "message_queue", "processing_list"))
			if errors.Is(err, redis.ErrNil) {
				break
			}
			if err != nil {
				return 0, err
			}
			held = append(held, entry)
		}
		if len(held) == 0 {
			continue
		}
		i, last := rand.IntN(len(held)), len(held)-1
		held[i], held[last] = held[last], held[i]
		if err := bareReturn(conn, held[last]); err != nil {
			return 0, err
		}
		held = held[:last]
		done++
	}
	for _, entry := range held {
		if err := bareReturn(conn, entry); err != nil {
			return 0, err
		}
	}
	return done, nil
}

func bareReturn(conn redis.Conn, entry string) error {
	fresh := fmt.Sprintf("%013d%s", time.Now().UnixMilli(), entry[strings.IndexByte(entry, '|'):])
	for _, c := range [][]any{{"MULTI"}, {"LREM", "processing_list", -1, entry}, {"LPUSH", "message_queue", fresh}} {
		if err := conn.Send(c[0].(string), c[1:]...); err != nil {
			return err
		}
	}
	_, err := conn.Do("EXEC")
	return err
}

package circulate_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// BenchmarkSendsToOnePeer measures how much time of Redis' it takes to queue a send, by its own
// measure, if few and if many sends wait for the same peer: µs/send.
func BenchmarkSendsToOnePeer(b *testing.B) {
	const each = 100
	for _, wait := range []int{0, 900} {
		b.Run(fmt.Sprintf("%d wait", wait), func(b *testing.B) {
			process := redistest.Start(b)
			ring, err := circulate.Open(b.Context(), redistest.Connect(b, process), circulate.Options{Shards: 1})
			if err != nil {
				b.Fatal(err)
			}
			conn, err := process.Dial()
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			queue := func(account string, n int) {
				for range n {
					send := circulate.Send{ID: circulate.NewSendID(account), Account: account, Kind: "chat", Peer: "anna", Type: "text", Data: []byte(`{"text":"hello"}`)}
					if _, _, err := ring.Sends().Queue(b.Context(), send, send.ID, circulate.SendBounds{}); err != nil {
						b.Fatal(err)
					}
				}
			}
			spent := 0.0
			for i := 0; b.Loop(); i++ {
				account := fmt.Sprint("a", i)
				if _, err := ring.Register(b.Context(), 0, []circulate.Registration{{ID: account, Record: []byte(`{}`)}}); err != nil {
					b.Fatal(err)
				}
				queue(account, wait)
				if _, err := conn.Do("CONFIG", "RESETSTAT"); err != nil {
					b.Fatal(err)
				}
				queue(account, each)
				stats, err := redis.String(conn.Do("INFO", "commandstats"))
				if err != nil {
					b.Fatal(err)
				}
				if found := regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=(\d+)`).FindStringSubmatch(stats); found != nil {
					usec, _ := strconv.ParseFloat(found[1], 64)
					spent += usec
				}
			}
			b.ReportMetric(spent/float64(b.N*each), "µs/send")
		})
	}
}

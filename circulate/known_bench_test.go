package circulate_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// BenchmarkMemory measures how much time of Redis' a message takes, by its own measure, with and
// without memory: µs/message. Each iteration is a page of an account that knows as many messages as
// it may. With older, it has older marks as well.
func BenchmarkMemory(b *testing.B) {
	for _, page := range []int{1, 10, 100} {
		for name, remember := range map[string]circulate.Remember{"": {}, "id": {Messages: 1024, For: 48 * time.Hour}, "both": {Messages: 1024, For: 48 * time.Hour}} {
			for _, older := range []bool{false, true} {
				if name == "" && older {
					continue
				}
				b.Run(fmt.Sprintf("%d/remembers=%s/older=%v", page, name, older), func(b *testing.B) {
					benchmarkMemory(b, page, remember, name == "both", older)
				})
			}
		}
	}
}

func benchmarkMemory(b *testing.B, page int, remember circulate.Remember, content, older bool) {
	process := redistest.Start(b)
	ring, err := circulate.Open(b.Context(), redistest.Connect(b, process), circulate.Options{Shards: 1})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := ring.Register(b.Context(), 0, []circulate.Registration{{ID: "a", Record: []byte(`{}`)}}); err != nil {
		b.Fatal(err)
	}
	batch, err := ring.Claim(b.Context(), 0, alice, 1, 0)
	if err != nil || len(batch.Claims) != 1 {
		b.Fatal(err)
	}
	conn, err := process.Dial()
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	n := 0
	write := func(pages int) {
		for range pages {
			messages := make([]circulate.Message, page)
			for i := range messages {
				n++
				messages[i] = circulate.Message{ID: fmt.Sprint("message-", n), Type: "text", Time: batch.Now, Data: []byte(`{"text":"hello"}`)}
				if content {
					messages[i].Content = fmt.Sprint("content-", n)
				}
			}
			if err := ring.Progress(b.Context(), &batch.Claims[0], circulate.Page{Kind: "chat", Messages: messages, Remember: remember}); err != nil {
				b.Fatal(err)
			}
			if _, err := conn.Do("XTRIM", "{rounds:0}:messages", "MAXLEN", 1000); err != nil {
				b.Fatal(err)
			}
		}
	}
	write(max(1, 1200/page))
	if !older {
		if _, err := conn.Do("DEL", "{rounds:0}:known_before:a"); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := conn.Do("CONFIG", "RESETSTAT"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		write(1)
		if !older {
			b.StopTimer()
			if _, err := conn.Do("UNLINK", "{rounds:0}:known_before:a"); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
	stats, err := redis.String(conn.Do("INFO", "commandstats"))
	if err != nil {
		b.Fatal(err)
	}
	for _, command := range []string{"evalsha", "smismember", "sadd"} {
		found := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+),usec=(\d+)`).FindStringSubmatch(stats)
		if found == nil {
			continue
		}
		usec, _ := strconv.ParseFloat(found[2], 64)
		b.ReportMetric(usec/float64(b.N*page), command+"-µs/message")
	}
}

package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/limit"
)

// Two checks may start at once, and then one each minute. The third gets a time at which
// to come back, whichever replica asks.
func ExampleLimits_Acquire() {
	ctx := context.Background()
	server := connect.NewEmbedded()
	defer server.Close()
	ring, err := circulate.Open(ctx, server, circulate.Options{Shards: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	perMinute := limit.Limit{Name: "feed/example.com", Every: time.Minute, Burst: 2}
	answers, err := limit.Of(ring).Acquire(ctx, []limit.Asks{{
		Limit: perMinute, Asks: []limit.Ask{{CheckID: "1"}, {CheckID: "2"}, {CheckID: "3"}},
	}})
	if err := errors.Join(err, answers[0].Err); err != nil {
		fmt.Println(err)
		return
	}
	for i, at := range answers[0].At {
		if at.IsZero() {
			fmt.Println("check", i+1, "starts")
			continue
		}
		fmt.Println("check", i+1, "may come back in", at.Sub(answers[0].Now).Round(time.Second))
	}
	// Output:
	// check 1 starts
	// check 2 starts
	// check 3 may come back in 1m0s
}

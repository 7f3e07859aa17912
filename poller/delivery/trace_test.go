package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/span"
	"github.com/rounds-dev/rounds/testing/spantest"
)

// Each delivery of a message that is traced is a span of its trace, and the handler's calls are parts of
// that. Other messages have none.
func TestDeliveriesArePartsOfTheirMessagesTraces(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	inFakeTime(t, 1, func(w *world) {
		for i, traced := range []string{trace, "", strings.TrimSuffix(trace, "1") + "0", "nonsense", trace} {
			fields := []any{w.Key(0, "messages"), "*", "account", "a", "kind", "feed", "id", fmt.Sprint(i), "type", "text", "time", "", "data", "1"}
			if traced != "" {
				fields = append(fields, "trace", traced)
			}
			w.Do("XADD", fields...)
		}
		var handled []string
		r := &spantest.Recorder{}
		handle := delivery.Each(func(ctx context.Context, d delivery.Delivery) error {
			time.Sleep(time.Second)
			if d.Attempt == 1 && d.Message.ID == "0" {
				return errors.New("a text that no span has")
			}
			within := "nothing"
			if s := span.Of(d.Traced(ctx)); s != nil && s.Traceparent() == d.Trace && span.Valid(d.Trace) {
				within = "a span"
			}
			handled = append(handled, d.Message.ID+" in "+within)
			return nil
		})
		c := w.start(delivery.Consumer{Group: "crew", Handler: handle, Spans: r})
		time.Sleep(time.Minute)
		c.stop(t)
		if want := []string{"0 in a span", "1 in nothing", "2 in nothing", "3 in nothing", "4 in a span"}; !slices.Equal(handled, want) {
			t.Errorf("handled %q, want %q", handled, want)
		}
		var got []string
		for _, s := range r.Ended() {
			if s.Trace != trace[3:35] || s.Parent != trace[36:52] || s.Ends != 1 || s.Kind != span.Consumer || s.End.Sub(s.Start) < time.Second {
				t.Errorf("recorded %+v", s)
			}
			got = append(got, fmt.Sprint(s.Name, " ", s.Attributes[span.MessagingGroup], " ", s.Attributes[span.Attempt], " ", s.Attributes[span.Outcome], s.Class))
		}
		if want := []string{"process messages crew 1 failedfailed", "process messages crew 2 ok", "process messages crew 1 ok"}; !slices.Equal(got, want) {
			t.Errorf("recorded %q, want %q", got, want)
		}
	})
}

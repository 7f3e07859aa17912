package webhook

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/fetch"
)

var _ sink.Testable = (*Sink)(nil)

// Test sends a test event, once. See the package's doc.
func (s *Sink) Test(ctx context.Context, event delivery.Delivery) sink.Tested {
	failed, status := s.test(ctx, event)
	if failed == nil {
		return sink.Tested{Outcome: sink.Delivered, Status: status}
	}
	return sink.Tested{Outcome: sink.Outcome(failed.Outcome), Status: failed.Status, Why: failed.why()}
}

func (s *Sink) test(ctx context.Context, event delivery.Delivery) (failed *Error, status int) {
	signer, err := resolve(ctx, s.endpoint, s.options.Secrets)
	if err != nil {
		return s.failure(Unready, 0, err), 0
	}
	encoding := sink.Encoding{Namespace: s.options.Namespace, Format: s.endpoint.Format, Keyless: true}
	body, err := encoding.Encode(event, nil)
	if err != nil {
		return s.failure(Unusable, 0, fmt.Errorf("the test event: %w", err)), 0
	}
	header, err := signer.sign(sink.Key(s.options.Namespace, event), time.Now(), body, encoding.Header(event))
	if err != nil {
		return s.failure(Unready, 0, err), 0
	}
	answer, failed := s.ask(ctx, fetch.Call{Method: http.MethodPost, URL: s.endpoint.URL, Header: header, Body: body, NoBody: true, Confined: signer.open}, new(document.Attempt))
	if failed != nil {
		return failed, 0
	}
	return s.meaning(answer), answer.Status
}

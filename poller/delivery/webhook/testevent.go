package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// TestType is the type of test events.
const TestType = "endpoint.test"

// Test sends a test event with an id, once. It returns the status of the answer, 0 if there was none,
// how that ended, and what went wrong. Nothing else depends on the answer. See the package's doc.
func (s *Sink) Test(ctx context.Context, id string, now time.Time) (status int, outcome Outcome, why string) {
	failed, status := s.test(ctx, id, now)
	if failed == nil {
		return status, Delivered, ""
	}
	return failed.Status, failed.Outcome, failed.why()
}

func (s *Sink) test(ctx context.Context, id string, now time.Time) (failed *Error, status int) {
	signer, err := resolve(ctx, s.endpoint, s.options.Secrets)
	if err != nil {
		return s.failure(Unready, 0, err), 0
	}
	data, err := json.Marshal(map[string]string{"endpoint": s.endpoint.Name})
	if err != nil {
		return s.failure(Unusable, 0, fmt.Errorf("the test event: %w", err)), 0
	}
	d := delivery.Delivery{Found: circulate.Found{Event: true, Message: circulate.Message{ID: id, Type: TestType, Time: now, Data: data}}}
	encoding := sink.Encoding{Namespace: s.options.Namespace, Format: s.endpoint.Format, Keyless: true}
	body, err := encoding.Encode(d, nil)
	if err != nil {
		return s.failure(Unusable, 0, fmt.Errorf("the test event: %w", err)), 0
	}
	header, err := signer.sign(sink.Key(s.options.Namespace, d), time.Now(), body, encoding.Header(d))
	if err != nil {
		return s.failure(Unready, 0, err), 0
	}
	answer, failed := s.ask(ctx, fetch.Call{Method: http.MethodPost, URL: s.endpoint.URL, Header: header, Body: body, NoBody: true, Confined: signer.open}, new(document.Attempt))
	if failed != nil {
		return failed, 0
	}
	return s.meaning(answer), answer.Status
}

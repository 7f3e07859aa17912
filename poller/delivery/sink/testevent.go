package sink

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery"
)

// TestType is the type of test events.
const TestType = "endpoint.test"

// Testable is a Sink that takes test events.
type Testable interface {
	delivery.Sink
	// Test sends or stores a test event, once. Nothing else depends on how that ends, and what the sink
	// does for messages goes on undisturbed.
	Test(ctx context.Context, event delivery.Delivery) Tested
}

// Tested is how a test ended.
type Tested struct {
	Outcome Outcome
	Status  int    // of the answer; 0: there was none, or the endpoint's type has none
	Why     string // what went wrong, without a secret; empty: nothing
}

// TestEvent returns the test event with an id for an endpoint. It is an event of no account.
func TestEvent(endpoint, id string, now time.Time) delivery.Delivery {
	data, _ := json.Marshal(map[string]string{"endpoint": endpoint}) // texts can always be encoded
	return delivery.Delivery{Found: circulate.Found{Event: true, Message: circulate.Message{ID: id, Type: TestType, Time: now, Data: data}}}
}

// TestedBy returns how a test ended whose event was handled with an error, or nil.
func TestedBy(err error) Tested {
	done := Tested{Outcome: outcomeOf(err)}
	if done.Outcome == Delivered {
		return done
	}
	if later, ok := errors.AsType[*delivery.Later](err); ok && later.Err != nil {
		err = later.Err
	}
	done.Why = err.Error()
	return done
}

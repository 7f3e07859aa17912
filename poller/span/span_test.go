package span_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/span"
	"github.com/rounds-dev/rounds/testing/spantest"
)

func TestValid(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for text, want := range map[string]bool{
		good:                                  true,
		strings.TrimSuffix(good, "01") + "03": true,
		strings.TrimSuffix(good, "01") + "ff": true,
		strings.TrimSuffix(good, "01") + "00": false, // not recorded
		strings.TrimSuffix(good, "01") + "0e": false,
		"":                                    false,
		good + "-x":                           false,
		good[:54]:                             false,
		strings.ToUpper(good):                 false,
		strings.Replace(good, "-", "_", 1):    false,
		"01" + good[2:]:                       false,
		good[:3] + strings.Repeat("0", 32) + good[35:]:                 false,
		good[:36] + strings.Repeat("0", 16) + good[52:]:                false,
		good[:10] + "\n" + good[11:]:                                   false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333\u00e9-01": false,
	} {
		if span.Valid(text) != want {
			t.Errorf("%q: want %t", text, want)
		}
	}
}

func TestWith(t *testing.T) {
	if ctx := context.Background(); span.With(ctx, nil) != ctx || span.Of(ctx) != nil {
		t.Error("a context without a span has one")
	}
	s := new(spantest.Recorder).Begin(span.Internal, "x", time.Now(), "")
	if span.Of(span.With(t.Context(), s)) != s {
		t.Error("the span of a context is another one")
	}
}

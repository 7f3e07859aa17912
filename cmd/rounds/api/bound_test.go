package api

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// atShard calls do once, before a step of a shard.
type atShard struct {
	circulate.Server
	do atomic.Pointer[func(context.Context)]
}

func (s *atShard) Conn(ctx context.Context, key string) (redis.Conn, error) {
	if strings.HasPrefix(key, "{rounds:0}:") {
		if do := s.do.Swap(nil); do != nil {
			(*do)(ctx)
		}
	}
	return s.Server.Conn(ctx, key)
}

// A count for a bound caller that ends with its server says why the server ended.
func TestACountThatIsCutOffSaysWhy(t *testing.T) {
	for want, end := range map[string]func(*Server){
		"the number of shards is changing: try again": (*Server).Replaced,
		"the server is shutting down":                 (*Server).Close,
	} {
		server := &atShard{Server: redistest.Embedded(t)}
		f := newFixture(t, func(o *Options) {
			ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 1})
			if err != nil {
				t.Fatal(err)
			}
			o.Token = "token-of-at-least-16"
			o.Ring, o.Registry = ring, accounts.NewRegistry(ring, testKinds{})
		})
		f.ring = f.api.options.Ring
		bound := f.as(f.key(key.New{Name: "press", Role: access.Viewer, Labels: access.Labels{"team": "press"}}))
		for _, path := range []string{"/v1/stats", "/v1/problems"} {
			do := func(ctx context.Context) {
				end(f.api)
				<-ctx.Done()
			}
			server.do.Store(&do)
			if got := bound.errorReply("GET", path, "", 503); got.Detail != want {
				t.Errorf("%s: %q, want %q", path, got.Detail, want)
			}
		}
	}
}

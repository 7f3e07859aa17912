package circulate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestEndpointsAreDisabledUntilEnabled(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		ring, err := circulate.Open(ctx, server, circulate.Options{Namespace: "endpoints", Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := ring.Endpoints().Disabled(ctx, "crm"); ok || err != nil {
			t.Fatalf("a new one: %v, %v", ok, err)
		}
		first, err := ring.Endpoints().Disable(ctx, "crm", "answered 410 | Gone")
		if err != nil || first.Reason != "answered 410 | Gone" || time.Since(first.Since).Abs() > time.Minute {
			t.Fatalf("got %+v, %v", first, err)
		}
		again, err := ring.Endpoints().Disable(ctx, "crm", "another reason")
		if err != nil || again != first {
			t.Errorf("a second time: got %+v, %v", again, err)
		}
		long, err := ring.Endpoints().Disable(ctx, "archive", strings.Repeat("é", 1000))
		if err != nil || len(long.Reason) > 256 || !strings.HasPrefix(long.Reason, "éé") {
			t.Errorf("a long reason: %d bytes, %v", len(long.Reason), err)
		}
		all, err := ring.Endpoints().All(ctx)
		if err != nil || len(all) != 2 || all[0].Name != "archive" || all[1] != first {
			t.Errorf("all: %+v, %v", all, err)
		}
		for _, want := range []bool{true, false} {
			if was, err := ring.Endpoints().Enable(ctx, "crm"); err != nil || was != want {
				t.Errorf("enable: %v, %v, want %v", was, err, want)
			}
		}
		if _, ok, err := ring.Endpoints().Disabled(ctx, "crm"); ok || err != nil {
			t.Errorf("enabled: %v, %v", ok, err)
		}
		if _, err := ring.Endpoints().Disable(ctx, "", "no name"); err == nil || circulate.Unknown(err) {
			t.Errorf("no name: %v", err)
		}

		// An entry that somebody wrote by hand disables too.
		conn, err := server.Conn(ctx, "endpoints:webhooks")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Do("HSET", "endpoints:webhooks", "crm", "by hand"); err != nil {
			t.Fatal(err)
		}
		if d, ok, err := ring.Endpoints().Disabled(ctx, "crm"); !ok || err != nil || d.Reason != "by hand" || !d.Since.IsZero() {
			t.Errorf("by hand: %+v, %v, %v", d, ok, err)
		}
	})
}

package circulate_test

import (
	"testing"

	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/ringtest"
)

func TestRingOnAFullRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Connect(t, redistest.Start(t))
	ringtest.RunFull(t, server, func(reached bool) {
		t.Helper()
		limit := 0 // none
		if reached {
			limit = 1
		}
		conn, err := server.Conn(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Do("CONFIG", "SET", "maxmemory", limit); err != nil {
			t.Fatal(err)
		}
	})
}

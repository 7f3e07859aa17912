package connect_test

import (
	"context"
	"sync"
	"testing"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// A server may be closed while a goroutine asks for its first connection of a kind, such
// as the wait for messages of a process that ends, or of a node that leaves its cluster.
func TestCloseWhileAConnectionIsFirstLent(t *testing.T) {
	for range 100 {
		server := connect.NewEmbedded()
		var both sync.WaitGroup
		both.Go(func() {
			if conn, err := server.BlockingConn(context.Background(), ""); err == nil {
				_ = conn.Close()
			}
		})
		both.Go(func() { _ = server.Close() })
		both.Wait()
	}
}

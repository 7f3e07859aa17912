package connect_test

import (
	"context"
	"sync"
	"testing"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// A server may be closed while somebody asks for his first connection of a kind: the
// wait for messages of a process that ends, or of a node that leaves its cluster.
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

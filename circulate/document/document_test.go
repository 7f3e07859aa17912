package document_test

import (
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// open returns the documents of the namespace ns.
func open(t *testing.T, server redistest.Redis) document.Documents {
	t.Helper()
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Namespace: "ns", Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	return document.Of(ring)
}

// do runs a command as another client would.
func do(t *testing.T, server redistest.Redis, command, key string, args ...any) any {
	t.Helper()
	conn, err := server.Conn(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reply, err := conn.Do(command, append([]any{key}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

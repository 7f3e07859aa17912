package postgres

import (
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

func TestAdded(t *testing.T) {
	sinktest.Added{
		New: func(network sink.Network, source secrets.Source) sink.Addable {
			return Type{Namespace: sinktest.Namespace, Secrets: source, Network: network}
		},
		List: "servers", Fields: `,"database":"d","user":"u","password":{"secret":"S"}`,
	}.Run(t)
}

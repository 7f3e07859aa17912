package brokers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/kafka"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// reaching returns a client that may reach networks.
func reaching(t testing.TB, networks string) *fetch.Client {
	t.Helper()
	allowed, err := fetch.ParseNetworks(networks)
	if err != nil {
		t.Fatal(err)
	}
	client := fetch.New(fetch.Options{Networks: allowed})
	t.Cleanup(client.Close)
	return client
}

// added returns the sink of an endpoint that was added while the service runs.
func added(t testing.TB, of sink.Type, fields string) delivery.Sink {
	t.Helper()
	e, err := sink.Types{of}.ReadAdded(fmt.Appendf(nil, `{"name":"bus","type":%q,%s}`, of.Type(), fields), 1)
	if err != nil {
		t.Fatal(err)
	}
	to, err := e.Config.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := to.Close(); err != nil {
			t.Error(err)
		}
	})
	return to
}

// A broker names the others. Their addresses are judged as those that people type, and a test event is a
// record outside of any transaction.
func TestBrokersNameOthers(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(8, topic, positions), kfake.ListenFn(func(network, _ string) (net.Listener, error) {
		return net.Listen(network, "127.0.0.1:0")
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	seeds := cluster.ListenAddrs()
	accounts := make([]string, 32)
	for i := range accounts {
		accounts[i] = fmt.Sprint("account-", i)
	}
	brokers, _ := json.Marshal(seeds[:1])
	fields := `"brokers":` + string(brokers) + `,"topic":"` + topic + `"`
	to := added(t, kafka.Type{Namespace: sinktest.Namespace, Network: reaching(t, seeds[0])}, fields)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	stored, refused := 0, 0
	for _, err := range to.Handle(ctx, sinktest.Messages(1, accounts...)) {
		var later *delivery.Later
		switch {
		case err == nil:
			stored++
		case errors.As(err, &later) && strings.Contains(err.Error(), "refused address: 127.0.0.1 is not among those that may be reached; add "+seeds[1]+" to ROUNDS_ALLOW_NETWORKS"):
			refused++
		default:
			t.Error(err)
		}
	}
	if refused == 0 {
		t.Errorf("%d records are stored, and none was for the other broker", stored)
	}
	for _, more := range []string{"", withPositions} {
		all := added(t, kafka.Type{Namespace: sinktest.Namespace, Network: reaching(t, strings.Join(seeds, ","))}, fields+more)
		if done := all.(sink.Testable).Test(t.Context(), sink.TestEvent("bus", "id", time.Now())); done.Outcome != sink.Delivered || done.Why != "" {
			t.Errorf("test: %+v", done)
		}
		for _, err := range all.Handle(t.Context(), sinktest.Messages(1, accounts...)) {
			if err != nil {
				t.Error(err)
			}
		}
	}
}

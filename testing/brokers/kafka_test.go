package brokers

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/kafka"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

const (
	topic         = "rounds-messages"
	positions     = "rounds-positions"
	withPositions = `,"positions":"` + positions + `"`
)

// cluster is a topic of Kafka for the suite.
type cluster struct {
	network
	*kfake.Cluster
	extra string // fields of the endpoint
	last  *wire
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Apart(m, "TestKafka"))
}

func newCluster(t testing.TB, options ...kfake.Opt) *cluster {
	c := &cluster{}
	var err error
	c.Cluster, err = kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2), kfake.SeedTopics(3, topic, positions), kfake.ListenFn(c.listen)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.Control(func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if slices.Contains(changing, kmsg.Key(r.Key())) && c.last.request() {
			return nil, errCut, true
		}
		return nil, nil, false
	})
	return c
}

// changing are the requests that change something at the brokers. A process dies before or behind one.
var changing = []kmsg.Key{kmsg.Produce, kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.EndTxn}

// open returns the sink of an endpoint.
func open(t testing.TB, of sink.Type, fields string) delivery.Sink {
	t.Helper()
	all, err := sink.Types{of}.Read(strings.NewReader(`{"endpoints":[{"name":"bus","type":"` + of.Type() + `",` + fields + `}]}`))
	if err != nil {
		t.Fatal(err)
	}
	to, err := all[0].Config.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() }) // of those that died
	return to
}

func (c *cluster) Open(t testing.TB) delivery.Sink { return c.open(t, `,"topic":"`+topic+`"`) }

func (c *cluster) open(t testing.TB, fields string) delivery.Sink {
	c.last = &wire{by: c.dial, steps: -1, whole: true, open: make(map[*cable]bool)}
	brokers, _ := json.Marshal(c.ListenAddrs())
	return open(t, kafka.Type{
		Namespace: sinktest.Namespace, Log: faketime.Log(t), Dial: c.last.dial,
		Secrets: secrets.Source{Lookup: func(name string) (string, bool) { return "hunter2", name == "ROUNDS_SERVICE_SECRET_KAFKA" }},
	}, `"brokers":`+string(brokers)+fields+c.extra)
}

func (c *cluster) KillAt(n int) {
	c.last.mu.Lock()
	defer c.last.mu.Unlock()
	c.last.steps = n
}

func (c *cluster) Died() bool {
	c.last.mu.Lock()
	defer c.last.mu.Unlock()
	return c.last.dead
}

func (c *cluster) SetAway(away bool) { c.last.setAway(away) }

// client returns a stranger's client.
func (c *cluster) client(t testing.TB, options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.Dialer(c.dial)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// records reads a topic to its end.
func (c *cluster) records(t testing.TB, of string) (all []*kgo.Record) {
	ctx := context.WithoutCancel(t.Context())
	reading := c.client(t, kgo.ConsumeTopics(of), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer reading.Close()
	ends, err := kadm.NewClient(reading).ListCommittedOffsets(ctx, of)
	if err != nil || ends.Error() != nil {
		t.Fatal(err, ends.Error())
	}
	at := make(map[int32]int64)
	for {
		if !slices.ContainsFunc(ends.Offsets().Sorted(), func(o kadm.Offset) bool { return at[o.Partition] < o.At }) {
			return all
		}
		fetches := reading.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				all = append(all, r)
			}
		})
	}
}

func (c *cluster) Stored(t testing.TB) (all []sinktest.Stored) {
	for _, r := range c.records(t, topic) {
		m := stored(t, r.Value)
		if string(r.Key) != m.Account || len(r.Headers) != 2 || string(r.Headers[0].Value) != m.Key || r.Headers[1].Key != "content-type" {
			t.Errorf("a record has the key %q and the headers %q", r.Key, r.Headers)
		}
		all = append(all, m)
	}
	return all
}

// stored reads a payload as a stranger does.
func stored(t testing.TB, value []byte) sinktest.Stored {
	var m struct {
		ID   string
		Data struct {
			Account, ID string
			Data        json.RawMessage
		}
	}
	if err := json.Unmarshal(value, &m); err != nil {
		t.Errorf("stored is %q: %v", value, err)
	}
	return sinktest.Stored{Key: m.ID, Account: m.Data.Account, ID: m.Data.ID, Data: string(m.Data.Data)}
}

// TestKafka runs the suite. Only a kill may double a record.
func TestKafka(t *testing.T) {
	sinktest.Run(t, sinktest.Suite{New: func(t *testing.T) sinktest.Place { return newCluster(t) }, Doubles: true, Fake: true, TooLarge: 1 << 20})
}

// again hands messages over until all are stored, and returns how often.
func again(t *testing.T, to delivery.Sink, batch []delivery.Delivery, between func()) int {
	t.Helper()
	for tries := range 20 {
		var left []delivery.Delivery
		for i, err := range to.Handle(t.Context(), batch) {
			var later *delivery.Later
			if err != nil && !errors.As(err, &later) && !errors.Is(err, delivery.ErrHeld) {
				t.Fatal(err)
			}
			if err != nil {
				left = append(left, batch[i])
			}
		}
		if batch = left; len(batch) == 0 {
			return tries + 1
		}
		between()
	}
	t.Fatalf("%d messages are not stored after 20 tries", len(batch))
	return 0
}

// expect expects each message to be stored once, those of each account in order.
func (c *cluster) expect(t *testing.T, want []delivery.Delivery) {
	t.Helper()
	got := make(map[string][]string)
	for _, m := range c.Stored(t) {
		got[m.Account] = append(got[m.Account], m.Key)
	}
	for _, d := range want {
		keys := got[d.Account]
		if len(keys) == 0 || keys[0] != sink.Key(sinktest.Namespace, d) {
			t.Fatalf("of %s the next stored is %q", d.Message.ID, keys)
		}
		got[d.Account] = keys[1:]
	}
	for account, keys := range got {
		if len(keys) > 0 {
			t.Errorf("of %s %d are stored besides", account, len(keys))
		}
	}
}

// A process that lives makes no second record, wherever the network breaks for a minute, and whatever answer is lost.
func TestKafkaDoublesNothingWhileItLives(t *testing.T) {
	for name, extra := range map[string]string{"idempotent": "", "transactions": withPositions} {
		t.Run(name, func(t *testing.T) { doublesNothing(t, extra) })
	}
}

func doublesNothing(t *testing.T, extra string) {
	cut := 0
	for n := range 200 {
		whole := false
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			c.extra = extra
			to := c.Open(t)
			c.last.frail, c.last.steps = true, n
			batch := sinktest.Messages(6, "a", "b", "c")
			tries := again(t, to, batch, func() {
				c.SetAway(true)
				time.Sleep(time.Minute)
				c.SetAway(false)
			})
			if whole = c.last.steps >= 0; tries > 1 {
				cut++
			}
			if err := to.Close(); err != nil {
				t.Error(err)
			}
			c.expect(t, batch)
		})
		if t.Failed() {
			t.Fatalf("the network broke at step %d", n)
		}
		if whole {
			if cut < 4 {
				t.Errorf("only %d times a message had to wait", cut)
			}
			return
		}
	}
	t.Error("there are too many steps")
}

// A process that has lost its shard is refused, and what its successor has stored is not stored again.
func TestKafkaRefusesWhoLostTheShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.extra = withPositions
		all := sinktest.Messages(4, "a", "b")
		old, next := c.Open(t), c.Open(t)
		again(t, old, all[:2], func() {})
		again(t, next, all[:6], func() {})
		if tries := again(t, old, all[2:], func() {}); tries < 2 {
			t.Error("who lost the shard writes on")
		}
		other := sinktest.Messages(1, "c") // of another shard
		other[0].Shard = 1
		if tries := again(t, next, other, func() {}); tries > 1 {
			t.Error("a shard refuses another")
		}
		for _, s := range []delivery.Sink{old, next} {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		c.expect(t, append(all, other...))
	})
}

// Partitions move from broker to broker while messages come, and a broker goes.
func TestKafkaPartitionsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		to := c.Open(t)
		all := sinktest.Messages(40, "a", "b", "c")
		n := 0
		for part := range slices.Chunk(all, 12) {
			for p := range int32(3) {
				if err := c.MoveTopicPartition(topic, p, int32(n%2)); err != nil {
					t.Fatal(err)
				}
			}
			n++
			again(t, to, part, func() { time.Sleep(time.Second) })
		}
		if err := c.RemoveNode(1); err != nil {
			t.Fatal(err)
		}
		last := sinktest.Messages(41, "a", "b", "c")[120:]
		again(t, to, last, func() { time.Sleep(time.Second) })
		if err := to.Close(); err != nil {
			t.Error(err)
		}
		c.expect(t, append(all, last...))
	})
}

// A process signs in over TLS, and says in plain words why it is refused.
func TestKafkaSignsIn(t *testing.T) {
	server, ca := certificate(t)
	for _, x := range []struct{ user, fields, want string }{
		{"rounds", `,"topic":"` + topic + `"`, ""},
		{"rounds", `,"topic":"none"`, "UNKNOWN_TOPIC_OR_PARTITION (3): create the topic"},
		{"somebody", `,"topic":"` + topic + `"`, "the user or the password is wrong"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "rounds", "hunter2"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{server}}))
			c.extra = `,"tls":true,"ca_file":"` + ca + `","sasl":"SCRAM-SHA-512","user":"` + x.user + `","password":{"secret":"KAFKA"}`
			if x.user != "rounds" { // kfake only hangs up
				c.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
					c.KeepControl()
					answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
					answer.ErrorCode = kerr.SaslAuthenticationFailed.Code
					return answer, nil, true
				})
			}
			to := c.open(t, x.fields)
			if err := to.(sink.Tester).Try(t.Context()); (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("a try ends with %v, want %q", err, x.want)
			}
			err := to.Prepare(t.Context())
			var later *delivery.Later
			switch {
			case x.want == "" && err != nil:
				t.Error(err)
			case x.want == "":
				again(t, to, sinktest.Messages(3, "a"), func() {})
			case !errors.As(err, &later) || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "127.0.0.1"):
				t.Errorf("got %v, want %s", err, x.want)
			}
			if err := to.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// certificate returns a certificate for 127.0.0.1, and the file of the one that has signed it.
func certificate(t *testing.T) (tls.Certificate, string) {
	both, alone := sinktest.Certificate(t)
	pair, err := tls.X509KeyPair([]byte(both), []byte(both))
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := errors.Join(err, os.WriteFile(path, []byte(alone), 0o600)); err != nil {
		t.Fatal(err)
	}
	return pair, path
}

package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/rounds-dev/rounds/poller/delivery/internal/broker"
)

const (
	// unsentFor is how long a record that was certainly not written is tried.
	unsentFor = 30 * time.Second
	// answerMost is more than the bytes of an answer without batches.
	answerMost = 4 << 20
	// recordsMost is more than ever wait: the bytes are what is bounded; see Sink.room.
	recordsMost = 1 << 20
)

// connect makes a client, which connects when it is used.
func (c *config) connect(ctx context.Context, more ...kgo.Opt) (*kgo.Client, error) {
	config, err := c.Config(ctx)
	if err != nil {
		return nil, err
	}
	options := append([]kgo.Opt{
		kgo.SeedBrokers(c.Addresses...), kgo.ClientID("rounds"), kgo.DisableClientMetrics(),
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.dial(ctx, config, network, address)
		}),
		// Of what brokers send, batches of positions are the largest: they were written with the same bound.
		kgo.BrokerMaxReadBytes(2*c.maxBytes + answerMost), kgo.FetchMaxBytes(c.maxBytes), kgo.FetchMaxPartitionBytes(c.maxBytes),
		kgo.RequestTimeoutOverhead(broker.Answer), kgo.RetryTimeout(broker.Answer), kgo.ProduceRequestTimeout(broker.Answer),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchMaxBytes(c.maxBytes), kgo.MaxBufferedRecords(recordsMost), kgo.RecordDeliveryTimeout(unsentFor),
	}, more...)
	if c.mechanism != "" {
		if _, err := c.secret(ctx); err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(c.signIn()))
	}
	return kgo.NewClient(options...)
}

// dial connects to a broker, and speaks TLS if config is not nil.
func (c *config) dial(ctx context.Context, config *tls.Config, network, address string) (net.Conn, error) {
	conn, err := c.Servers.Dial(ctx, network, address)
	if err != nil || config == nil {
		return conn, err
	}
	own := config.Clone()
	if own.ServerName, _, err = net.SplitHostPort(address); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, broker.DialWithin)
	defer cancel()
	secured := tls.Client(conn, own)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secured, nil
}

func (c *config) secret(ctx context.Context) (string, error) {
	return c.Get(ctx, c.password, c.mechanism != mechanismPlain) // SCRAM proves it
}

// signIn returns how connections sign in. The password is read anew for each.
func (c *config) signIn() sasl.Mechanism {
	proof := func(ctx context.Context) (scram.Auth, error) {
		password, err := c.secret(ctx)
		return scram.Auth{User: c.user, Pass: password}, err
	}
	switch c.mechanism {
	case mechanismScram256:
		return scram.Sha256(proof)
	case mechanismScram512:
		return scram.Sha512(proof)
	}
	return plain.Plain(func(ctx context.Context) (plain.Auth, error) {
		password, err := c.secret(ctx)
		return plain.Auth{User: c.user, Pass: password}, err
	})
}

// look returns an error if the topic cannot be seen.
func (c *config) look(ctx context.Context, client *kgo.Client, topic string) error {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(topic)}}
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, t := range answer.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

// Try connects, signs in and looks for the topic.
func (c *config) Try(ctx context.Context) error {
	var trouble trouble
	client, err := c.connect(ctx, kgo.WithHooks(&trouble), kgo.RequestRetries(len(c.Addresses))) // each is asked
	if err != nil {
		return broker.Reason(err)
	}
	defer client.Close()
	for _, topic := range c.topics() {
		if err := c.look(ctx, client, topic); err != nil {
			return trouble.reason(err)
		}
	}
	return nil
}

// topics returns the topics that must be there.
func (c *config) topics() []string {
	if c.positions == "" {
		return []string{c.topic}
	}
	return []string{c.topic, c.positions}
}

// reason returns what went wrong, without the address, the user and the values.
func reason(err error) error {
	var answered *kerr.Error
	var plain broker.Plain
	switch {
	case errors.As(err, &plain):
		return plain
	case errors.As(err, &answered):
		return broker.Plain(fmt.Sprintf("the broker answers %s (%d)%s", answered.Message, answered.Code, cure(answered)))
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries), errors.Is(err, kgo.ErrClientClosed):
		return broker.Plain("the brokers did not take the record in time")
	}
	return broker.Reason(err)
}

// cure says what helps against the commonest errors of https://kafka.apache.org/protocol#protocol_error_codes.
func cure(answered *kerr.Error) string {
	switch answered.Code {
	case kerr.UnknownTopicOrPartition.Code:
		return ": create the topic, or allow the user to see it"
	case kerr.TopicAuthorizationFailed.Code:
		return ": allow the user to DESCRIBE and WRITE the topic"
	case kerr.TransactionalIDAuthorizationFailed.Code:
		return ": allow the user to WRITE transactional ids that begin with rounds."
	case kerr.SaslAuthenticationFailed.Code:
		return ": the user or the password is wrong"
	case kerr.UnsupportedSaslMechanism.Code, kerr.IllegalSaslState.Code:
		return ": the brokers do not offer this sasl mechanism"
	case kerr.MessageTooLarge.Code, kerr.RecordListTooLarge.Code:
		return ": set max_bytes of the endpoint to max.message.bytes of the topic"
	case kerr.NotEnoughReplicas.Code, kerr.NotEnoughReplicasAfterAppend.Code:
		return ": fewer replicas are in sync than min.insync.replicas"
	}
	return ""
}

// isLate reports whether an error only says that there was no answer.
func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, kgo.ErrRecordRetries)
}

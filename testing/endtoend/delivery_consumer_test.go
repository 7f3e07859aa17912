package endtoend

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/processes"
)

// consumerVariable holds the role that a process of this program plays instead of running
// tests. It is set in the process's environment.
const consumerVariable = "ROUNDS_ENDTOEND_CONSUMER"

// atOnce is how many tests run at once. They wait for other processes most of the time.
const atOnce = 8

// TestMain has most tests run without the race detector, as what they test are other processes.
// It watches the consumers.
func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(consumerVariable); ok {
		if err := consumeAs(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := processes.Apart(m,
		"TestEachMessageIsAppliedOnce", "TestKilledProcessGoesOn", "TestKilledProcessKeepsWhatItAcknowledged", "TestHostileAnswersStopNobody",
		"TestIdleEndpointsHoldNothingUp", "TestKilledProcessesLoseNothing", "TestNoSecretAppears", "TestTheWayAroundLosesNothing",
		"TestReadmeCommands", "TestReadmeProgram", "TestKilledPollersDoubleNoSend").Run()
	removeBinary()
	os.Exit(code)
}

// role is what a consumer process does.
type role struct {
	Redis    string // its URL
	Effect   string // one of the effects
	Target   string // a data source name, or the webhook endpoints' configuration
	Dies     point  // where it kills itself; "": nowhere
	Nth      int32  // at which time of getting there
	Freezes  bool   // it only stops itself there, as SIGSTOP does, until it is thawed
	LoseEach int32  // of how many steps with Redis one request is lost and one reply is; 0: none
}

// The effects, each of which has a consumer group of its name.
const (
	effectRedis      = "redis"            // in the step that acknowledges
	effectRemembered = "redis-remembered" // in the same step, with a set of what was applied
	effectSQLite     = "sqlite"
	effectPostgres   = "postgres"
	effectWebhook    = "webhook.receiver" // webhook.Endpoint.Group of the name below
	endpointName     = "receiver"
)

// consumeAs runs a consumer process until SIGTERM, or until it kills itself.
func consumeAs(text string) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	single, err := connect.Open(r.Redis, connect.Options{})
	if err != nil {
		return err
	}
	defer single.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	f := &fate{role: r}
	ring, err := openRing(ctx, &faulty{Server: single, fate: f}, log)
	if err != nil {
		return err
	}
	handler, release, err := r.handler(ctx, ring, f)
	if err != nil {
		return err
	}
	defer release()
	return delivery.Consumer{
		Ring: ring, Group: r.Effect, Handler: handler, Log: log, Batch: 16, TakeOver: time.Second,
		Backoff:       func(int) time.Duration { return 100 * time.Millisecond },
		MaxDeliveries: 1000, // what kills its consumers here is not the message's fault
	}.Run(ctx)
}

// openRing tries until Redis answers.
func openRing(ctx context.Context, server circulate.Server, log *slog.Logger) (*circulate.Ring, error) {
	for {
		ring, err := circulate.Open(ctx, server, circulate.Options{Log: log})
		if err == nil || !circulate.Unavailable(err) {
			return ring, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// countEffect is the effect in Redis that the oracle reads: how often each message was
// applied, and in which order.
var countEffect = delivery.NewEffect("count", `
	redis.call('HINCRBY', KEYS[1], message.account .. '/' .. message.id, 1)
	redis.call('RPUSH', KEYS[2], message.account .. '/' .. message.id)`)

func (r *role) handler(ctx context.Context, ring *circulate.Ring, f *fate) (delivery.Handler, func(), error) {
	switch r.Effect {
	case effectRedis, effectRemembered:
		effect := &delivery.Effect{Ring: ring, Effect: countEffect, Keys: func(tag string) []string { return oracleKeys(tag, r.Effect) }}
		if r.Effect == effectRemembered {
			effect.Remember = time.Hour
		}
		return effect, func() {}, nil
	case effectSQLite:
		return r.inSQL(ctx, "sqlite", sqlonce.SQLite, f)
	case effectPostgres:
		return r.inSQL(ctx, "pgx", sqlonce.PostgreSQL, f)
	case effectWebhook:
		return r.toWebhook(ring, f)
	}
	return nil, nil, fmt.Errorf("effect %q is not known", r.Effect)
}

func (r *role) inSQL(ctx context.Context, driver string, dialect sqlonce.Dialect, f *fate) (delivery.Handler, func(), error) {
	db, err := sql.Open(driver, r.Target)
	if err != nil {
		return nil, nil, err
	}
	insert := func(ctx context.Context, tx *sql.Tx, d delivery.Delivery) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (account, message) VALUES ($1, $2)", d.Account, d.Message.ID)
		f.reach(inTransaction)
		return err
	}
	handler, err := sqlonce.New(db, dialect, insert, sqlonce.Options{})
	if err == nil {
		err = handler.Prepare(ctx)
	}
	return &fatal{handler, f}, func() { _ = db.Close() }, err
}

func (r *role) toWebhook(ring *circulate.Ring, f *fate) (delivery.Handler, func(), error) {
	client := fetch.New(fetch.Options{AllowPrivate: true}) // the receiver is on loopback
	endpoints, err := webhook.Read(strings.NewReader(r.Target), client)
	if err != nil {
		return nil, nil, err
	}
	sink, err := webhook.New(endpoints[0], webhook.Options{
		Client: client, Namespace: ring.Namespace(),
		Secrets: secrets.Source{Lookup: func(name string) (string, bool) { return signingKey, name == secrets.EnvPrefix+"KEY" }},
	})
	return &fatal{sink, f}, client.Close, err
}

// fatal is a handler whose process may die after it has done its part.
type fatal struct {
	delivery.Handler
	fate *fate
}

// Handle passes the batch on.
func (h *fatal) Handle(ctx context.Context, batch []delivery.Delivery) []error {
	h.fate.reach(beforeHandling)
	errs := h.Handler.Handle(ctx, batch)
	h.fate.reach(afterHandling)
	return errs
}

package delivery_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"
)

// Tests of many deaths, groups, shards or messages run without the race detector, which sees the same steps in
// the others.
func TestMain(m *testing.M) {
	faketime.Lean()
	goleak.VerifyTestMain(processes.Apart(m, "TestEventsAreAppliedOnceWhereverConsumersDie", "TestEffectsAreAppliedOnceWhereverConsumersDie", "TestManyIdleGroupsCostLittle", "TestHangingHandlersAreNoHindranceToPeers",
		"TestOneProbeTellsWhetherATargetIsBack", "TestATakeOverStopsWhereTheTargetIsAway", "TestAHandlerThatFailsIsTold", "TestGroupMadeIsOneLine",
		"TestIdleConsumersAreQuickAndAskLittle", "TestWhatIsHeldIsBounded", "TestEventsAreAppliedOnceWhereverConsumersDie",
		"TestAnAccountThatIsPutOffIsToldUntilItIsHandled", "TestAMessageThatHangsEverybodyEndsAsADeadLetter", "TestAFailureOfItsOwnEndsAnOutage",
		"TestAHandlerThatFailsAnewIsToldAnew", "TestRewoundGroupsApplyOnceWhatIsRemembered"))
}

// world is a ring with messages in it.
type world struct {
	*faketime.World
	shards  int
	written []string       // ACCOUNT/ID in order
	count   map[string]int // account -> how many
	names   *scriptNames
}

func newWorld(w *faketime.World) *world {
	return &world{World: w, shards: w.Ring.Shards(), count: make(map[string]int), names: &scriptNames{of: make(map[string]string)}}
}

func inFakeTime(t *testing.T, shards int, test func(w *world)) {
	t.Helper()
	faketime.Run(t, shards, func(w *faketime.World) { test(newWorld(w)) })
}

// add writes n messages of each account, round by round. Their numbers continue those of the
// account's last add.
func (w *world) add(n int, accounts ...string) {
	w.Helper()
	for range n {
		for _, account := range accounts {
			w.write(fmt.Sprintf("%s/%d", account, w.count[account]))
			w.count[account]++
		}
	}
}

func (w *world) write(name string) {
	w.Helper()
	account, id, _ := strings.Cut(name, "/")
	w.Do("XADD", w.Key(w.Ring.ShardOf(account), "messages"), "*", "account", account, "kind", "feed", "id", id, "type", "text", "time", "", "data", `{"n":1}`)
	w.written = append(w.written, name)
}

// consumer is a running consumer.
type consumer struct {
	*process
	cancel context.CancelFunc
	done   chan error
}

// start runs a consumer with connections of its own until it is stopped.
func (w *world) start(c delivery.Consumer) *consumer {
	w.Helper()
	own, server := &process{names: w.names}, &faketime.Faulty{Server: w.Redis}
	server.Set(own.fate)
	ring := w.Open(server)
	c.Ring = ring
	if c.Log == nil {
		c.Log = faketime.Log(w)
	}
	if c.Group == "" {
		c.Group = "g"
	}
	if effect, ok := c.Handler.(*delivery.Effect); ok {
		effect := *effect
		effect.Ring = ring
		c.Handler = &effect
	}
	ctx, cancel := context.WithCancel(context.Background())
	running := &consumer{process: own, cancel: cancel, done: make(chan error, 1)}
	go func() { running.done <- c.Run(ctx) }()
	return running
}

// stop ends a consumer as a signal does.
func (c *consumer) stop(t testing.TB) {
	t.Helper()
	c.cancel()
	if err := <-c.done; err != nil {
		t.Error(err)
	}
}

// ended waits until a consumer that died has ended, with any error.
func (c *consumer) ended(t testing.TB) {
	t.Helper()
	if err := <-c.done; err != nil {
		t.Logf("the consumer that died: %v", err)
	}
}

// process is a process that may die. From then on nothing that it sends arrives at Redis.
type process struct {
	mu    sync.Mutex
	dead  bool
	names *scriptNames
	die   func(step string) faketime.Fate
	fails map[string]int // step -> how often it is not done
	calls map[string]int

	freezeAt       string
	freeze, frozen <-chan struct{}
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// at lets die decide at which step the process dies. A step is the name of a script or a
// command.
func (p *process) at(die func(step string) faketime.Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.die = die
}

// fate returns what becomes of a step of the process.
func (p *process) fate(s faketime.Step) faketime.Fate {
	switch s.At {
	case faketime.Call, faketime.Send:
		return p.verdict(p.step(s.Command, s.Args))
	case faketime.Connect, faketime.Called:
		if p.isDead() {
			return faketime.NotDone
		}
	}
	return faketime.Healthy
}

var scriptName = regexp.MustCompile(`(?m)^-- (\w+): `)

// scriptNames knows the names of the scripts that any consumer has sent in full before.
type scriptNames struct {
	mu sync.Mutex
	of map[string]string // SHA-1 -> name
}

func (n *scriptNames) name(command string, args []any) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch command {
	case "EVAL":
		text := args[0].(string)
		all := scriptName.FindAllStringSubmatch(text, -1)
		sum := sha1.Sum([]byte(text))
		name := all[len(all)-1][1]
		n.of[hex.EncodeToString(sum[:])] = name
		return name
	case "EVALSHA":
		return n.of[args[0].(string)]
	}
	return command
}

// step returns the name of a command's step, and counts it.
func (p *process) step(command string, args []any) string {
	name := p.names.name(command, args)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = make(map[string]int)
	}
	p.calls[name]++
	return name
}

func (p *process) verdict(step string) faketime.Fate {
	d, frozen := p.decide(step)
	if frozen != nil {
		<-frozen
	}
	return d
}

func (p *process) decide(step string) (faketime.Fate, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return faketime.NotDone, nil
	}
	if p.fails[step] > 0 {
		p.fails[step]--
		return faketime.NotDone, p.frozen
	}
	if p.freeze != nil && step == p.freezeAt {
		p.frozen = p.freeze
	}
	if p.die == nil {
		return faketime.Healthy, p.frozen
	}
	d := p.die(step)
	p.dead = d != faketime.Healthy
	return d, p.frozen
}

// freezes stops the process when it is about to do a step, until thawed is closed.
func (p *process) freezes(step string, thawed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freezeAt, p.freeze = step, thawed
}

// commands returns how many commands the consumer has sent.
func (p *process) commands() (sum int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.calls {
		sum += n
	}
	return sum
}

// journal is a Handler that remembers its deliveries.
type journal struct {
	mu     sync.Mutex
	lines  []string // ACCOUNT/ID#ATTEMPT
	times  []time.Time
	answer func(d delivery.Delivery) error
}

func (j *journal) handle(_ context.Context, d delivery.Delivery) error {
	j.mu.Lock()
	j.lines = append(j.lines, fmt.Sprintf("%s/%s#%d", d.Account, d.Message.ID, d.Attempt))
	j.times = append(j.times, time.Now())
	answer := j.answer
	j.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(d)
}

func (j *journal) handler() delivery.Handler { return delivery.Each(j.handle) }

// all returns the deliveries so far, and the time of the last one.
func (j *journal) all() (lines []string, last time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.times); n > 0 {
		last = j.times[n-1]
	}
	return append(lines, j.lines...), last
}

func (j *journal) total() int {
	lines, _ := j.all()
	return len(lines)
}

// answers replaces the journal's answer from now on.
func (j *journal) answers(answer func(d delivery.Delivery) error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.answer = answer
}

// of returns the deliveries of an account, in order.
func (j *journal) of(account string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var got []string
	for _, line := range j.lines {
		if strings.HasPrefix(line, account+"/") {
			got = append(got, strings.TrimPrefix(line, account+"/"))
		}
	}
	return got
}

// count returns how often the consumer did a step.
func (p *process) count(step string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[step]
}

// fail makes a step fail the next few times.
func (p *process) fail(step string, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails == nil {
		p.fails = make(map[string]int)
	}
	p.fails[step] = times
}

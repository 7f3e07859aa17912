package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const (
	namespace = "rounds"
	shards    = 16

	deadAfter   = 2 * time.Second
	checkTime   = 3 * time.Second
	longTimeout = 6 * time.Second
	graceTime   = time.Second

	apiConnections = 400

	roleAPI     = "api"
	rolePoller  = "poller"
	roleMonitor = "monitor"
)

// settings are the settings of all processes: short times, so that recovery is quick.
func settings() []string {
	return []string{
		"ROUNDS_NAMESPACE=" + namespace, fmt.Sprint("ROUNDS_SHARDS=", shards), "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true",
		"ROUNDS_HEARTBEAT_INTERVAL=500ms", "ROUNDS_SWEEP_INTERVAL=500ms",
		fmt.Sprint("ROUNDS_DEAD_AFTER=", deadAfter), fmt.Sprint("ROUNDS_CHECK_TIMEOUT=", checkTime),
		fmt.Sprint("ROUNDS_LONG_TIMEOUT=", longTimeout), fmt.Sprint("ROUNDS_GRACE_PERIOD=", graceTime),
		"ROUNDS_AUDIT_INTERVAL=2s", fmt.Sprint("ROUNDS_API_CONNECTIONS=", apiConnections),
		"ROUNDS_MESSAGES_MEMORY=1000000000", // nothing is trimmed: at the end all messages are counted
	}
}

// world is everything that runs.
type world struct {
	binary    string
	redisPath string
	store     store
	redis     *redistest.Server    // onServer only, like the proxies
	proxies   *proxies             // nil elsewhere
	sentinels *redistest.Sentinels // onSentinel only
	cluster   *redistest.Cluster   // onCluster only
	third     *third
	clients   *clients
	sends     *sends   // nil: the binary cannot send
	base      []string // the accounts that are there from the start to the end
	usual     map[string]usual
	ailing    ailing
	log       io.Writer

	mu      sync.Mutex
	members []*member
	started map[string][]*instance // by role, the dead included
}

// member is a place for a process, which may be killed and started again.
type member struct {
	name, role string
	addr       string // where it serves HTTP
	process    *instance
}

// instance is one process of a member.
type instance struct {
	*processes.Process
	id string
}

func newWorld(on topology, dir, binary, redisPath string, log io.Writer) (*world, error) {
	w := &world{binary: binary, redisPath: redisPath, log: log, started: make(map[string][]*instance),
		usual: make(map[string]usual), ailing: ailing{since: make(map[string]ailment)}}
	err := w.launch(on, dir)
	if err == nil {
		w.third, err = newThird(3)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	for _, name := range []string{"api-0", "poller-0", "poller-1", "poller-2", "monitor-0", "monitor-1"} {
		if err := w.start(name); err != nil {
			w.close()
			return nil, err
		}
	}
	w.clients = newClients("http://"+w.member("api-0").addr, w.third)
	if canSend(binary) {
		w.sends = newSends(w.clients.url)
	}
	return w, nil
}

// start starts a member's process, for a new member or one whose process is gone.
func (w *world) start(name string) error {
	role, _, _ := strings.Cut(name, "-")
	m := w.member(name)
	if m == nil {
		addr, err := ports.Address()
		if err != nil {
			return err
		}
		m = &member{name: name, role: role, addr: addr}
	}
	redisURL, err := w.store.url(name)
	if err != nil {
		return err
	}
	variable := "ROUNDS_OPS_ADDR="
	if role == roleAPI {
		variable = "ROUNDS_API_ADDR="
	}
	w.mu.Lock()
	id := fmt.Sprintf("%s#%d", name, len(w.started[role]))
	w.mu.Unlock()
	p, err := processes.Start(name, w.binary, append(settings(), "ROUNDS_REDIS_URL="+redisURL, variable+m.addr,
		secrets.EnvPrefix+processSecret+"="+id), "serve", "--roles", role)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m.process = &instance{p, id}
	w.started[role] = append(w.started[role], m.process)
	if !slices.Contains(w.members, m) {
		w.members = append(w.members, m)
	}
	return nil
}

// dismiss ends a member for good.
func (w *world) dismiss(name string) error {
	m := w.member(name)
	w.mu.Lock()
	w.members = slices.DeleteFunc(slices.Clone(w.members), func(other *member) bool { return other == m })
	w.mu.Unlock()
	return m.process.Terminate(20 * time.Second)
}

func (w *world) member(name string) *member {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

// ofRole returns the members of a role, or of all roles if it is empty.
func (w *world) ofRole(role string) []member {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []member
	for _, m := range w.members {
		if role == "" || m.role == role {
			found = append(found, *m)
		}
	}
	return found
}

func (w *world) names(role string) []string {
	var names []string
	for _, m := range w.ofRole(role) {
		names = append(names, m.name)
	}
	return names
}

// ready returns what is not ready, or "" if everything is.
func (w *world) ready(ctx context.Context) string {
	for _, m := range w.ofRole("") {
		if m.process.Ended() {
			return m.name + " has ended: " + lastLines(m.process.Log(), 1)
		}
		if _, err := get(ctx, "http://"+m.addr+"/readyz"); err != nil {
			return m.name + " is not ready: " + err.Error()
		}
	}
	return ""
}

// lastLines returns the last n lines of a log as one.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " ")
}

// admin does a command at the world's one server.
func (w *world) admin(name string, args ...any) (any, error) {
	return ask(w.redis, 15*time.Second, name, args...)
}

// set changes Redis' settings, given as name, value and so on.
func (w *world) set(pairs ...any) error {
	_, err := w.admin("CONFIG", append([]any{"SET"}, pairs...)...)
	return err
}

// held returns how many accounts a poller has in processing_list.
func (w *world) held(name string) int { return w.heldBy(w.member(name).process.Replica()) }

// heldBy returns how many accounts a replica has in processing_list. The replica need not
// run any more.
func (w *world) heldBy(replica string) int { return len(w.claimsOf(replica)) }

// claimsOf returns them.
func (w *world) claimsOf(replica string) []string {
	from, err := w.reader()
	if err != nil || replica == "" {
		return nil
	}
	defer from.close()
	var ids []string
	for shard := range shards {
		texts, _ := redis.Strings(from.shard(shard).Do("LRANGE", key(shard, "processing_list"), 0, -1)) // nothing if the key is no list
		for _, text := range texts {
			if e, err := circulate.ParseEntry(text); err == nil && e.Replica == replica {
				ids = append(ids, e.ID)
			}
		}
	}
	return ids
}

// populate registers the accounts that stay, of both kinds and all priorities. Some of
// them always answer slowly.
func (w *world) populate(ctx context.Context, n int) error {
	var records bytes.Buffer
	for i := range n {
		record := map[string]any{"kind": "http", "cadence": "every 1s", "priority": []string{"normal", "low", "normal", "urgent"}[i/2%4]}
		route, id := routeConnector, fmt.Sprintf("http-%04d", i)
		if i%4 == 3 {
			route, id, record["kind"] = routeFeed, fmt.Sprintf("feed-%04d", i), "feed"
		}
		u := usual{cadence: time.Second, host: w.third.hostOf(i)}
		if i%8 == 0 {
			u.cadence, record["cadence"] = longestCadence, "every 2s"
		}
		if i%10 == 5 {
			u.delay = 700 * time.Millisecond
			w.third.slowDown(id, u.delay)
		}
		w.usual[id] = u
		config := w.third.config(route, id, i)
		if route == routeConnector && w.sends != nil {
			config["send_url"] = "http://" + w.third.hostOf(i).addr + "/" + routeSend + "/" + id
		}
		record["id"], record["config"] = id, config
		line, err := json.Marshal(record)
		if err != nil {
			return err
		}
		records.Write(append(line, '\n'))
		w.base = append(w.base, id)
		w.third.Post(id)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.clients.url+"/v1/accounts:import", &records)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !bytes.Contains(text, []byte(fmt.Sprintf(`"created":%d`, n))) {
		return fmt.Errorf("import: %d %s %w", answer.StatusCode, text, err)
	}
	return nil
}

// audits reports whether a binary can repair a ring.
func audits(binary string) bool {
	out, err := exec.Command(binary, "audit", "--help").CombinedOutput()
	return err == nil && bytes.Contains(out, []byte("--repair"))
}

// close ends everything that was started.
func (w *world) close() {
	for _, m := range w.ofRole("") {
		m.process.Kill()
	}
	http.DefaultClient.CloseIdleConnections()
	if w.third != nil {
		w.third.close()
	}
	if w.store != nil {
		w.store.kill()
	}
}

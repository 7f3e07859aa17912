package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Concern is a setting or a state of a Redis that can lose acknowledged writes, or will
// soon refuse writes.
type Concern struct {
	Node string // the server, as configured
	Code ConcernCode
	Text string // for people: the consequence and the remedy

	// Value is the policy of ConcernEviction, the percentage in use of ConcernMemory, and
	// as described at other codes; otherwise empty.
	Value string
}

// The codes of remarks.
const (
	RemarkEverySecond ConcernCode = "everysec"  // the append-only file is synced once a second
	RemarkMayEvict    ConcernCode = "may_evict" // keys would be evicted if there were a memory limit
	RemarkSettings    ConcernCode = "settings"  // the server does not disclose its settings
	RemarkPasswords   ConcernCode = "passwords" // the server discloses its passwords; Value: the settings
)

// ConcernCode names what a Concern is about.
type ConcernCode string

// The codes of concerns. Metrics and the API use these texts.
const (
	ConcernAppendOnly  ConcernCode = "appendonly"     // there is no append-only file
	ConcernAppendFails ConcernCode = "append_fails"   // it cannot be written
	ConcernEviction    ConcernCode = "eviction"       // keys are evicted when memory is short
	ConcernReplicas    ConcernCode = "min_replicas"   // a master without replicas still accepts writes
	ConcernMemory      ConcernCode = "memory"         // little is left below maxmemory
	ConcernUnasked     ConcernCode = "unasked"        // the server does not answer the question; Value: the command
	ConcernNoSync      ConcernCode = "no_fsync"       // the system alone decides when the append-only file is on disk
	ConcernSnapshot    ConcernCode = "snapshot_fails" // the last snapshot failed, and writes are refused
	ConcernUnsaved     ConcernCode = "unsaved"        // an embedded server's data cannot be saved; Value: why
	ConcernDamaged     ConcernCode = "damaged"        // its saved data was damaged; Value: the file that was set aside
	ConcernLarge       ConcernCode = "large"          // it has so much data that saving takes long
)

const (
	concernsWithin = 3 * time.Second // for each server
	memoryConcern  = 80              // per cent of maxmemory
)

// Concerns asks every server with data what could lose the data: an append-only file that
// is off, cannot be written or is never synced, snapshots that fail, eviction of keys, a
// replicated master that accepts writes without any replica, memory that is almost used
// up. A server that refuses INFO has a concern of its own. A server that refuses CONFIG
// only has a remark: INFO has most of the answers, and a user that may read the settings
// may read the server's passwords. A server that cannot be reached has no concerns: the
// error names it, and the concerns of the others are returned.
//
// The embedded server has none, because it stores nothing anyway.
func Concerns(ctx context.Context, server Server) ([]Concern, error) {
	nodes, err := Survey(ctx, server)
	return ConcernsOf(nodes), err
}

// questions asks one server.
type questions struct {
	ctx  context.Context
	conn redis.Conn
	node *Node

	refused []string // kinds of questions that it refused
	err     error    // it went away
}

// ask notes the server's figures, concerns and remarks.
func (q *questions) ask() {
	n := q.node
	q.askPersistence()
	info := q.info("memory")
	policy := infoField(info, "maxmemory_policy")
	n.Policy = policy
	n.Used, _ = strconv.ParseInt(infoField(info, "used_memory"), 10, 64)
	n.Limit, _ = strconv.ParseInt(infoField(info, "maxmemory"), 10, 64)
	switch {
	case policy == "" || policy == "noeviction":
	case n.Limit == 0:
		q.remark(RemarkMayEvict, policy, "maxmemory-policy is %s, which does nothing without maxmemory: set it to noeviction before there is a limit, or accounts are dropped with their keys", policy)
	default:
		q.say(ConcernEviction, policy, "maxmemory-policy is %s: when memory is full, accounts are dropped with their keys; set it to noeviction", policy)
	}
	if share := 100 * float64(n.Used) / float64(n.Limit); n.Limit > 0 && share >= memoryConcern {
		q.say(ConcernMemory, strconv.Itoa(int(share)), "it uses %.0f %% of maxmemory: messages are not taken above the mark of ROUNDS_MEMORY_MARK; raise maxmemory, or keep less", share)
	}
	info = q.info("replication")
	n.Replicas, _ = strconv.Atoi(infoField(info, "connected_slaves"))
	// The field exists only if min-replicas-to-write is not 0.
	if n.Guarded = infoField(info, "min_slaves_good_slaves") != ""; n.Replicas > 0 && !n.Guarded {
		q.say(ConcernReplicas, "", "it has replicas, and min-replicas-to-write is 0: a master that is cut off from them takes writes that a failover forgets; set it to 1")
	}
	info = q.info("server")
	if is := identify(info); is.version != "" {
		n.Software, n.Version = is.software, is.version
	}
	seconds, _ := strconv.ParseInt(infoField(info, "uptime_in_seconds"), 10, 64)
	n.Up = time.Duration(seconds) * time.Second
	if slices.Contains(q.refused, "INFO") {
		q.say(ConcernUnasked, "INFO", "INFO may not be asked, so it is unknown whether acknowledged writes are safe; allow the user +info")
	}
	if slices.Contains(q.refused, "CONFIG") {
		q.remark(RemarkSettings, "", "rounds may not read its settings, which is right; check yourself that appendfsync is everysec or always")
	} else if open := q.passwords(); open != "" {
		q.remark(RemarkPasswords, open, "whoever knows the password of rounds can read %s with CONFIG GET; give rounds a user without +config|get, as the guide's page on operations shows", open)
	}
}

// passwords returns the settings with passwords that the user may read.
func (q *questions) passwords() string {
	var open []string
	for _, key := range []string{"requirepass", "masterauth"} {
		if value, _ := q.told(key); value != "" {
			open = append(open, key)
		}
	}
	return strings.Join(open, " and ")
}

// askPersistence asks what a restart or a crash would lose.
func (q *questions) askPersistence() {
	n, info := q.node, q.info("persistence")
	if infoField(info, "loading") == "1" {
		return // until it has read its file, it says aof_enabled:0, whatever its settings are
	}
	n.AppendOnly = map[string]string{"0": "no", "1": "yes"}[infoField(info, "aof_enabled")]
	switch n.AppendOnly {
	case "no":
		if q.is("save", "") {
			q.say(ConcernAppendOnly, "", "appendonly is no, and no snapshots are made: a restart loses everything; set appendonly to yes")
			break
		}
		q.say(ConcernAppendOnly, "", "appendonly is no: a restart loses what was written since the last snapshot, if there is one; set it to yes")
	case "yes":
		n.Fsync, _ = q.told("appendfsync")
		switch n.Fsync {
		case "everysec":
			q.remark(RemarkEverySecond, "", "appendfsync is everysec: when its machine dies, up to a second of what it acknowledged is lost. Each account is then in one place as before: checks of that second are done again, and their messages found again under the same ids. Accounts registered or changed in that second must be again; with appendfsync always nothing is lost")
		case "no":
			q.say(ConcernNoSync, "", "appendfsync is no: when its machine dies, half a minute of what it acknowledged may be lost; set it to everysec or always")
		}
	}
	n.AppendStatus = infoField(info, "aof_last_write_status")
	if n.AppendStatus != "" && n.AppendStatus != "ok" {
		q.say(ConcernAppendFails, "", "its append-only file cannot be written: a restart loses what came since; see its disk")
	}
	if infoField(info, "rdb_last_bgsave_status") == "err" && !q.is("stop-writes-on-bgsave-error", "no") && !q.is("save", "") {
		q.say(ConcernSnapshot, "", "its last snapshot failed, so it refuses all writes (MISCONF) until one succeeds; see its disk, its memory and its log, and then BGSAVE")
	}
}

func (q *questions) say(code ConcernCode, value, format string, args ...any) {
	q.node.Concerns = append(q.node.Concerns, q.concern(code, value, format, args...))
}

func (q *questions) remark(code ConcernCode, value, format string, args ...any) {
	q.node.Remarks = append(q.node.Remarks, q.concern(code, value, format, args...))
}

func (q *questions) concern(code ConcernCode, value, format string, args ...any) Concern {
	return Concern{Node: q.node.Name, Code: code, Value: value, Text: "redis " + q.node.Name + ": " + fmt.Sprintf(format, args...)}
}

// is reports whether a setting is known to have a value.
func (q *questions) is(key, value string) bool {
	known, told := q.told(key)
	return told && known == value
}

// told returns the value of one setting, and whether the server disclosed it.
func (q *questions) told(key string) (value string, is bool) {
	pair, err := redis.Strings(q.do("CONFIG", "GET", key))
	if err != nil || len(pair) != 2 {
		return "", false
	}
	return pair[1], true
}

func (q *questions) info(section string) string {
	text, err := redis.String(q.do("INFO", section))
	if err != nil {
		return ""
	}
	return text
}

// do asks, unless the server went away or refused a question of that kind before.
func (q *questions) do(command, arg string, args ...any) (any, error) {
	if slices.Contains(q.refused, command) {
		return nil, redis.ErrNil
	}
	if q.err != nil {
		return nil, q.err
	}
	reply, err := redis.DoContext(q.conn, q.ctx, command, append([]any{arg}, args...)...)
	var refusal redis.Error
	switch {
	case errors.As(err, &refusal) && (strings.HasPrefix(string(refusal), "NOPERM") || strings.HasPrefix(string(refusal), "ERR unknown")):
		q.refused = append(q.refused, command)
	case err != nil:
		q.err = err
	}
	return reply, err
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// Node is a server with data, and the settings and state that decide how safe the data
// is. Unknown fields are empty or zero.
type Node struct {
	Name string // the server, as configured, or its address in a cluster
	Away bool   // it cannot be reached; nothing else is known

	Software string        // Redis, Valkey, Redict or Dragonfly
	Version  string        // of the software
	Up       time.Duration // since its start

	Used, Limit  int64  // bytes of memory; Limit 0: there is none
	Policy       string // maxmemory-policy
	AppendOnly   string // appendonly: yes or no
	AppendStatus string // of the last write of the append-only file: ok, or an error
	Fsync        string // appendfsync: always, everysec or no; empty: unknown
	Replicas     int    // connected replicas
	Guarded      bool   // min-replicas-to-write is not 0

	Concerns []Concern
	// Remarks are allowed settings and states that are worth knowing all the same. They
	// raise no alert.
	Remarks []Concern
}

// Survey asks every server with data about itself. A server that cannot be reached is in
// the list too, and the error names it. A server with a Survey of its own, such as the
// embedded one, is not asked.
func Survey(ctx context.Context, server Server) ([]Node, error) {
	if own, ok := server.(interface {
		Survey(ctx context.Context) ([]Node, error)
	}); ok {
		return own.Survey(ctx)
	}
	masters, err := mastersOf(ctx, server)
	if err != nil {
		return nil, err
	}
	all, errs := make([]Node, len(masters)), make([]error, len(masters))
	for i, m := range masters {
		all[i], errs[i] = surveyOf(ctx, m)
	}
	return all, errors.Join(errs...)
}

// ConcernsOf returns the concerns of all nodes.
func ConcernsOf(nodes []Node) (all []Concern) {
	for i := range nodes {
		all = append(all, nodes[i].Concerns...)
	}
	return all
}

// surveyOf asks one server.
func surveyOf(ctx context.Context, m master) (Node, error) {
	ctx, cancel := context.WithTimeout(ctx, concernsWithin)
	defer cancel()
	conn, err := m.lend(ctx)
	if err != nil {
		return Node{Name: m.name, Away: true}, fmt.Errorf("redis %s: %w", m.name, err)
	}
	defer conn.Close()
	node := Node{Name: m.name}
	q := questions{ctx: ctx, conn: conn, node: &node}
	q.ask()
	if q.err != nil {
		return Node{Name: m.name, Away: true}, fmt.Errorf("redis %s: %w", m.name, q.err)
	}
	return node, nil
}

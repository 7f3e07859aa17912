package circulate

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// shardKeys are the names of all keys of one shard. They share a hash tag, so that a
// shard lives on one node of a cluster.
type shardKeys struct {
	queue       string        // LIST  entries waiting; LPUSH at the head, taken from the tail
	urgent      string        // LIST  the lane for urgent accounts
	low         string        // LIST  the lane for accounts that can wait
	byKind      string        // ZSET  entries that wait for a replica of their kind; see bykind.lua
	kinds       string        // HASH  id -> kind, of accounts that some replica could not check
	laneCounter string        // STRING  accounts taken while several lanes waited, modulo 16
	processing  string        // LIST  entries claimed; the tail is the oldest claim
	schedule    string        // ZSET  id -> due, unix ms
	tickets     string        // HASH  id -> current ticket and other short fields; absent = not registered
	ticketSeq   string        // STRING  the last ticket that was issued
	ticketMark  string        // STRING  a higher ticket, not yet issued
	clock       string        // HASH  newest: the newest time seen, unix ms; gap: when it last went on unseen, and by how much
	accounts    string        // HASH  id -> the record
	changes     string        // ZSET  id -> when its record changed, unix µs; the latest only
	cursors     string        // HASH  id -> cursor, if it is too long for tickets
	failures    string        // HASH  id -> failures in a row; absent = none
	states      string        // HASH  id -> its cadence's state; opaque to the ring
	errors      string        // HASH  id -> when|why its last check failed; absent = it did not
	strikes     string        // HASH  id -> times requeued since the last return
	nudges      string        // HASH  id -> due|expiry|hint of a nudge
	parked      string        // ZSET  id -> parked at, unix ms
	reasons     string        // HASH  id -> why it is parked
	messages    string        // STREAM  found messages
	dead        string        // STREAM  messages that a consumer group could not handle
	leases      string        // HASH  consumer group -> token|expiry|consumer that reads the shard
	setAside    string        // LIST  malformed entries, the latest only
	timeline    wire.Timeline // two STREAMs  events of accounts, the latest only
	known       string        // before an id: SET  marks of messages that the account remembers, the newer ones; see known.lua
	knownBefore string        // before an id: SET  the older ones
	outbox      outboxKeys

	// While the number of shards changes; see reshard.go.
	leaving    string // STRING  the shard's accounts go to other shards; nothing is claimed until then
	stays      string // STRING  the last aborted generation: the shard's accounts do not leave for it
	departures string // HASH  generation.target:number -> accounts on their way
	departed   string // HASH  the same -> when|accounts that have arrived, retained for a while
	arrivals   string // SET  ids that have arrived from other shards; '' always
	carried    string // HASH  old shard -> position of its last dead letter that has arrived
	knownAway  string // HASH  generation.target:number -> what these accounts remember
}

// all returns every key with its type, except those of single accounts.
func (k *shardKeys) all() []wire.Key {
	return append([]wire.Key{
		{k.queue, "list"}, {k.processing, "list"}, {k.schedule, "zset"}, {k.tickets, "hash"},
		{k.ticketSeq, "string"}, {k.accounts, "hash"}, {k.changes, "zset"}, {k.cursors, "hash"},
		{k.failures, "hash"}, {k.states, "hash"}, {k.strikes, "hash"}, {k.nudges, "hash"}, {k.parked, "zset"},
		{k.reasons, "hash"}, {k.messages, "stream"}, {k.setAside, "list"},
		{k.urgent, "list"}, {k.low, "list"}, {k.byKind, "zset"}, {k.kinds, "hash"}, {k.laneCounter, "string"}, {k.errors, "hash"},
		{k.dead, "stream"}, {k.leases, "hash"},
		{k.ticketMark, "string"}, {k.clock, "hash"},
		{k.timeline.Mattered, "stream"}, {k.timeline.Routine, "stream"},
		{k.leaving, "string"}, {k.stays, "string"}, {k.departures, "hash"}, {k.departed, "hash"}, {k.arrivals, "set"}, {k.carried, "hash"}, {k.knownAway, "hash"},
	}, k.outbox.all()...)
}

func newShardKeys(namespace string, shards, shard int) shardKeys {
	width := len(strconv.Itoa(shards - 1))
	tag := fmt.Sprintf("{%s:%0*d}:", namespace, width, shard)
	return shardKeys{
		queue:       tag + "message_queue",
		urgent:      tag + "message_queue:urgent",
		low:         tag + "message_queue:low",
		byKind:      tag + "message_queue:by_kind",
		kinds:       tag + "kinds",
		laneCounter: tag + "turns",
		processing:  tag + "processing_list",
		schedule:    tag + "schedule",
		tickets:     tag + "tickets",
		ticketSeq:   tag + "ticket_seq",
		ticketMark:  tag + "ticket_mark",
		clock:       tag + "clock",
		accounts:    tag + "accounts",
		changes:     tag + "changes",
		cursors:     tag + "cursors",
		failures:    tag + "failures",
		states:      tag + "states",
		errors:      tag + "errors",
		strikes:     tag + "strikes",
		nudges:      tag + "nudges",
		parked:      tag + "parked",
		reasons:     tag + "park_reasons",
		messages:    tag + "messages",
		dead:        tag + "dead",
		leases:      tag + "leases",
		setAside:    tag + "set_aside",
		known:       tag + "known:",
		knownBefore: tag + "known_before:",
		timeline:    wire.Timeline{Mattered: tag + "timeline", Routine: tag + "timeline:routine"},
		outbox:      newOutboxKeys(tag),
		leaving:     tag + "leaving",
		stays:       tag + "stays",
		departures:  tag + "departures",
		departed:    tag + "departed",
		arrivals:    tag + "arrivals",
		carried:     tag + "carried",
		knownAway:   tag + "known_away",
	}
}

// generationKeys returns the keys of a shard of a generation. A namespace begins with
// generation 0. Each change of the number of shards makes a new generation with new
// names: {NS:SS} becomes {NS:g1:SS}.
func generationKeys(namespace string, generation, shards, shard int) shardKeys {
	if generation > 0 {
		namespace += ":g" + strconv.Itoa(generation)
	}
	return newShardKeys(namespace, shards, shard)
}

func metaKey(namespace string) string     { return namespace + ":meta" }
func replicasKey(namespace string) string { return namespace + ":replicas" }

// reportsKey has replicasKey as its hash tag, so that both live on one node.
func reportsKey(namespace string) string { return "{" + replicasKey(namespace) + "}:reports" }

// stalenessKey is a STRING with what the last scan for staleness found. clockStepKey is a
// STRING with the last steps of Redis' clock. dutiesKey is a STRING, with a time to live,
// that names the monitor on duty. They have the same hash tag as the reports.
func stalenessKey(namespace string) string { return "{" + replicasKey(namespace) + "}:staleness" }
func clockStepKey(namespace string) string { return "{" + replicasKey(namespace) + "}:clock_step" }
func dutiesKey(namespace string) string    { return "{" + replicasKey(namespace) + "}:duties" }

// rosterKeys are a ZSET of processes by their last report, unix ms; a LIST of processes
// that have left; a ZSET like the first with all processes seen lately; and a HASH of
// their reports. They have the same hash tag as the reports.
func rosterKeys(namespace string) []string {
	tag := "{" + replicasKey(namespace) + "}:"
	return []string{tag + "processes", tag + "left", tag + "processes:seen", AboutKey(tag + "processes")}
}

// stream returns the keys that concern the shard's messages.
func (k *shardKeys) stream() wire.Stream {
	return wire.Stream{Messages: k.messages, Dead: k.dead, Leases: k.leases, Tickets: [2]string{k.ticketSeq, k.ticketMark}}
}

// endpointsKey is a HASH of disabled webhook endpoints: endpoint -> since|why.
func endpointsKey(namespace string) string { return namespace + ":webhooks" }

// KeyPatterns returns the SCAN patterns that match all keys of a namespace, including
// limits and credentials, and no other keys of this program.
func KeyPatterns(namespace string) []string {
	return []string{"{" + namespace + ":*", namespace + ":*"}
}

// KeyRole is the role of a key, for callers that look at a namespace without opening it.
type KeyRole byte

// The roles. The zero value is any other key.
const (
	KeyOfAccounts KeyRole = 'a' // a HASH with a field for each account of a shard
	KeyOfMessages KeyRole = 'm' // a STREAM of a shard's messages
	KeyOfPresence KeyRole = 'p' // a ZSET of replicas or processes, by their last report, unix ms
)

// RoleOf returns the role of a key.
func RoleOf(key string) KeyRole {
	namespace, rest, ok := strings.Cut(strings.TrimPrefix(key, "{"), ":")
	if !ok {
		return 0
	}
	_, name, _ := strings.Cut(rest, "}:") // an id may stand behind it
	switch {
	case key == replicasKey(namespace), key == rosterKeys(namespace)[0]:
		return KeyOfPresence
	case name == "tickets":
		return KeyOfAccounts
	case name == "messages":
		return KeyOfMessages
	}
	return 0
}

// AboutKey returns the HASH of the reports of a roster's processes, given the KeyOfPresence
// of the roster.
func AboutKey(processes string) string { return processes + ":about" }

// ValidateNamespace returns what is wrong with a namespace. It must be 1 to 64 letters,
// digits, dots, dashes or underscores.
func ValidateNamespace(namespace string) error { return wire.ValidateNamespace(namespace) }

// shardOf returns the shard an account lives in: CRC32 of its id, by the IEEE polynomial,
// modulo the number of shards.
func shardOf(id string, shards int) int {
	return int(crc32.ChecksumIEEE([]byte(id)) % uint32(shards))
}

package connect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// oldest is the oldest version of Redis on which the ring works: the first with ZMSCORE
// and with ranges of streams that exclude their ends. Other servers name the version of
// Redis that they match.
const oldest = "6.2"

// Unfit reports that a server was reached but the ring cannot work on it.
type Unfit struct {
	Node string // the server, as it is configured, or its address in a cluster
	Why  string // for people: the cause and the remedy

	// Passing is set if the server may become fit by itself, as a replica that becomes
	// the master does.
	Passing bool
}

// Error returns the server and why it is unfit.
func (u *Unfit) Error() string { return "redis " + u.Node + " " + u.Why }

// Fit asks every server with data whether the ring can work on it, and returns an *Unfit
// for the first that cannot serve it: one that is too old, a Sentinel, a replica, or one
// of several nodes of a cluster if the URL names a single server. A server that does not
// say counts as fit, and so does a node of a cluster that is away. Other errors mean that
// no server was reached.
func Fit(ctx context.Context, server Server) error {
	if _, ok := server.(*Embedded); ok {
		return nil
	}
	masters, err := mastersOf(ctx, server)
	if err != nil {
		return err
	}
	_, alone := server.(*Single)
	_, several := server.(*Cluster)
	for _, m := range masters {
		conn, err := m.lend(ctx)
		if err == nil {
			err = probe(ctx, m.name, alone, conn)
		}
		if err != nil && (!several || errors.As(err, new(*Unfit))) {
			return err
		}
	}
	return nil
}

// probe asks one server whether the ring can work on it, and closes the connection. alone reports
// whether the URL names this server and no other.
func probe(ctx context.Context, name string, alone bool, conn redis.Conn) error {
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, concernsWithin)
	defer cancel()
	reply, err := redis.DoContext(conn, ctx, "INFO")
	if refused := redis.Error(""); err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("redis %s: %w", name, err)
	}
	info, err := redis.String(reply, err)
	if err != nil {
		return nil // a server that does not say counts as fit
	}
	is := identify(info)
	unfit := &Unfit{Node: name}
	switch {
	case is.mode == "sentinel":
		unfit.Why = "is a Sentinel and holds no data: a URL with Sentinels begins with redis+sentinel:// (or rediss+sentinel://) and ends with /MASTER, the name of the master"
	case is.tooOld():
		unfit.Why = fmt.Sprintf("is %s, and rounds needs Redis %s or newer, or a server that is like it, such as any Valkey: upgrade it, or name another server", is, oldest)
	case alone && is.mode == "cluster" && clusterSize(ctx, conn, name) > 1:
		unfit.Why = "is one of several nodes of a cluster, and the URL names it alone: begin the URL with redis+cluster:// (or rediss+cluster://)"
	case alone && infoField(info, "role") == "slave": // Sentinel and a cluster's map name the master
		unfit.Passing = true
		unfit.Why = fmt.Sprintf("is a replica of %s:%s, and a ring is written on its master: name the master, or Sentinels with redis+sentinel://", infoField(info, "master_host"), infoField(info, "master_port"))
	default:
		return nil
	}
	return unfit
}

// clusterSize returns how many nodes serve slots, or 0 if that is unknown.
func clusterSize(ctx context.Context, conn redis.Conn, address string) int {
	reply, err := redis.DoContext(conn, ctx, "CLUSTER", "SLOTS")
	if err != nil {
		return 0
	}
	ranges, err := readSlots(reply, address)
	if err != nil {
		return 0
	}
	serving := make(map[string]bool)
	for _, r := range ranges {
		serving[r.address] = true
	}
	return len(serving)
}

// identity is what a server says about itself.
type identity struct {
	software string // Redis, Valkey, Redict or Dragonfly
	version  string // of the software
	redis    string // the version of Redis that it is compatible with
	mode     string // standalone, sentinel or cluster
}

// identify reads the section "server" of INFO. The other servers report a version of Redis too,
// beside their own.
func identify(info string) identity {
	is := identity{software: "Redis", redis: infoField(info, "redis_version")}
	is.version = is.redis
	for _, other := range []string{"Valkey", "Redict", "Dragonfly"} {
		if version := infoField(info, strings.ToLower(other)+"_version"); version != "" {
			is.software, is.version = other, strings.TrimPrefix(version, "df-v")
		}
	}
	for _, field := range []string{"redis_mode", "server_mode", "redict_mode"} {
		if mode := infoField(info, field); mode != "" {
			is.mode = mode
		}
	}
	return is
}

// String returns the name and the version.
func (is identity) String() string { return is.software + " " + is.version }

// tooOld reports whether a server is compatible only with a Redis before oldest. A server
// that does not say is not too old.
func (is identity) tooOld() bool {
	has, ok := versionOf(is.redis)
	least, _ := versionOf(oldest)
	return ok && (has[0] < least[0] || has[0] == least[0] && has[1] < least[1])
}

// versionOf reads the first two numbers of a version.
func versionOf(text string) (v [2]int, ok bool) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 2 {
		return v, false
	}
	for i := range v {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

package circulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// SendQuery says what Standing returns.
type SendQuery struct {
	Peers  int      // how many peers, at most; 1 to the most of a batch
	Of     []string // peers to return in any case, within that bound, whether they are known or not
	Latest int      // how many of the latest sends, at most; 0: none
	Only   string   // only sends to this peer are among the latest; "": sends to any
}

// SendStanding is how the sends of an account stand at one moment.
type SendStanding struct {
	Now          time.Time // by Redis' clock
	Unknown      int       // sends of which nobody knows how they went
	UnknownSince time.Time // since when the one of them that was queued first is unknown
	Windows      int       // how many peers have a window
	// Peers begins with those that were asked for, then come those with sends in line, then
	// those with a window, each in the order of their names.
	Peers  []PeerStanding
	Latest []Send // as they were queued, the oldest first
}

// PeerStanding is how the sends to one peer stand.
type PeerStanding struct {
	Peer   string
	Line   int         // sends that are queued or under an attempt
	Waits  bool        // the first of them waits for a message of the peer
	Window *OpenWindow // the last known one, which may be over; nil: none is known
}

var lookSendScript = wire.NewScript("look send", lua("sends"), lua("send_look"))

// Standing returns how the sends of an account stand. It finds no sends for an account that
// is not registered. Of each state group, it looks at no more than the 256 latest sends for
// those of one peer.
func (s Sends) Standing(ctx context.Context, account string, q SendQuery) (SendStanding, error) {
	if err := errors.Join(wire.CheckBatch("look at sends", q.Peers), ValidateID(account)); err != nil {
		return SendStanding{}, err
	}
	args := append([]any{account, max(0, q.Latest), q.Only, q.Peers}, anyOf(q.Of)...)
	var found SendStanding
	err := s.search(ctx, s.ring.ShardOf(account), s.ring.target(account), func(shard int) error {
		k := &s.ring.keys[shard]
		reply, err := redis.Values(s.ring.wire.Run(ctx, lookSendScript, shard, k.outbox.with(), args...))
		if err == nil {
			found, err = readStanding(reply)
		}
		if err != nil {
			return fmt.Errorf("look at sends, shard %d: %w", shard, err)
		}
		if found.empty() {
			return ErrNoSend // they may be where the account moves to
		}
		return nil
	})
	if errors.Is(err, ErrNoSend) {
		err = nil
	}
	if err != nil {
		return SendStanding{}, err
	}
	slices.SortStableFunc(found.Latest, func(a, b Send) int { return cmp.Or(a.Queued.Compare(b.Queued), cmp.Compare(a.ID, b.ID)) })
	if more := len(found.Latest) - q.Latest; more > 0 {
		found.Latest = found.Latest[more:]
	}
	return found, nil
}

// empty reports whether nothing of the account was found.
func (s *SendStanding) empty() bool {
	return s.Unknown == 0 && s.Windows == 0 && len(s.Latest) == 0 &&
		!slices.ContainsFunc(s.Peers, func(p PeerStanding) bool { return p.Line > 0 || p.Window != nil })
}

func readStanding(reply []any) (SendStanding, error) {
	var now, since string
	var latest, peers []string
	var s SendStanding
	if _, err := redis.Scan(reply, &now, &s.Unknown, &since, &s.Windows, &latest, &peers); err != nil {
		return SendStanding{}, errors.Join(wire.ErrReply, err)
	}
	const each = 4
	if len(latest)%2 != 0 || len(peers)%each != 0 {
		return SendStanding{}, wire.ErrReply
	}
	var errs [2]error
	s.Now, errs[0] = readMilli(now)
	s.UnknownSince, errs[1] = readMilli(since)
	if err := errors.Join(errs[:]...); err != nil {
		return SendStanding{}, errors.Join(wire.ErrReply, err)
	}
	for i := 0; i < len(latest); i += 2 {
		send, err := readSend(latest[i], latest[i+1])
		if err != nil {
			return SendStanding{}, err
		}
		s.Latest = append(s.Latest, send)
	}
	for i := 0; i < len(peers); i += each {
		p := PeerStanding{Peer: peers[i], Waits: peers[i+2] == "1"}
		var err error
		if p.Line, err = strconv.Atoi(peers[i+1]); err != nil {
			return SendStanding{}, errors.Join(wire.ErrReply, err)
		}
		if peers[i+3] != "" {
			w, err := readWindow(peers[i+3])
			if err != nil {
				return SendStanding{}, err
			}
			p.Window = &w
		}
		s.Peers = append(s.Peers, p)
	}
	return s, nil
}

package connect

import (
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

// slotRange is a range of slots that one master serves.
type slotRange struct {
	first, last int
	address     string
}

var errSlots = errors.New("CLUSTER SLOTS: unreadable reply")

// readSlots reads a node's reply to CLUSTER SLOTS: arrays of the first slot, the last,
// and nodes, the master first, each with host, port and more.
func readSlots(reply any, from string) ([]slotRange, error) {
	entries, err := redis.Values(reply, nil)
	if err != nil {
		return nil, errSlots
	}
	ranges := make([]slotRange, 0, len(entries))
	for _, e := range entries {
		entry, err := redis.Values(e, nil)
		if err != nil || len(entry) < 3 {
			return nil, errSlots
		}
		first, firstErr := redis.Int(entry[0], nil)
		last, lastErr := redis.Int(entry[1], nil)
		master, err := redis.Values(entry[2], nil)
		if errors.Join(firstErr, lastErr, err) != nil || len(master) < 2 || first < 0 || last < first || last >= slotCount {
			return nil, errSlots
		}
		host, _ := redis.String(master[0], nil) // nil: a node that does not know its own address
		port, err := redis.Int(master[1], nil)
		if err != nil {
			return nil, errSlots
		}
		ranges = append(ranges, slotRange{first, last, hostOr(host, strconv.Itoa(port), from)})
	}
	if len(ranges) == 0 {
		return nil, errors.New("serves no slots: not a member of a cluster, or one without any")
	}
	slices.SortFunc(ranges, func(a, b slotRange) int { return a.first - b.first })
	for i := 1; i < len(ranges); i++ {
		if ranges[i].first <= ranges[i-1].last {
			return nil, errSlots
		}
	}
	return ranges, nil
}

// hostOr returns an address. If the node does not know its host, it is the host at which
// the node was asked.
func hostOr(host, port, from string) string {
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(from)
	}
	return net.JoinHostPort(host, port)
}

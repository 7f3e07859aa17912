package circulate

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Declined gives the shards that consumers of a group have said not to read, each
// when it last joined: they are for the others.
func (r *Ring) Declined(ctx context.Context, group string) (map[string][]int, error) {
	if err := checkGroup("declined", group); err != nil {
		return nil, err
	}
	replies, err := r.wire.Pipeline(ctx, consumersKey(r.namespace, group), wire.Command{"HGETALL", consumerReportsKey(r.namespace, group)})
	if err != nil {
		return nil, fmt.Errorf("declined: %w", err)
	}
	reports, err := redis.StringMap(replies[0], nil)
	if err != nil {
		return nil, fmt.Errorf("declined: %w", err)
	}
	declined := make(map[string][]int)
	for consumer, report := range reports {
		for text := range strings.SplitSeq(report, ",") {
			// Another version may say more of itself.
			if shard, err := strconv.Atoi(text); err == nil {
				declined[consumer] = append(declined[consumer], shard)
			}
		}
	}
	return declined, nil
}

// declining is what a consumer reports of itself.
func declining(shards []int) string {
	texts := make([]string, len(shards))
	for i, shard := range shards {
		texts[i] = strconv.Itoa(shard)
	}
	return strings.Join(texts, ",")
}

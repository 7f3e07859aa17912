package main

import "context"

const (
	oneByOne       = 1
	oneByOneWorker = 50 // connections that work one at a time; batches need fewer
)

// share is one way to keep accounts circulating.
type share struct {
	name   string // in the figures' names
	title  string // for people
	kind   string // ring or bare
	shards int
	batch  int
}

// shares are in the order of a table: what sharding, batches and the protocol each gain
// or cost.
func shares() []share {
	return []share{
		{"bare_1_list_one_by_one", "bare pattern, one list, one by one", "bare", 1, oneByOne},
		{"bare_64_lists_one_by_one", "bare pattern, 64 lists, one by one", "bare", 64, oneByOne},
		{"bare_1_list_batches", "bare pattern, one list, batches of 128", "bare", 1, batch},
		{"bare_64_lists_batches", "bare pattern, 64 lists, batches of 128", "bare", 64, batch},
		{"ring_64_shards_one_by_one", "ring, 64 shards, one by one", "ring", 64, oneByOne},
		{"ring_1_shard_batches", "ring, one shard, batches of 128", "ring", 1, batch},
		{"ring_64_shards_batches", "ring, 64 shards, batches of 128", "ring", 64, batch},
	}
}

// measureShares measures the bare pattern and the ring over one list and over many,
// one by one and in batches, with many in flight and with few.
func measureShares(ctx context.Context, b *bench) error {
	type filled struct {
		kind   string
		shards int
	}
	children := make(map[filled]*child)
	var stages []*stage
	for _, way := range shares() {
		key := filled{way.kind, way.shards}
		if children[key] == nil {
			c, err := launch(ctx, spec{Kind: way.kind, Namespace: way.name, Accounts: b.count, Shards: way.shards, Redis: b.redis.URL()}, b.redis)
			if err != nil {
				return err
			}
			defer c.close()
			children[key] = c
		}
		s := settings{Batch: way.batch}
		if way.batch == oneByOne {
			s.Workers = oneByOneWorker
		}
		many, few := s, s
		many.InFlight, few.InFlight = inFlight, fewInFlight
		stages = append(stages,
			&stage{name: way.name + "_10000_in_flight", child: children[key], settings: many},
			&stage{name: way.name + "_100_in_flight", child: children[key], settings: few})
	}
	return b.inTurns(stages...)
}

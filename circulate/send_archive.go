package circulate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var (
	packSendScript = wire.NewScript("pack send", lua("sends"), lua("send_pack"))
	loadSendScript = wire.NewScript("load send", lua("sends"), lua("send_load"))
)

// Sends adds to archived accounts of a shard their sends, idempotency keys and windows.
// Those of each account are as they were at one moment.
func (a Archive) Sends(ctx context.Context, shard int, accounts []Archived) error {
	k := &a.ring.keys[shard].outbox
	replies, err := a.ring.wire.Pipeline(ctx, k.index, wire.Command{"EXISTS", k.index})
	if err != nil || replies[0] == int64(0) {
		return err
	}
	for i := range accounts {
		if accounts[i].Sends, err = redis.String(a.ring.wire.Run(ctx, packSendScript, shard, k.with(), accounts[i].ID)); err != nil {
			return err
		}
	}
	return nil
}

// LoadSends restores the sends of accounts of one shard, after [Archive.Load]. It leaves
// accounts as they are that have sends, so it is safe to repeat. An attempt that was under
// way is unknown.
func (a Archive) LoadSends(ctx context.Context, shard int, accounts []Archived) error {
	k := &a.ring.keys[shard]
	for i := range accounts {
		if accounts[i].Sends == "" {
			continue
		}
		if err := a.ring.keepOut(ctx); err != nil {
			return err
		}
		n, err := redis.Int(a.ring.wire.Run(ctx, loadSendScript, shard, k.outbox.with(k.tickets), accounts[i].ID, accounts[i].Sends))
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("load sends of %q, shard %d: %w", accounts[i].ID, shard, ErrNotRegistered)
		}
	}
	return nil
}

// CheckSends returns what is wrong with Archived.Sends of a file that somebody may have
// changed.
func CheckSends(packed string) error {
	const what, name, value = 0, 1, 2
	var item [3]string
	for n := 0; packed != ""; n++ {
		length, rest, ok := strings.Cut(packed, ":")
		size, err := strconv.Atoi(length)
		if !ok || err != nil || size < 0 || size > len(rest) {
			return errors.New("are cut off")
		}
		item[n%3], packed = rest[:size], rest[size:]
		if n%3 != value {
			if packed == "" {
				return errors.New("are cut off")
			}
			continue
		}
		switch item[what] {
		case "s":
			send, err := readSend(item[name], item[value])
			if err != nil {
				return err
			}
			if send.validate() != nil || send.State.String() == "" {
				return fmt.Errorf("send %s is malformed", item[name])
			}
		case "k":
			member, till, ok := strings.Cut(strings.TrimPrefix(item[name], "k"), "\x00")
			at := strings.LastIndexByte(till, 0)
			if _, err := strconv.ParseFloat(till[at+1:], 64); !ok || err != nil || member == "" || at != stampWidth+SendIDLength || len(item[value]) != 2*SendIDLength {
				return errors.New("have a malformed key")
			}
		case "w":
			if _, err := readWindow(item[value]); err != nil || !strings.Contains(item[name], "\x00") {
				return errors.New("have a malformed window")
			}
		default:
			return fmt.Errorf("have a part of an unknown sort %q", item[what])
		}
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// startTimeout bounds how long a process may take to serve, and to end.
const startTimeout = time.Minute

// member is a process of the fleet.
type member struct {
	*processes.Process
	path, addr string
}

// fleet is the processes, and what they check.
type fleet struct {
	ctx      context.Context
	server   *redistest.Server
	third    *upstream.Upstream
	stage    time.Duration
	members  [slots]*member
	accounts []string       // registered
	posted   map[string]int // messages of each account that was ever registered
	stages   int
}

// replace ends the process of a slot as systemd does, and starts one of a version.
func (f *fleet) replace(slot int, path string) error {
	if old := f.members[slot]; old != nil {
		f.members[slot] = nil
		if err := old.Terminate(startTimeout); err != nil {
			return fmt.Errorf("%w\n%s", err, ours(old.Log()))
		}
	}
	addr, err := ports.Address()
	if err != nil {
		return err
	}
	p, err := processes.Start(fmt.Sprintf("slot %d", slot), path, []string{
		"ROUNDS_REDIS_URL=" + f.server.URL(), "ROUNDS_SHARDS=8", "ROUNDS_API_ADDR=" + addr, "ROUNDS_ROLES=api,poller,monitor",
		"ROUNDS_ALLOW_PRIVATE_ADDRESSES=true", "ROUNDS_GRACE_PERIOD=2s", "ROUNDS_SWEEP_INTERVAL=1s",
	}, "serve")
	if err != nil {
		return err
	}
	m := &member{p, path, addr}
	f.members[slot] = m
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		answer, err := http.Get("http://" + addr + "/readyz")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		if p.Ended() || time.Since(began) > startTimeout {
			return fmt.Errorf("%s does not serve: %w\n%s", p.Name, errors.Join(err, os.ErrDeadlineExceeded), ours(p.Log()))
		}
	}
}

// rounds runs a command of a slot's version against its API.
func (f *fleet) rounds(slot int, stdin string, args ...string) (string, error) {
	m := f.members[slot]
	cmd := exec.CommandContext(f.ctx, m.path, args...)
	cmd.Env = []string{"ROUNDS_API_URL=http://" + m.addr, "HOME=" + os.Getenv("HOME")}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rounds %s, slot %d: %w\n%s", strings.Join(args, " "), slot, err, ours(string(out)))
	}
	return string(out), nil
}

// register imports accounts, half of them feeds.
func (f *fleet) register(many int) error {
	f.posted = make(map[string]int)
	var lines strings.Builder
	for i := range many {
		lines.WriteString(f.record("account-" + strconv.Itoa(i)))
	}
	_, err := f.rounds(0, lines.String(), "account", "import", "-")
	return err
}

// record returns the record of an account that is registered now.
func (f *fleet) record(id string) string {
	f.accounts, f.posted[id] = append(f.accounts, id), 0
	kind, route := "http", "connector"
	if len(f.accounts)%2 == 0 {
		kind, route = "feed", "feed"
	}
	text, _ := json.Marshal(map[string]any{"id": id, "kind": kind, "config": map[string]string{"url": f.third.URL(route, id)}, "cadence": "every 1s"}) // strings alone
	return string(text) + "\n"
}

// live has a mix of versions run for a while: messages come, accounts come and go, and then
// every version audits.
func (f *fleet) live(name string) error {
	for until := time.Now().Add(f.stage); time.Now().Before(until) && f.ctx.Err() == nil; time.Sleep(f.stage / 10) {
		for i, id := range f.accounts {
			if (i+f.stages)%3 == 0 {
				f.posted[id] = f.third.Post(id)
			}
		}
		f.stages++
	}
	for slot := range slots {
		id := fmt.Sprintf("%d-%d", f.stages, slot)
		paused := f.accounts[(f.stages*7+slot)%len(f.accounts)]
		if _, err := f.rounds(slot, f.record(id), "account", "import", "-"); err != nil {
			return err
		}
		f.posted[id] = f.third.Post(id)
		for _, args := range [][]string{{"account", "pause", paused}, {"account", "nudge", f.accounts[0]}} {
			if _, err := f.rounds((slot+1)%slots, "", args...); err != nil {
				return err
			}
		}
		if _, err := f.rounds((slot+2)%slots, "", "account", "resume", paused); err != nil {
			return err
		}
	}
	for slot := range slots {
		if _, err := f.rounds(slot, "", "audit"); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := f.expectNoneParked(slot); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	fmt.Printf("%-22s %d accounts, audits clean, nothing parked\n", name, len(f.accounts))
	return nil
}

// expectNoneParked expects that a slot's version sees no parked account.
func (f *fleet) expectNoneParked(slot int) error {
	text, err := f.rounds(slot, "", "stats", "--json")
	if err != nil {
		return err
	}
	var stats struct {
		Accounts struct{ Parked *int }
	}
	if err := json.Unmarshal([]byte(text), &stats); err != nil || stats.Accounts.Parked == nil {
		return fmt.Errorf("stats do not count parked accounts: %s, %w", text, errors.Join(err, os.ErrInvalid))
	}
	if n := *stats.Accounts.Parked; n > 0 {
		return fmt.Errorf("%d accounts are parked", n)
	}
	return nil
}

// finish waits until every message that was posted is in Redis, once.
func (f *fleet) finish() error {
	total := 0
	for _, n := range f.posted {
		total += n
	}
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		times, err := f.found()
		if err != nil {
			return err
		}
		missing, example := 0, ""
		for id, n := range f.posted {
			for number := 1; number <= n; number++ {
				if message := id + " " + upstream.MessageID(id, number); times[message] == 0 {
					missing, example = missing+1, message
				} else if times[message] > 1 {
					return fmt.Errorf("message %s is there %d times", message, times[message])
				}
			}
		}
		if missing == 0 {
			fmt.Printf("%d messages, each once\n", total)
			return nil
		}
		if time.Since(began) > startTimeout {
			return fmt.Errorf("%d of %d messages were not found, such as %s", missing, total, example)
		}
	}
}

// found returns how often each message is in Redis, by account and id.
func (f *fleet) found() (map[string]int, error) {
	conn, err := f.server.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	times := make(map[string]int)
	for shard := range 8 {
		entries, err := redis.Values(conn.Do("XRANGE", fmt.Sprintf("{rounds:%d}:messages", shard), "-", "+"))
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			parts, err := redis.Values(entry, nil)
			if err != nil {
				return nil, err
			}
			fields, err := redis.StringMap(parts[1], nil)
			if err != nil {
				return nil, err
			}
			times[fields["account"]+" "+fields["id"]]++
		}
	}
	return times, nil
}

// refuse queues the first send. An older version that does not know sends goes on checking, but is
// not ready, changes no number of shards, and does not start again.
func (f *fleet) refuse(older string) error {
	if _, err := f.rounds(0, "", "sends", "list"); err == nil {
		fmt.Println("the older version knows sends")
		return nil
	}
	server, err := connect.OpenSingle(f.server.URL(), connect.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	ring, err := circulate.Open(f.ctx, server, circulate.Options{Existing: true})
	if err != nil {
		return err
	}
	account := f.accounts[0]
	send := circulate.Send{ID: circulate.NewSendID(account), Account: account, Kind: "http", Peer: "anna", Type: "text"}
	if _, _, err := ring.Sends().Queue(f.ctx, send, "", circulate.SendBounds{}); err != nil {
		return err
	}
	for slot := range slots {
		answer, err := http.Get("http://" + f.members[slot].addr + "/readyz")
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusServiceUnavailable {
			return fmt.Errorf("with a send, /readyz of slot %d answers %d", slot, answer.StatusCode)
		}
	}
	if out, err := f.rounds(0, "", "reshard", "--to", "16", "--yes"); err == nil {
		return fmt.Errorf("the older version changes the number of shards of a namespace with sends: %s", out)
	}
	if now, err := ring.Mover().State(f.ctx); err != nil || now.Phase != circulate.Steady {
		return fmt.Errorf("the number of shards is %s, %w", now.Phase, err)
	}
	if err := f.replace(0, older); err == nil || !strings.Contains(err.Error(), "has format 1002") {
		return fmt.Errorf("the older version starts in a namespace with sends: %w", err)
	}
	posted := f.third.Post(account)
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		times, err := f.found()
		if err != nil {
			return err
		}
		if times[account+" "+upstream.MessageID(account, posted)] == 1 {
			fmt.Println("with a send, the older version goes on checking, and refuses the rest")
			return nil
		}
		if time.Since(began) > startTimeout {
			return fmt.Errorf("with a send, the older version checks %s no more", account)
		}
	}
}

// kill ends what runs.
func (f *fleet) kill() {
	for _, m := range f.members {
		if m != nil {
			m.Kill()
		}
	}
}

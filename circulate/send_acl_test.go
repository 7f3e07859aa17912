package circulate_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// The steps of sends need no other rights in Redis than the file in deployments gives, and not
// all of these: a user made for an earlier version may not count.
func TestSendsUnderTheACL(t *testing.T) {
	for name, without := range map[string]string{"of today": "", "without +zlexcount": "+zlexcount"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testSendsUnderTheACL(t, without)
		})
	}
}

func testSendsUnderTheACL(t *testing.T, without string) {
	file, err := os.ReadFile("../deployments/redis/rounds.acl")
	if err != nil {
		t.Fatal(err)
	}
	_, rights, found := strings.Cut(string(file), "user rounds on #PASSWORD_SHA256 ")
	if !found {
		t.Fatal("the file has no user rounds")
	}
	s := redistest.Start(t)
	args := []any{"SETUSER", "rounds", "on", ">secret"}
	for _, right := range strings.Fields(rights) {
		if right != without {
			args = append(args, right)
		}
	}
	if without != "" && len(args) != 4+len(strings.Fields(rights))-1 {
		t.Fatalf("the file does not have %s", without)
	}
	if _, err := dial(t, s).Do("ACL", args...); err != nil {
		t.Fatal(err)
	}
	server, err := connect.OpenSingle(strings.Replace(s.URL(), "redis://", "redis://rounds:secret@", 1), connect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, sends := t.Context(), ring.Sends()
	must := func(step string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	register(t, ring, "a")
	must("events", ring.Streams().TellEvents(ctx, 0, "crew", true))
	b, err := ring.Claim(ctx, 0, "replica000", 1, 0)
	must("claim", err)
	_, err = ring.Return(ctx, 0, []circulate.Return{{Claim: &b.Claims[0], Due: b.Now.Add(time.Hour), Kind: "chat",
		Messages: []circulate.Message{{ID: "1", Answerable: &circulate.Answerable{Peer: "anna", For: time.Hour, Count: 3}}}}})
	must("return", err)
	var ids []string
	for range 3 {
		send := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: "anna", Windowed: true, Expires: b.Now.Add(time.Hour)}
		_, _, err = sends.Queue(ctx, send, send.ID, circulate.SendBounds{})
		must("queue", err)
		ids = append(ids, send.ID)
	}
	var busy *circulate.SendsBusyError
	_, _, err = sends.Queue(ctx, circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: "anna", Windowed: true}, "", circulate.SendBounds{Account: 3})
	if !errors.As(err, &busy) || busy.All {
		t.Errorf("a fourth of three: %v", err)
	}
	order := circulate.AttemptOrder{Replica: "replica000", Step: "1", Kinds: []string{"chat"}, Most: 1, Lasts: time.Minute}
	noted, _, err := sends.Attempt(ctx, 0, order)
	must("attempt", err)
	_, _, err = circulate.NewSyncer(ring, circulate.Durability{Disk: true}).Attempts(ctx, 0, noted)
	must("wait", err)
	_, err = sends.Withdraw(ctx, 0, order.Replica, order.Step)
	must("withdraw", err)
	order.Step = "2"
	attempts, _, err := sends.Attempt(ctx, 0, order)
	must("attempt", err)
	_, err = sends.Settle(ctx, []circulate.Settlement{{ID: attempts[0].ID, Fence: attempts[0].Fence, Outcome: circulate.AttemptUnknown}})
	must("settle", err)
	_, err = sends.Resolve(ctx, attempts[0].ID, circulate.Resolution{Fence: attempts[0].Fence, To: circulate.SendAccepted, VendorID: "v"})
	must("resolve", err)
	_, err = sends.Fail(ctx, "a", "v", "4", "")
	must("fail", err)
	_, err = sends.Cancel(ctx, ids[1])
	must("cancel", err)
	_, err = sends.Sweep(ctx, 0, 10, time.Minute, nil)
	must("sweep", err)
	_, _, err = sends.List(ctx, 0, circulate.GroupEnded, "a", "", 10)
	must("list", err)
	_, err = sends.Standing(ctx, "a", circulate.SendQuery{Peers: 1, Latest: 1})
	must("stand", err)
	_, err = sends.Look(ctx, ids[2])
	must("look", err)
	_, _, err = sends.Window(ctx, "a", "anna")
	must("window", err)
	_, err = sends.Count(ctx, 0)
	must("count", err)
	_, err = sends.Present(ctx)
	must("present", err)
	_, err = sends.Due(ctx)
	must("due", err)
	_, err = ring.AuditShard(ctx, 0, circulate.AuditOptions{})
	must("audit of the shard", err)
	findings, err := sends.Audit(ctx, 0, true)
	must("audit", err)
	accounts := []circulate.Archived{{ID: "a"}}
	must("pack", ring.Archive().Sends(ctx, 0, accounts))
	must("load", ring.Archive().LoadSends(ctx, 0, accounts))
	if _, err := ring.Deregister(ctx, 0, []string{"a"}); err != nil || len(findings) > 0 {
		t.Errorf("deregister: %v; an audit found %+v", err, findings)
	}
}

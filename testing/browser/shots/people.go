package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/accounts/job"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/browser/scene"
)

// people work at the service, each with a key. What they did is what many pages show.
type people struct {
	scene *scene.Scene
	keys  map[string]string // by name

	anna, ben, mei, yusuf, crm *client.Client
}

// hire gives the people their keys: Anna may do everything, Ben operates, Li Mei edits, Yusuf
// answers customers, and a program adds the accounts of the support team.
func hire(ctx context.Context, s *scene.Scene) (*people, error) {
	p := &people{scene: s, keys: make(map[string]string)}
	by := s.Calls
	for _, one := range []struct {
		name, role string
		labels     map[string]string
		calls      **client.Client
	}{
		{"anna", "admin", nil, &p.anna}, {"ben", "operator", nil, &p.ben}, {"li-mei", "editor", nil, &p.mei}, {"yusuf", "sender", map[string]string{"team": "support"}, &p.yusuf},
		{"crm-import", "editor", map[string]string{"team": "support"}, &p.crm},
	} {
		key, err := by.CreateKey(ctx, api.KeyRequest{Name: one.name, Role: one.role, Labels: one.labels, ExpiresIn: "90d"})
		if err != nil {
			return nil, err
		}
		*one.calls, p.keys[one.name] = client.New(s.URL, key.Text), key.Text
		by = p.anna // the first key is made with the token
	}
	return p, nil
}

// leave closes the people's connections.
func (p *people) leave() {
	for _, calls := range []*client.Client{p.anna, p.ben, p.mei, p.yusuf, p.crm} {
		calls.Close()
	}
}

// support has a program add the inboxes of the support team. Each finds what a customer has written.
func (p *people) support(ctx context.Context) error {
	for _, in := range inboxes {
		text, err := json.Marshal(map[string]any{"next_cursor": "1", "has_more": false, "messages": []map[string]any{
			{"id": in.id + "-1", "type": "text", "data": map[string]string{"from": in.from, "text": in.asks}}}})
		if err != nil {
			return err
		}
		p.scene.Third.Say(in.id, scene.Answer{Status: http.StatusOK, Type: "application/json", Body: string(text)})
		if in.says != "" {
			p.scene.Third.Say(in.id+"-out", scene.Answer{Status: http.StatusOK, Type: "application/json", Body: in.says})
		}
		a := accounts.Account{ID: in.id, Kind: "http", Cadence: "every 1h", Labels: map[string]string{"team": "support"},
			Config: fmt.Appendf(nil, `{"url":"http://desk.example/said/%s","send_url":"http://desk.example/%s"}`, in.id, in.out)}
		if _, err := p.crm.Add(ctx, a, ""); err != nil {
			return err
		}
	}
	return nil
}

// care has Anna look after the service, and Li Mei save a view.
func (p *people) care(ctx context.Context) error {
	if err := p.anna.Backup(ctx, false, io.Discard); err != nil {
		return err
	}
	taken, err := p.anna.Backups(ctx)
	if err != nil {
		return err
	}
	_, err1 := p.anna.SetSecret(ctx, "DESK_TOKEN", api.SecretRequest{Value: "a token of the scene", Hosts: []string{"desk.example"}, Kinds: []string{"http"}})
	_, err2 := p.anna.PutMaintenance(ctx, "move", api.MaintenanceRequest{Host: "shops.example", Lasts: "4h", Reason: "the shops move to another host"})
	_, err3 := p.mei.PutView(ctx, "press fails", api.SavedViewRequest{Of: "accounts", Query: map[string][]string{"state": {"failing"}, "label": {"team=press"}}})
	err4 := p.anna.SilenceConcern(ctx, string(concern.DeadLetters), api.SilenceRequest{Lasts: "12h", Reason: "they are replayed tonight"})
	return errors.Join(err1, err2, err3, err4, p.anna.BackupVerified(ctx, taken.Last.SHA256))
}

// inboxes are accounts that can be answered: where their answers go, and what becomes of them.
var inboxes = []struct{ id, out, says, from, asks, answer string }{
	{"desk-orders", "sent/desk-orders", "", "greta.berg", "Has my parcel left yet?", "It left this morning."},
	{"desk-returns", "status/502/desk-returns", "", "tom.kowalski", "May I send the lamp back?", "Yes, within 30 days."},
	{"desk-city", "said/desk-city-out", `{"error":{"kind":"rejected","code":"blocked","message":"the customer has blocked this inbox"}}`, "王芳", "周末营业吗？", "周六十点到十六点营业。"},
	{"desk-hotline", "said/desk-hotline-out", `{"error":{"kind":"rate_limited","code":"busy","message":"too many messages in this hour"},"retry_after":900}`, "nora.lind", "Please call me back.", "We call you at noon."},
}

// answer has Yusuf answer the customers.
func (p *people) answer(ctx context.Context) error {
	for _, in := range inboxes {
		data, err := json.Marshal(map[string]string{"text": in.answer})
		if err != nil {
			return err
		}
		if _, err := p.yusuf.Send(ctx, in.id, "first", api.SendRequest{To: in.from, Type: "text", Data: data}); err != nil {
			return err
		}
	}
	return nil
}

// pause has Ben pause the accounts of a city by a job, and take that back.
func (p *people) pause(ctx context.Context) error {
	paused, err := p.ben.StartJob(ctx, accounts.Bulk{Action: accounts.PauseAll, Selector: accounts.Selector{Prefixes: []string{"city-00"}}})
	if err == nil {
		err = p.ended(ctx, paused.ID)
	}
	if err == nil {
		paused, err = p.ben.UndoJob(ctx, paused.ID)
	}
	if err != nil {
		return err
	}
	return p.ended(ctx, paused.ID)
}

// set has Li Mei change accounts by a job, which can be taken back.
func (p *people) set(ctx context.Context) error {
	set, err := p.mei.StartJob(ctx, accounts.Bulk{Action: accounts.SetAll, Set: json.RawMessage(`{"cadence":"every 20s","labels":{"plan":"gold"}}`), Selector: accounts.Selector{Prefixes: []string{"inbox-00"}}})
	if err != nil {
		return err
	}
	return p.ended(ctx, set.ID)
}

// forbidden has Ben try what he may not.
func (p *people) forbidden(ctx context.Context) error {
	if err := p.ben.Remove(ctx, "press-closed"); client.Status(err) != http.StatusForbidden {
		return fmt.Errorf("an operator deletes an account: %w", err)
	}
	return nil
}

// skip has Ben skip the first message that the archive refuses.
func (p *people) skip(ctx context.Context) error {
	var refused api.Webhook
	var err error
	if waited := p.scene.Await(ctx, func() bool {
		refused, err = p.ben.Webhook(ctx, "archive")
		return err != nil || refused.Standing != nil && len(refused.Standing.Waiting) > 0
	}); waited != nil || err != nil {
		return errors.Join(waited, err)
	}
	_, err = p.ben.SkipWebhook(ctx, "archive", api.WebhookSkipRequest{Account: refused.Standing.Waiting[0].Account})
	return err
}

func (p *people) ended(ctx context.Context, id string) (err error) {
	waited := p.scene.Await(ctx, func() bool {
		var j api.Job
		j, err = p.anna.Job(ctx, id)
		return err != nil || j.State == job.Ended
	})
	return errors.Join(waited, err)
}

// halfway stores a job that a process of another machine is said to be at: in a scene of this size every job
// ends at once. Nobody here takes it, because its lease lasts longer than the scene.
func (p *people) halfway(ctx context.Context) error {
	redis, err := connect.OpenSingle(p.scene.Server.URL(), connect.Options{})
	if err != nil {
		return err
	}
	defer redis.Close()
	ring, err := circulate.Open(ctx, redis, circulate.Options{})
	if err != nil {
		return err
	}
	now, err := ring.Now(ctx, 0)
	if err != nil {
		return err
	}
	j := job.Job{
		ID: "k3m7q2x5v9wa", State: job.Running, Created: now.Add(-20 * time.Second), Began: now.Add(-18 * time.Second),
		Order: job.Order{Action: accounts.SetAll, Select: map[string][]string{"kind": {"feed"}}, Set: json.RawMessage(`{"priority":"urgent"}`), By: "anna", Via: access.ViaSession},
		Seen:  236, Matched: 177, Changed: 159, Unchanged: accounts.Reasons{"same": {Count: 18, Examples: []string{"press-0001", "city-0021"}}},
		Shards: 4, Shard: 3, Runner: "rounds-b", Until: now.Add(time.Hour),
	}
	text, err := json.Marshal(&j)
	if err != nil {
		return err
	}
	_, err = document.Of(ring).Jobs().Put(ctx, document.Job{ID: j.ID, Text: text}, document.JobChange{Life: 24 * time.Hour})
	return err
}

// read has two programs read messages as groups until ctx is done.
func (p *people) read(ctx context.Context) {
	for _, group := range []string{"crm-sync", "search-index"} {
		go func() {
			err := p.anna.Consume(ctx, group, "start", false, 0, func(api.GroupMessage) error { return nil }, func(error, time.Duration) {})
			if err != nil && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "the group %s ends: %v\n", group, err)
			}
		}()
	}
}

// work lets the service run, and has people do what pages show meanwhile.
func (p *people) work(ctx context.Context, failing []scene.Failing, o order) error {
	i := slices.IndexFunc(failing, func(f scene.Failing) bool { return f.ID == o.account })
	if i < 0 {
		return fmt.Errorf("%s does not fail", o.account)
	}
	p.read(ctx)
	patch := func(calls *client.Client, fields map[string]any) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := calls.Patch(ctx, o.account, fields)
			return err
		}
	}
	steps := []func(context.Context) error{
		p.care, p.support, patch(p.mei, map[string]any{"labels": map[string]any{"desk": "culture"}, "priority": "urgent"}), p.answer,
		patch(p.mei, map[string]any{"config": map[string]any{"url": failing[i].Right}}), func(ctx context.Context) error { return p.ben.Nudge(ctx, o.account, api.NudgeRequest{}) },
		p.pause, p.halfway, p.set, patch(p.anna, map[string]any{"cadence": "every 20s"}), p.forbidden, p.skip,
		func(ctx context.Context) error { _, err := p.anna.AccountChecks(ctx, o.account); return err }, // from now on they are reported
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
		if err := wait(ctx, o.wait/time.Duration(len(steps))); err != nil {
			return err
		}
	}
	return nil
}

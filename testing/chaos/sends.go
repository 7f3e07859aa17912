package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	sendCallers  = 4                      // who ask for sends
	sendEvery    = 200 * time.Millisecond // each of them
	sendAgain    = 200 * time.Millisecond // after which a caller without an answer repeats its request
	sendPeers    = 3                      // of each account
	sendsWithin  = 90 * time.Second       // after the end, until every send has ended or is unknown
	spareOfSpans = time.Second            // by which a time in which Redis loses writes is taken to be longer
)

// sent is a send as its caller knows it.
type sent struct {
	account, peer string
	key           string    // its Idempotency-Key, and its text
	number        int       // later ones of a peer have higher numbers
	began, ended  time.Time // of its requests
	id            string    // "": nobody said that it was taken over
	state         string    // at the end; "": there is no such send
	wrong         string    // what no answer may say
}

// arrival is a send that the third party took.
type arrival struct {
	id, to string
	at     time.Time
}

// sends are all that callers asked for.
type sends struct {
	url  string
	http *http.Client

	mu  sync.Mutex
	all []*sent
}

func newSends(url string) *sends {
	return &sends{url: url, http: &http.Client{Timeout: 3 * time.Second}}
}

// canSend reports whether a binary can send.
func canSend(binary string) bool {
	out, err := exec.Command(binary, "sends", "--help").CombinedOutput()
	return err == nil && bytes.Contains(out, []byte("resolve"))
}

// run asks for sends of accounts until ctx is done. Each request is repeated until there is an answer,
// whatever becomes of its replies, so a peer's sends are asked for in order.
func (s *sends) run(ctx context.Context, name string, accounts []string, random *rand.Rand) {
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		one := &sent{account: accounts[random.IntN(len(accounts))], peer: fmt.Sprint("peer", random.IntN(sendPeers)), key: fmt.Sprint(name, "-", n), number: n, began: time.Now()}
		s.mu.Lock()
		s.all = append(s.all, one)
		s.mu.Unlock()
		s.ask(ctx, one)
	}
}

// ask asks for a send until somebody answers, or ctx is done. Then one of its requests may have been
// obeyed.
func (s *sends) ask(ctx context.Context, one *sent) {
	body, _ := json.Marshal(map[string]any{"to": one.peer, "data": map[string]string{"text": one.key}}) // plain strings are always marshalled
	for {
		status, answer := s.call(http.MethodPost, "/v1/accounts/"+one.account+"/sends", one.key, body)
		s.mu.Lock()
		one.ended = time.Now()
		switch {
		case status == http.StatusAccepted:
			one.id = answer.ID
		case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
			one.wrong = fmt.Sprintf("was answered %d", status)
		}
		known := one.id != "" || one.wrong != ""
		s.mu.Unlock()
		if known {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(sendAgain):
		}
	}
}

// answered is what the API says of a send.
type answered struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

// call makes a request. A status of 0 says that there is no answer.
func (s *sends) call(method, path, key string, body []byte) (status int, answer answered) {
	request, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, answered{}
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
		request.Header.Set("Content-Type", "application/json")
	}
	reply, err := s.http.Do(request)
	if err != nil {
		return 0, answered{}
	}
	defer reply.Body.Close()
	if text, err := io.ReadAll(reply.Body); err != nil || json.Unmarshal(text, &answer) != nil {
		return 0, answered{}
	}
	return reply.StatusCode, answer
}

// settle waits until every send has ended or is unknown, and notes what each is.
func (s *sends) settle(ctx context.Context) {
	s.mu.Lock()
	waiting := slices.Clone(s.all)
	s.mu.Unlock()
	for until := time.Now().Add(sendsWithin); len(waiting) > 0 && time.Now().Before(until) && ctx.Err() == nil; {
		waiting = slices.DeleteFunc(waiting, func(one *sent) bool {
			if one.id == "" {
				return true
			}
			status, answer := s.call(http.MethodGet, "/v1/sends/"+one.id, "", nil)
			switch status {
			case http.StatusOK:
				one.state = answer.State
				return one.state != "queued" && one.state != "attempting"
			case http.StatusNotFound:
				one.state = ""
				return true
			}
			return false
		})
		if len(waiting) > 0 {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// routeSend is where connectors take sends.
const routeSend = "send"

// takes is a connector's answer to a send. Some are refused, some answers are cut before the send is
// taken and some after it, and others take a while.
func (t *third) takes(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ID   string `json:"send_id"`
		To   string `json:"to"`
		Data struct {
			Text string `json:"text"`
		} `json:"data"`
		Attempt int `json:"attempt"`
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil || json.Unmarshal(text, &request) != nil {
		return // it has not arrived
	}
	said := func(body string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
	chance := crc32.ChecksumIEEE(fmt.Append(nil, request.Data.Text, request.Attempt)) % 100
	switch {
	case chance < 4:
		said(`{"error":{"kind":"rate_limited","code":"busy"},"retry_after":1}`)
		return
	case chance < 7:
		said(`{"error":{"kind":"rejected","code":"blocked"}}`)
		return
	case chance < 10:
		panic(http.ErrAbortHandler)
	}
	t.mu.Lock()
	t.arrivals[request.Data.Text] = append(t.arrivals[request.Data.Text], arrival{request.ID, request.To, time.Now()})
	t.mu.Unlock()
	if chance < 14 {
		panic(http.ErrAbortHandler)
	}
	time.Sleep(time.Duration(chance) * 3 * time.Millisecond)
	said(`{"id":"v` + request.ID + `"}`)
}

// tally is what became of the sends of a run.
type tally struct {
	Asked    int `json:"asked"`
	Taken    int `json:"taken_over"`
	Arrived  int `json:"arrived"`
	Doubts   int `json:"unknown"`
	Doubled  int `json:"doubled_redis_having_lost_writes"`
	Missing  int `json:"lost_redis_having_lost_writes"`
	Rejected int `json:"rejected"`
}

func (t *tally) add(other *tally) {
	t.Asked += other.Asked
	t.Taken += other.Taken
	t.Arrived += other.Arrived
	t.Doubts += other.Doubts
	t.Doubled += other.Doubled
	t.Missing += other.Missing
	t.Rejected += other.Rejected
}

// judgeSends compares what callers asked for, what the API says at the end, and what the third party
// took. In the spans Redis may have lost writes. If durable, no attempt was lost all the same, because
// a replica waited until Redis had it on its disk. In the times of allowed, a poller that is cut from
// its attempts may make calls late.
func judgeSends(all []*sent, arrivals map[string][]arrival, allowed []*excuse, lost []span, durable bool, fault func(time.Time, string, ...any)) *tally {
	total := &tally{}
	last := make(map[string]*sent) // by account and peer: the last that arrived
	var order []*sent
	for _, one := range all {
		total.Asked++
		took := arrivals[one.key]
		total.Arrived += len(took)
		may := exposed(one, took, lost)
		if one.wrong != "" && !may {
			fault(one.began, "sends: %s of %s %s", one.key, one.account, one.wrong)
		}
		if len(took) > 1 {
			switch {
			case may && !durable:
				total.Doubled++
			default:
				fault(took[1].at, "sends: %s of %s arrived %d times, and is %s", one.key, one.account, len(took), one.state)
			}
		}
		if len(took) > 0 && took[0].to != one.peer {
			fault(took[0].at, "sends: %s of %s arrived at %s, and was for %s", one.key, one.account, took[0].to, one.peer)
		}
		if len(took) > 0 {
			order = append(order, one)
		}
		if one.id == "" {
			continue
		}
		total.Taken++
		switch {
		case one.state == "unknown":
			total.Doubts++
		case one.state == "accepted" && len(took) > 0:
		case one.state == "rejected" && len(took) == 0:
			total.Rejected++
		case may:
			total.Missing++
		default:
			fault(one.ended, "sends: %s of %s arrived %d times, and is %q", one.key, one.account, len(took), one.state)
		}
	}
	slices.SortStableFunc(order, func(a, b *sent) int { return arrivals[a.key][0].at.Compare(arrivals[b.key][0].at) })
	for _, one := range order {
		line := one.account + " " + one.peer
		before := last[line]
		if before == nil || before.number < one.number {
			last[line] = one
			continue
		}
		// An unknown one does not hold up its peer, and may come late. Its end may be known since.
		at := arrivals[one.key][0].at
		late := slices.ContainsFunc(allowed, func(e *excuse) bool { return !at.Before(e.from) && !at.After(e.to) })
		if one.state != "unknown" && !late && !exposed(one, arrivals[one.key], lost) && !exposed(before, arrivals[before.key], lost) {
			fault(at, "sends: %s of %s arrived after %s", one.key, one.account, before.key)
		}
	}
	return total
}

// exposed reports whether a send was under way while Redis lost writes.
func exposed(one *sent, took []arrival, lost []span) bool {
	times := []time.Time{one.began, one.ended}
	for _, a := range took {
		times = append(times, a.at)
	}
	return slices.ContainsFunc(lost, func(s span) bool {
		s.from, s.to = s.from.Add(-spareOfSpans), s.to.Add(spareOfSpans)
		return slices.ContainsFunc(times, s.has)
	})
}

// keepsAttempts reports whether Redis can say that an attempt is on its disk, and keeps what is there:
// it is one server, because a replica that takes its master's place may lack it.
func (w *world) keepsAttempts() bool {
	if w.redis == nil {
		return false
	}
	known, err := redis.Values(w.admin("COMMAND", "INFO", "WAITAOF"))
	return err == nil && len(known) == 1 && known[0] != nil
}

// judgeSent judges the sends of a world, or returns nil if it has none.
func (w *world) judgeSent(allowed []*excuse, lost []span, fault func(time.Time, string, ...any)) *tally {
	if w.sends == nil {
		return nil
	}
	w.third.mu.Lock()
	defer w.third.mu.Unlock()
	return judgeSends(w.sends.all, w.third.arrivals, allowed, lost, w.keepsAttempts(), fault)
}

// senders returns the accounts that can send, apart for each caller.
func (w *world) senders(caller int) (ids []string) {
	n := 0
	for _, id := range w.base {
		if strings.HasPrefix(id, "http-") {
			if n%sendCallers == caller {
				ids = append(ids, id)
			}
			n++
		}
	}
	return ids
}

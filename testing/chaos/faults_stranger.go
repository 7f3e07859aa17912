package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// ofStrangers are acts of third parties and callers that are not only broken but
// malicious, or that a service with little patience takes for its own fault.
func ofStrangers() []fault {
	return []fault{
		{name: "check-hostile", invariant: "I4 I6", sign: counter(rolePoller, "rounds_checks_total", `outcome="protocol"`), inject: hostileBodies},
		{name: "check-endless", invariant: "I1 I5 I6", sign: counter(rolePoller, "rounds_put_back_total", `reason="redis-memory"`), inject: endlessConnector, mend: roomAgain},
		{name: "hosts-two-stay-dead", invariant: "I6", sign: counter(rolePoller, "rounds_outage_suspected"), inject: twoStayDead},
		{name: "api-half-open", invariant: "I5 I6", sign: counter(roleAPI, "rounds_http_connections_closed_total").times(50), inject: halfOpen},
	}
}

// hostileBodies has some feeds answer with bodies that are made to exhaust their reader.
// Every poller must survive them.
func hostileBodies(t *turn) (func() error, error) {
	var ids []string
	for _, id := range t.some(len(t.base)) {
		if len(ids) < 5 && strings.HasPrefix(id, "feed-") {
			ids = append(ids, id)
		}
	}
	t.hits(ids...)
	bodies := hostiles()
	for i, id := range ids {
		t.third.beWicked([]string{id}, bodies[i%len(bodies)])
	}
	return t.goodAgain(ids), t.last(5 * time.Second)
}

// endlessConnector adds an account that always has more messages to a Redis with little
// memory left. The other accounts must still be checked.
func endlessConnector(t *turn) (func() error, error) {
	const spare = 24 << 20
	used, err := t.usedMemory()
	if err != nil {
		return nil, err
	}
	id := endlessPrefix + strconv.Itoa(t.number)
	t.third.beWicked([]string{id}, endless())
	heal := func() error {
		// First the account is deregistered. That must work on a Redis without free
		// memory too.
		if outcome, status := t.clients.request(t, deregister, id); outcome != done {
			t.fail(fmt.Sprintf("I6: an account that fills Redis cannot be deregistered: %s, %d", outcome, status))
		}
		return t.set("maxmemory", "0")
	}
	if err := t.set("maxmemory-policy", "noeviction", "maxmemory", strconv.Itoa(used+spare)); err != nil {
		return heal, err
	}
	if outcome, status := t.clients.request(t, register, id); outcome != done {
		return heal, fmt.Errorf("register %s: %s, %d", id, outcome, status)
	}
	before := t.snap(t)
	t.untilWithin(20*time.Second, func() bool { return t.fault.sign.shown(before, t.snap(t)) || t.last(signEvery) != nil })
	return heal, t.last(2 * time.Second)
}

// roomAgain waits until every poller claims again. Each finds that out by itself.
func roomAgain(t *turn) error {
	short := counter(rolePoller, "rounds_redis_memory_short")
	if !t.untilWithin(wholeWithin, func() bool { return short.of(t.snap(t)).grown(nil) == 0 }) {
		return fmt.Errorf("pollers hold back %v after there was room", wholeWithin)
	}
	return t.Err()
}

func (t *turn) usedMemory() (int, error) {
	text, err := redis.String(t.admin("INFO", "memory"))
	if err != nil {
		return 0, err
	}
	_, after, found := strings.Cut(text, "\nused_memory:")
	if !found {
		return 0, errors.New("INFO memory has no used_memory")
	}
	return strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]))
}

// twoStayDead has all hosts refuse connections until pollers believe that their own
// network is down. Then one host is back, and two stay dead. The accounts of the one must
// be checked as usual, though most hosts cannot be reached.
func twoStayDead(t *turn) (func() error, error) {
	if err := t.untilUnsuspected(); err != nil {
		return nil, err
	}
	hosts := slices.Clone(t.third.hosts)
	t.random.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	t.injected = time.Now()
	for _, h := range hosts {
		h.down()
	}
	up := func(hosts ...*host) error {
		var errs []error
		for _, h := range hosts {
			errs = append(errs, t.third.up(h))
		}
		return errors.Join(errs...)
	}
	suspected := t.untilSuspected()
	if err := errors.Join(suspected, up(hosts[0])); err != nil {
		return func() error { return up(hosts[1:]...) }, err
	}
	back := time.Now()
	alive := slices.DeleteFunc(slices.Clone(t.base), func(id string) bool { return t.usual[id].host != hosts[0] })
	whole := t.untilWithin(wholeWithin, func() bool {
		is, usually := t.rate(alive)
		return is >= fullShare*usually && len(t.third.unchecked(alive, back)) == 0
	})
	if !whole {
		is, usually := t.rate(alive)
		t.fail(fmt.Sprintf("I6: the host that is back has %.0f checks a second after %v, of %.0f usual ones", is, wholeWithin, usually))
	}
	return func() error { return up(hosts[1:]...) }, t.Err()
}

// halfOpen has more callers than the API has connections begin a request and then stop.
// Other callers must still be served.
func halfOpen(t *turn) (func() error, error) {
	const callers = 600 // apiConnections and some more
	addr := t.member("api-0").addr
	var open []net.Conn
	heal := func() error {
		for _, conn := range open {
			_ = conn.Close()
		}
		return nil
	}
	for i := range callers {
		conn, err := net.DialTimeout("tcp", addr, 2*time.Second)
		if err != nil {
			return heal, err
		}
		open = append(open, conn)
		half := "POST /v1/accounts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
		if i%3 == 0 {
			half = half[:40] // in the middle of the headers
		}
		_, _ = conn.Write([]byte(half)) // the API may have closed it to make room
	}
	if err := t.last(3 * time.Second); err != nil {
		return heal, err
	}
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for range 5 {
		answer, err := client.Get("http://" + addr + "/v1/accounts/" + t.base[0])
		if err != nil {
			t.fail(fmt.Sprintf("I6: the API does not answer a new caller while %d keep silent: %v", callers, err))
			break
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.fail(fmt.Sprintf("I6: the API answers %d while %d callers keep silent", answer.StatusCode, callers))
		}
	}
	return heal, nil
}

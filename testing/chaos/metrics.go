package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// snapshot is all that can be read of the metrics at one moment.
type snapshot struct {
	pages   map[string]page   // by process
	servers map[string]string // INFO of each server of Redis, by address
}

// page is what a process returns for /metrics.
type page struct{ role, text string }

// snap reads the metrics of all processes that answer, and INFO where a sign needs it.
func (w *world) snap(ctx context.Context) snapshot {
	s := snapshot{pages: make(map[string]page), servers: make(map[string]string)}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, m := range w.ofRole("") {
		all.Go(func() {
			if text, err := get(ctx, "http://"+m.addr+"/metrics"); err == nil {
				mu.Lock()
				s.pages[m.process.id] = page{m.role, text}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if w.sentinels != nil {
		for _, server := range w.store.servers() {
			if text, err := redis.String(ask(server, time.Second, "INFO", "replication")); err == nil {
				s.servers[server.Addr()] = text
			}
		}
	}
	return s
}

// reading is a figure of each process, by process.
type reading map[string]float64

// grown adds up by how much the figures grew. A figure that was missing before began at
// 0.
func (r reading) grown(before reading) float64 {
	total := 0.0
	for name, now := range r {
		total += max(0, now-before[name])
	}
	return total
}

// sign is what an operator sees of a fault: a figure that grows by a least amount.
type sign struct {
	name  string
	least float64 // 0: any growth
	of    func(s snapshot) reading
}

// shown reports whether the sign moved from one moment to another.
func (s sign) shown(before, now snapshot) bool {
	grown := s.of(now).grown(s.of(before))
	return grown > 0 && grown >= s.least
}

// times makes a sign need a least growth, for a figure that also grows without the fault,
// but less.
func (s sign) times(least float64) sign {
	s.name, s.least = s.name+" by "+strconv.FormatFloat(least, 'f', -1, 64), least
	return s
}

// scraped is a figure of the pages of a role, or of all roles if it is empty.
func scraped(name, role string, figure func(text string) float64) sign {
	return sign{name: name, of: func(s snapshot) reading {
		r := reading{}
		for process, page := range s.pages {
			if role == "" || page.role == role {
				r[process] = figure(page.text)
			}
		}
		return r
	}}
}

// counter is a metric of a role's processes: the sum over the series that have all of
// some labels, given as name="value".
func counter(role, metric string, labels ...string) sign {
	name := metric
	if len(labels) > 0 {
		name += "{" + strings.Join(labels, ",") + "}"
	}
	return scraped(name, role, func(text string) float64 { return sum(text, metric, labels) })
}

// above is how many observations of a histogram were above one of its bounds.
func above(role, histogram, bound string) sign {
	return scraped(histogram+" above "+bound, role, func(text string) float64 {
		return sum(text, histogram+"_count", nil) - sum(text, histogram+"_bucket", []string{`le="` + bound + `"`})
	})
}

// lost and left are processes of a role that a monitor counts: those that went silent,
// and those that ended properly.
func lost(role string) sign {
	return counter(roleMonitor, "rounds_processes_lost_total", `roles="`+role+`"`)
}

func left(role string) sign {
	return counter(roleMonitor, "rounds_processes_left_total", `roles="`+role+`"`)
}

// withoutReplica is 1 for a master that no replica follows. It is Redis' own metric,
// because nothing of it reaches the service.
func withoutReplica() sign {
	return sign{name: "redis INFO connected_slaves is 0", of: func(s snapshot) reading {
		r := reading{}
		for server, text := range s.servers {
			r[server] = 0
			if strings.Contains(text, "role:master\r\nconnected_slaves:0\r\n") {
				r[server] = 1
			}
		}
		return r
	}}
}

// sum adds up the series of a metric, in Prometheus' text form.
func sum(text, metric string, labels []string) float64 {
	total := 0.0
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), metric)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		space := strings.LastIndexByte(rest, ' ')
		matches := true
		for _, label := range labels {
			matches = matches && strings.Contains(rest[:space], label)
		}
		if n, err := strconv.ParseFloat(rest[space+1:], 64); err == nil && matches {
			total += n
		}
	}
	return total
}

// signsOf returns each sign of some faults once.
func signsOf(faults []fault) []sign {
	var signs []sign
	for _, f := range faults {
		if f.sign.of != nil && !slices.ContainsFunc(signs, func(s sign) bool { return s.name == f.sign.name }) {
			signs = append(signs, f.sign)
		}
	}
	return signs
}

// get returns the body of a GET that was answered with 200 within a second.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = &statusError{answer.StatusCode}
	}
	return string(body), err
}

type statusError struct{ status int }

// Error names the status.
func (e *statusError) Error() string { return "answered " + strconv.Itoa(e.status) }

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// reading is a figure of each process, by process.
type reading map[string]float64

// moved reports whether any process' figure grew. One that was not there before
// began at 0.
func (r reading) moved(before reading) bool {
	for name, now := range r {
		if now > before[name] {
			return true
		}
	}
	return false
}

// sign is what an operator sees of a fault.
type sign struct {
	name string
	read func(ctx context.Context, w *world) reading
}

// counter is a metric of a role's processes, the sum over the series that have
// all of some labels, given as name="value".
func counter(role, metric string, labels ...string) sign {
	name := metric
	if len(labels) > 0 {
		name += "{" + strings.Join(labels, ",") + "}"
	}
	return sign{name, func(ctx context.Context, w *world) reading {
		return w.scrape(ctx, role, func(text string) float64 { return sum(text, metric, labels) })
	}}
}

// above is how many observations of a histogram were more than one of its bounds.
func above(role, histogram, bound string) sign {
	return sign{histogram + " above " + bound, func(ctx context.Context, w *world) reading {
		return w.scrape(ctx, role, func(text string) float64 {
			return sum(text, histogram+"_count", nil) - sum(text, histogram+"_bucket", []string{`le="` + bound + `"`})
		})
	}}
}

// down is Prometheus' own metric up: 1 here while a process cannot be scraped.
func down(role string) sign {
	return sign{"up == 0 (" + role + ")", func(ctx context.Context, w *world) reading {
		r := reading{}
		for _, m := range w.ofRole(role) {
			if _, err := get(ctx, "http://"+m.addr+"/metrics"); err != nil {
				r[m.name] = 1
			}
		}
		return r
	}}
}

// logged is how often a text is in a role's logs.
func logged(role, text string) sign {
	return sign{"log: " + text, func(_ context.Context, w *world) reading {
		r := reading{}
		for _, p := range w.everyProcess(role) {
			r[p.id] = float64(p.LogCount(text))
		}
		return r
	}}
}

// errorStat is how often Redis answered with an error, as its servers' INFO has it.
func errorStat(code string) sign {
	return sign{"redis INFO errorstat_" + code, func(_ context.Context, w *world) reading {
		return w.info("errorstats", "errorstat_"+code+":count=", func(n float64) float64 { return n })
	}}
}

// withoutReplica is 1 of a master that no replica follows.
func withoutReplica() sign {
	return sign{"redis INFO connected_slaves is 0", func(_ context.Context, w *world) reading {
		return w.info("replication", "role:master\r\nconnected_slaves:", func(n float64) float64 { return 1 - min(n, 1) })
	}}
}

// info reads a field of the INFO of all servers that answer; not of those that lack
// it.
func (w *world) info(section, field string, of func(float64) float64) reading {
	r := reading{}
	for _, s := range w.store.servers() {
		text, err := redis.String(ask(s, time.Second, "INFO", section))
		if err != nil {
			continue
		}
		if _, after, found := strings.Cut(text, field); found {
			n, _ := strconv.ParseFloat(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]), 64)
			r[s.Addr()] = of(n)
		}
	}
	return r
}

// sentinelsAway is redis_exporter's metric for servers that do not answer: 1 here
// of each sentinel.
func sentinelsAway() sign {
	return sign{"redis_up == 0 (sentinels)", func(_ context.Context, w *world) reading {
		r := reading{}
		for _, one := range w.sentinels.Sentinels {
			if _, err := ask(one, time.Second, "PING"); err != nil {
				r[one.Addr()] = 1
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

func (w *world) scrape(ctx context.Context, role string, figure func(text string) float64) reading {
	r := reading{}
	for _, m := range w.ofRole(role) {
		if text, err := get(ctx, "http://"+m.addr+"/metrics"); err == nil {
			r[m.process.id] = figure(text)
		}
	}
	return r
}

// get is the body of a GET that was answered with 200, within a second.
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

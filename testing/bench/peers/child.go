package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// child is a subject's process, seen from the measuring process.
type child struct {
	spec    spec
	servers []*server // the servers whose processor time is counted
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

// launch starts a subject's process and waits until it is filled.
func launch(ctx context.Context, s spec, servers ...*server) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	c := &child{spec: s, servers: servers, cmd: exec.CommandContext(ctx, self, subjectCommand, string(text))}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = json.NewDecoder(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := c.answer(); err != nil {
		c.close()
		return nil, fmt.Errorf("%s: fill: %w", s.Kind, err)
	}
	return c, nil
}

// close ends the process by closing its input.
func (c *child) close() {
	_ = c.in.Close()
	_ = c.cmd.Wait() // it has sent all its answers
}

func (c *child) answer() (answer, error) {
	var a answer
	if err := c.out.Decode(&a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

func (c *child) order(o order) (answer, error) {
	line, err := json.Marshal(o)
	if err != nil {
		return answer{}, err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return answer{}, err
	}
	a, err := c.answer()
	if err != nil {
		return a, fmt.Errorf("%s: %s: %w", c.spec.Kind, o.Do, err)
	}
	return a, nil
}

// sample has the subject work with some settings and measures it for a while. What
// happens before and after does not count.
func (c *child) sample(name string, s settings, d time.Duration) (sample, error) {
	if _, err := c.order(order{Do: "start", Settings: s}); err != nil {
		return sample{}, err
	}
	before, err := usage(c.servers)
	if err != nil {
		return sample{}, err
	}
	a, err := c.order(order{Do: "measure", For: d})
	if err != nil {
		return sample{}, err
	}
	after, err := usage(c.servers)
	if err != nil {
		return sample{}, err
	}
	if _, err := c.order(order{Do: "stop"}); err != nil {
		return sample{}, err
	}
	if a.Cycles == 0 {
		return sample{}, fmt.Errorf("%s: not one cycle in %v", name, d)
	}
	n := float64(a.Cycles)
	x := sample{
		Name: name, Settings: &s, Rate: n / a.Seconds, RedisCPU: 1e6 * (after.cpu - before.cpu) / n,
		OwnCPU: 1e6 * a.CPU / n, Allocs: a.Allocs / n, Values: a.Values,
	}
	if x.Values == nil {
		x.Values = make(map[string]float64)
	}
	x.Values["commands"] = (after.commands - before.commands) / n // for each cycle
	x.Values["scripts"] = (after.scripts - before.scripts) / n
	return x, nil
}

// stage is one subject with one kind of settings, measured once a round.
type stage struct {
	name     string
	child    *child
	settings settings
	samples  []sample
}

func (s *stage) rates() []float64 { return s.each(func(x sample) float64 { return x.Rate }) }
func (s *stage) cpus() []float64  { return s.each(func(x sample) float64 { return x.RedisCPU }) }

func (s *stage) each(of func(sample) float64) []float64 {
	var values []float64
	for _, x := range s.samples {
		values = append(values, of(x))
	}
	return values
}

// inTurns measures stages round after round and prints their medians.
func (b *bench) inTurns(stages ...*stage) error {
	for range b.rounds {
		for _, s := range stages {
			x, err := s.child.sample(s.name, s.settings, b.each)
			if err != nil {
				return err
			}
			s.samples = append(s.samples, x)
			b.results.sample(x)
		}
	}
	for _, s := range stages {
		b.results.figure(s.name, median(s.rates()), "cycles/s")
		b.results.figure(s.name+"_redis_cpu", median(s.cpus()), "µs/cycle")
		b.results.figure(s.name+"_own_cpu", median(s.each(func(x sample) float64 { return x.OwnCPU })), "µs/cycle")
		b.results.figure(s.name+"_allocs", median(s.each(func(x sample) float64 { return x.Allocs })), "allocations/cycle")
	}
	return nil
}

// try measures settings, each for a while.
func (b *bench) try(c *child, name string, candidates []settings) ([]sample, error) {
	var tried []sample
	for _, s := range candidates {
		x, err := c.sample(name+"_tried", s, max(b.each/3, 500*time.Millisecond))
		if err != nil {
			return nil, err
		}
		b.results.note("%s tried %v: %.0f cycles/s", name, s, x.Rate)
		b.results.sample(x)
		tried = append(tried, x)
	}
	return tried, nil
}

// tried is the result of each of some settings in a process.
type tried struct {
	child  *child
	sample sample
}

// grid tries the same settings with each of some processes.
func (b *bench) grid(name string, candidates []settings, children ...*child) ([]tried, error) {
	var all []tried
	for _, c := range children {
		samples, err := b.try(c, fmt.Sprintf("%s_%d_queues", name, max(1, c.spec.Queues)), candidates)
		if err != nil {
			return nil, err
		}
		for _, x := range samples {
			all = append(all, tried{c, x})
		}
	}
	b.results.figure(name+"_settings_tried", float64(len(all)), "settings of which the best goes on")
	return all, nil
}

// best returns a stage with the settings that reached the most cycles, among those with
// so many servers; 0: any.
func best(name string, all []tried, servers int) *stage {
	var most tried
	for _, x := range all {
		if x.sample.Rate > most.sample.Rate && (servers == 0 || x.sample.Settings.Servers == servers) {
			most = x
		}
	}
	return &stage{name: name, child: most.child, settings: *most.sample.Settings}
}

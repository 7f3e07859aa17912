package main

import (
	"context"
	"fmt"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/rounds-dev/rounds/testing/ports"
)

// proxies stand between processes and Redis, one for each process.
type proxies struct {
	server *toxiproxy.ApiServer
	byName map[string]*toxiproxy.Proxy
	target string
}

func newProxies(target string) *proxies {
	zerolog.SetGlobalLevel(zerolog.Disabled) // toxics log to a logger that cannot be replaced
	return &proxies{
		server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop()),
		byName: make(map[string]*toxiproxy.Proxy), target: target,
	}
}

// open returns the address at which a process finds Redis.
func (p *proxies) open(name string) (string, error) {
	if known := p.byName[name]; known != nil {
		return known.Listen, nil
	}
	addr, err := ports.Address()
	if err != nil {
		return "", err
	}
	proxy := toxiproxy.NewProxy(p.server, name, addr, p.target)
	if err := proxy.Start(); err != nil {
		return "", fmt.Errorf("proxy %s: %w", name, err)
	}
	p.byName[name] = proxy
	return proxy.Listen, nil
}

// toxin adds a toxic to the connections of some processes. Attributes are JSON; stream is
// upstream (requests) or downstream (replies).
func (p *proxies) toxin(names []string, kind, stream, attributes string) error {
	for _, name := range names {
		text := fmt.Sprintf(`{"type":%q,"stream":%q,"attributes":%s}`, kind, stream, attributes)
		if _, err := p.byName[name].Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
			return fmt.Errorf("toxic %s on %s: %w", kind, name, err)
		}
	}
	return nil
}

// purge removes all toxics.
func (p *proxies) purge(names []string) error {
	for _, name := range names {
		p.byName[name].Toxics.ResetToxics(context.Background())
	}
	return nil
}

// refuse closes the processes' connections and accepts no more, until accept is called.
func (p *proxies) refuse(names []string) error {
	for _, name := range names {
		p.byName[name].Stop()
	}
	return nil
}

func (p *proxies) accept(names []string) error {
	for _, name := range names {
		if err := p.byName[name].Start(); err != nil {
			return fmt.Errorf("proxy %s: %w", name, err)
		}
	}
	return nil
}

func (p *proxies) close() {
	for _, proxy := range p.byName {
		proxy.Stop()
	}
}

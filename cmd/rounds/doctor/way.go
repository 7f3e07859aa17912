package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	// hostsTried is the most hosts that are tried.
	hostsTried = 8
	hostWithin = 4 * time.Second
)

// wayOut checks whether third parties can be reached from here, under the rule for networks.
func (d *doctor) wayOut(ctx context.Context, known knowledge) {
	const part = "way out"
	client, err := service.NewClient(d.Settings.Poller, d.Service)
	if err != nil {
		d.skip(part, "the settings do not say which way")
		return
	}
	defer client.Close()
	ways, _ := egress.Parse(d.Settings.Poller.Egress) // NewClient has found its faults
	for _, way := range ways.All() {
		d.named(ctx, way)
	}
	if proxy := d.Settings.Poller.Proxy; proxy != "" {
		d.proxy(ctx, proxy)
		return
	}
	hosts, err := d.hosts(ctx, known)
	if err != nil {
		d.fault(part, err.Error(), "")
	}
	if len(hosts) == 0 && (known.list == nil || err != nil) {
		d.skip(part, "which hosts the accounts name could not be read")
		return
	}
	if len(hosts) == 0 {
		d.skip(part, "no account or webhook names a host")
		return
	}
	tried := make([]Check, len(hosts))
	var dials sync.WaitGroup
	for i, host := range hosts {
		dials.Go(func() { tried[i] = dial(ctx, client, host) })
	}
	dials.Wait()
	for _, c := range tried {
		d.add(c)
	}
}

// dial tries one host. A refusal by the rule does not show whether the host can be reached.
func dial(ctx context.Context, client *fetch.Client, host string) Check {
	const part = "way out"
	ctx, cancel := context.WithTimeout(ctx, hostWithin)
	defer cancel()
	began := time.Now()
	conn, err := client.Dial(egress.For(ctx, new(egress.Account)), host)
	var unknown *net.DNSError
	switch {
	case err == nil:
		_ = conn.Close()
		return Check{part, ok, fmt.Sprintf("%s was reached within %v", host, max(time.Since(began).Round(time.Millisecond), time.Millisecond)), ""}
	case errors.Is(err, fetch.ErrRefusedAddress), errors.Is(err, fetch.ErrPrivate):
		return Check{part, warning, fmt.Sprintf("%s: %v", host, err), "run doctor with the settings of rounds serve; if it is refused there too, name " + host + " in ROUNDS_ALLOW_NETWORKS, or correct the account or webhook"}
	case errors.As(err, &unknown):
		return Check{part, warning, fmt.Sprintf("%s: its name is not resolved: %v", host, err), "see DNS on this machine, and whether " + host + " is written correctly"}
	}
	return Check{part, warning, fmt.Sprintf("%s: %v", host, err), "see whether " + host + " is up, and what a firewall between here and there allows"}
}

// proxy tries the proxy, which resolves and reaches all other hosts.
func (d *doctor) proxy(ctx context.Context, proxy string) {
	const part = "way out"
	u, err := url.Parse(proxy)
	if err != nil || u.Hostname() == "" {
		d.skip(part, "ROUNDS_PROXY cannot be read")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hostWithin)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", secrets.HostOf(u))
	if err != nil {
		d.fault(part, fmt.Sprintf("the proxy of ROUNDS_PROXY cannot be reached: %v", err), "start the proxy, or correct ROUNDS_PROXY")
		return
	}
	_ = conn.Close()
	d.ok(part, "the proxy at "+secrets.HostOf(u)+" was reached; it resolves and reaches all other hosts, which were not tried")
}

// named tries a way of ROUNDS_EGRESS as far as its proxy, or its source address.
func (d *doctor) named(ctx context.Context, way egress.Way) {
	part, where := "way out "+way.Name, way.Where()
	ctx, cancel := context.WithTimeout(ctx, hostWithin)
	defer cancel()
	switch {
	case way.Proxy != nil:
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", way.Proxy.Host)
		if err != nil {
			d.fault(part, fmt.Sprintf("the proxy at %s cannot be reached, so its accounts wait: %v", where, err), "start the proxy, or correct ROUNDS_EGRESS")
			return
		}
		_ = conn.Close()
		d.ok(part, "the proxy at "+where+" was reached; it was not asked for a host")
	case way.Source.IsValid():
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(way.Source.String(), "0"))
		if err != nil {
			d.fault(part, fmt.Sprintf("%s is no address of this machine, so its accounts wait: %v", where, err), "give the machine the address, or correct ROUNDS_EGRESS")
			return
		}
		_ = listener.Close()
		d.ok(part, where+" is an address of this machine")
	default:
		d.ok(part, "it has no proxy")
	}
}

// hosts returns some hosts that accounts and webhooks name, as HOST:PORT.
func (d *doctor) hosts(ctx context.Context, known knowledge) ([]string, error) {
	urls, err := service.Webhooks(d.Settings, d.Service)
	if err != nil {
		urls = nil // a fault of the settings, which is listed elsewhere
	}
	var failed error
	if known.list != nil {
		ctx, cancel := context.WithTimeout(ctx, d.Within)
		defer cancel()
		all, err := known.list(ctx)
		failed = err
		for i := range all {
			urls = append(urls, urlsOf(all[i].Config)...)
		}
	}
	var hosts []string
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			continue
		}
		if at := secrets.HostOf(u); !slices.Contains(hosts, at) && len(hosts) < hostsTried {
			hosts = append(hosts, at)
		}
	}
	return hosts, failed
}

// urlsOf returns the texts of a config that may be URLs.
func urlsOf(config json.RawMessage) (urls []string) {
	walk(config, func(value any) {
		if text, ok := value.(string); ok {
			urls = append(urls, text)
		}
	})
	return urls
}

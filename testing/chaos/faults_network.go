package main

import "time"

// ofNetwork are the faults between processes and Redis.
func ofNetwork() []fault {
	failed := counter(rolePoller, "rounds_redis_errors_total")
	orphaned := counter(roleMonitor, "rounds_requeued_total", `reason="orphaned"`)
	late := above(rolePoller, "rounds_redis_call_seconds", "0.256").times(3)
	sweeps := counter(roleMonitor, "rounds_sweeps_total", `outcome="failed"`)
	long := deadAfter + 1500*time.Millisecond
	return []fault{
		{name: "net-latency", invariant: "I3 I6", sign: late, inject: toxin(rolePoller, "latency", "downstream", `{"latency":300,"jitter":150}`, 3*time.Second)},
		{name: "net-slow-drip", invariant: "I3 I6", straggler: true, sign: above(rolePoller, "rounds_redis_call_seconds", "0.512").times(2), inject: toxin(rolePoller, "bandwidth", "downstream", `{"rate":1}`, 4*time.Second)},
		{name: "net-fragments", invariant: "I3", sign: late, inject: toxin(rolePoller, "slicer", "downstream", `{"average_size":20,"size_variation":10,"delay":30000}`, 3*time.Second)},
		{name: "net-reset", invariant: "I1 I3", sign: failed, straggler: true, inject: toxin(rolePoller, "reset_peer", "downstream", `{"timeout":0}`, 3*time.Second)},
		{name: "net-reset-requests", invariant: "I1 I3", sign: failed, straggler: true, inject: toxin(rolePoller, "reset_peer", "upstream", `{"timeout":20}`, 3*time.Second)},
		{name: "net-replies-cut", invariant: "I1 I3 I4", sign: failed, straggler: true, inject: toxin(rolePoller, "limit_data", "downstream", `{"bytes":1500}`, 3*time.Second)},
		{name: "net-requests-cut", invariant: "I1 I3 I4", sign: failed, straggler: true, inject: toxin(rolePoller, "limit_data", "upstream", `{"bytes":2500}`, 3*time.Second)},
		{name: "net-requests-lost", invariant: "I2 I3", sign: orphaned, straggler: true, inject: toxin(rolePoller, "timeout", "upstream", `{"timeout":0}`, long)},
		{name: "net-replies-lost", invariant: "I3 I4", sign: failed, straggler: true, inject: toxin(rolePoller, "timeout", "downstream", `{"timeout":0}`, long)},
		{name: "net-replies-lost-long", invariant: "I3 I4", sign: failed, straggler: true, inject: toxin(rolePoller, "timeout", "downstream", `{"timeout":0}`, longTimeout+2*time.Second)},
		{name: "net-half-open", invariant: "I2 I3", sign: failed, straggler: true, inject: func(t *turn) (func() error, error) {
			names := []string{t.one(rolePoller)}
			t.strikes(names...)
			for _, stream := range []string{"upstream", "downstream"} {
				if err := t.proxies.toxin(names, "timeout", stream, `{"timeout":0}`); err != nil {
					return nil, err
				}
			}
			return func() error { return t.proxies.purge(names) }, t.last(long)
		}},
		{name: "net-replies-lost-all", invariant: "I3 I4", sign: failed, straggler: true, inject: func(t *turn) (func() error, error) {
			names := t.names("")
			return func() error { return t.proxies.purge(names) }, firstOf(t.proxies.toxin(names, "timeout", "downstream", `{"timeout":0}`), t.last(2*time.Second))
		}},
		{name: "net-flapping", invariant: "I1 I3", sign: failed, straggler: true, inject: func(t *turn) (func() error, error) {
			names := t.names("")
			for range 6 {
				if err := firstOf(t.proxies.refuse(names), t.last(200*time.Millisecond), t.proxies.accept(names), t.last(400*time.Millisecond)); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}},
		{name: "net-partition-poller", invariant: "I2 I3", sign: orphaned, straggler: true, inject: partition(rolePoller, 1, long)},
		{name: "net-partition-pollers", invariant: "I2 I3", sign: failed, straggler: true, inject: partition(rolePoller, 3, long)},
		{name: "net-partition-monitor", invariant: "I2", sign: sweeps, inject: partition(roleMonitor, 1, long)},
		{name: "net-partition-api", invariant: "I5", sign: counter(roleAPI, "rounds_redis_calls_failed_total"), inject: partition(roleAPI, 1, 3*time.Second)},
		{name: "net-partition-all", invariant: "I1 I6", sign: failed, straggler: true, inject: partition("", 6, long)},
	}
}

// firstOf returns the first error.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// toxin adds a toxic to one process of a role, while some of its checks take longer.
func toxin(role, kind, stream, attributes string, length time.Duration) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		names := []string{t.one(role)}
		hurry := t.dawdle(800 * time.Millisecond)
		defer hurry()
		t.strikes(names...)
		if err := t.proxies.toxin(names, kind, stream, attributes); err != nil {
			return nil, err
		}
		return func() error { return t.proxies.purge(names) }, t.last(length)
	}
}

// partition cuts off some processes of a role, or all.
func partition(role string, n int, length time.Duration) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		names := t.names(role)
		t.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:min(n, len(names))]
		if role == rolePoller {
			hurry := t.dawdle(1500 * time.Millisecond)
			defer hurry()
			name, err := t.holder(10)
			if err != nil {
				return nil, err
			}
			if n == 1 {
				names = []string{name}
			}
			t.strikes(names...)
		}
		return func() error { return t.proxies.accept(names) }, firstOf(t.proxies.refuse(names), t.last(length))
	}
}

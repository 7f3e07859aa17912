package main

// ofSystem are the rows about processes, Redis and messages.
func ofSystem() []row {
	return []row{
		{"Processes", []panel{
			{title: "Processes by roles", unit: "short", about: "Those that say that they are there.", queries: []query{
				{`max by (roles) (rounds_processes)`, "{{roles}}"},
			}},
			{title: "Processes lost and left", unit: "short", about: "Within an hour.", queries: []query{
				{`sum by (roles) (increase(rounds_processes_lost_total[1h]))`, "lost, {{roles}}"},
				{`sum by (roles) (increase(rounds_processes_left_total[1h]))`, "left, {{roles}}"},
			}},
			{title: "Heartbeats and sweeps", unit: "cps", queries: []query{
				{`sum by (outcome) (rate(rounds_heartbeats_total[5m]))`, "heartbeats {{outcome}}"},
				{`sum by (outcome) (rate(rounds_sweeps_total[5m]))`, "sweeps {{outcome}}"},
			}},
			{title: "API: requests by route", unit: "reqps", queries: []query{
				{`sum by (route, class) (rate(rounds_api_request_seconds_count[5m]))`, "{{route}} {{class}}"},
			}},
			{title: "API: time to answer, p99", unit: "s", about: "Streams take as long as their callers follow them.", queries: []query{
				{`histogram_quantile(0.99, sum by (le, route) (rate(rounds_api_request_seconds_bucket[5m])))`, "{{route}}"},
			}},
			{title: "Wake-ups and looks", unit: "cps", queries: []query{
				{`sum(rate(rounds_wakeups_total[5m]))`, "wake-ups"},
				{`sum(rate(rounds_wakeups_lost_total[5m]))`, "subscription lost"},
				{`sum(rate(rounds_claims_total[5m]))`, "looks"},
			}},
			{title: "Spans of traces", unit: "cps", about: "Recorded ones that are neither exported nor failed wait, or were dropped because too many waited.", queries: []query{
				{`sum by (outcome) (rate(rounds_spans_total[5m]))`, "{{outcome}}"},
			}},
		}},
		{"Redis", []panel{
			{title: "Calls to Redis", unit: "s", about: "How long they took.", queries: []query{
				{`histogram_quantile(0.5, sum by (le) (rate(rounds_redis_call_seconds_bucket[5m])))`, "p50"},
				{`histogram_quantile(0.99, sum by (le) (rate(rounds_redis_call_seconds_bucket[5m])))`, "p99"},
			}},
			{title: "Redis errors", unit: "cps", queries: []query{
				{`sum by (step) (rate(rounds_redis_errors_total[5m]))`, "{{step}}"},
				{`sum by (step) (rate(rounds_delivery_redis_errors_total[5m]))`, "delivery, {{step}}"},
				{`sum by (instance) (rate(rounds_redis_calls_failed_total[5m]))`, "calls that were not served, {{instance}}"},
			}},
			{title: "Memory", unit: "percentunit", about: "The part of its maxmemory that a Redis uses.", queries: []query{
				{`max by (node) (rounds_redis_memory_ratio)`, "{{node}}"},
				{`max by (instance) (rounds_redis_memory_short)`, "takes no messages, {{instance}}"},
			}},
			{title: "What could lose data", unit: "short", about: "Settings and states of Redis; `rounds stats` says what to set.", queries: []query{
				{`max by (node, concern) (rounds_redis_concerns)`, "{{node}} {{concern}}"},
			}},
			{title: "Age of the last backup", unit: "s", about: "Since it was sent whole. Nothing, if none ever was.", queries: []query{
				{`max(rounds_backup_age_seconds)`, "age"},
			}},
			{title: "Steps of its clock", unit: "short", about: "Within an hour.", queries: []query{
				{`sum by (direction) (increase(rounds_redis_clock_steps_total[1h]))`, "{{direction}}"},
				{`sum(increase(rounds_rescheduled_total[1h]))`, "accounts put right"},
			}},
			{title: "Scripts sent anew", unit: "short", about: "More than at a start: Redis forgot them, as after a failover.", queries: []query{
				{`sum by (instance) (increase(rounds_scripts_sent_total[5m]))`, "{{instance}}"},
			}},
		}},
		{"Budget of adaptive accounts", []panel{
			{title: "Checks of adaptive accounts", unit: "cps", queries: []query{
				{`max(rounds_budget_checks_per_second)`, "budget"},
				{`max(rounds_budget_spent_per_second)`, "spent"},
			}},
			{title: "Price", unit: "short", about: "Messages a second, times the square of the interval. A higher price means longer intervals.", queries: []query{
				{`max(rounds_budget_price_seconds)`, "price"},
			}},
			{title: "At their longest intervals", unit: "percentunit", queries: []query{
				{`max(rounds_budget_at_ceiling_ratio)`, "of their checks"},
			}},
		}},
		{"Audit", []panel{
			{title: "Audits", unit: "short", about: "Within an hour.", queries: []query{
				{`sum by (outcome) (increase(rounds_audits_total[1h]))`, "{{outcome}}"},
			}},
			{title: "Findings and repairs", unit: "short", queries: []query{
				{`max(rounds_audit_lost)`, "lost"},
				{`max(rounds_audit_duplicated)`, "duplicated"},
				{`max by (kind) (rounds_audit_findings)`, "{{kind}}"},
				{`max(rounds_audit_unjudged)`, "unjudged"},
				{`sum by (kind) (increase(rounds_audit_repairs_total[1h]))`, "repaired within an hour, {{kind}}"},
			}},
			{title: "How long audits and scans take", unit: "s", queries: []query{
				{`max(rounds_audit_seconds)`, "audit"},
				{`max(rounds_staleness_scan_seconds)`, "scan for staleness"},
			}},
		}},
		{"Messages and consumer groups", []panel{
			{title: "In the streams", unit: "short", queries: []query{
				{`max(rounds_stream_messages)`, "messages"},
				{`max(rounds_streams_held_back)`, "streams held back"},
				{`sum(rate(rounds_messages_trimmed_total[5m]))`, "trimmed a second"},
			}},
			{title: "Consumer groups: not read", unit: "short", queries: []query{
				{`max by (group) (rounds_group_lag)`, "{{group}}"},
				{`max by (group) (rounds_group_pending)`, "{{group}}, pending"},
			}},
			{title: "Consumer groups: oldest not read", unit: "s", queries: []query{
				{`max by (group) (rounds_group_oldest_unread_seconds)`, "{{group}}"},
				{`max by (group) (rounds_group_oldest_pending_seconds)`, "{{group}}, pending"},
			}},
			{title: "Deliveries", unit: "cps", queries: []query{
				{`sum by (group, outcome) (rate(rounds_delivery_handled_total[5m]))`, "{{group}} {{outcome}}"},
			}},
			{title: "Detection delay by kind", unit: "s", about: "From the third party's time of a message to its acknowledgement, of all groups.", queries: []query{
				{`histogram_quantile(0.5, sum by (le, kind) (rate(rounds_detection_delay_seconds_bucket[15m])))`, "{{kind}}, p50"},
				{`histogram_quantile(0.99, sum by (le, kind) (rate(rounds_detection_delay_seconds_bucket[15m])))`, "{{kind}}, p99"},
			}},
			{title: "Slower than the objective", unit: "percentunit", about: "The part of the messages that were acknowledged later than ROUNDS_DETECTION_OBJECTIVE. One in a hundred is the objective.", queries: []query{
				{`sum by (group) (rate(rounds_detection_slow_total[1h])) / sum by (group) (rate(rounds_detection_delay_seconds_count[1h]))`, "{{group}}"},
			}},
			{title: "From commit to handler, p99", unit: "s", queries: []query{
				{`histogram_quantile(0.99, sum by (le, group) (rate(rounds_delivery_latency_seconds_bucket[5m])))`, "{{group}}"},
			}},
			{title: "Dead letters and stuck handlers", unit: "short", queries: []query{
				{`sum by (group) (rounds_delivery_dead_letters)`, "dead letters, {{group}}"},
				{`sum by (group) (rounds_delivery_handlers_stuck)`, "stuck, {{group}}"},
			}},
			{title: "Shards read, taken over, lost", unit: "short", queries: []query{
				{`sum by (group) (rounds_delivery_shards)`, "shards, {{group}}"},
				{`sum by (group) (rate(rounds_delivery_taken_over_total[5m]))`, "taken over a second, {{group}}"},
				{`sum by (group) (rate(rounds_delivery_leases_lost_total[5m]))`, "leases lost a second, {{group}}"},
				{`sum by (group) (rate(rounds_delivery_handler_panics_total[5m]))`, "panics a second, {{group}}"},
			}},
			{title: "Webhooks by outcome", unit: "cps", queries: []query{
				{`sum by (endpoint, outcome) (rate(rounds_webhook_deliveries_total[5m]))`, "{{endpoint}} {{outcome}}"},
			}},
			{title: "Webhook attempts, p99", unit: "s", queries: []query{
				{`histogram_quantile(0.99, sum by (le, endpoint) (rate(rounds_webhook_attempt_seconds_bucket[5m])))`, "{{endpoint}}"},
			}},
			{title: "Webhooks broken or disabled", unit: "short", queries: []query{
				{`max by (endpoint) (rounds_webhook_breaker_state)`, "breaker, {{endpoint}}"},
				{`max by (endpoint) (rounds_webhook_disabled)`, "disabled, {{endpoint}}"},
			}},
			{title: "Near the end of retention", unit: "short", about: "1 where messages that a group has not dealt with are soon past their retention.", queries: []query{
				{`max by (group) (rounds_group_near_retention)`, "{{group}}"},
			}},
		}},
	}
}

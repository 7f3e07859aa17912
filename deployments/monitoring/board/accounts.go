package main

// ofAccounts are the rows about accounts and their checks.
func ofAccounts() []row {
	return []row{
		{"Is all well?", []panel{
			{title: "Lost", unit: "short", about: "Accounts in no place. Must be 0.", levels: []level{{"green", 0}, {"red", 1}}, queries: []query{
				{`max(rounds_audit_lost)`, "lost"},
			}},
			{title: "Duplicated", unit: "short", about: "Accounts in several places. Must be 0.", levels: []level{{"green", 0}, {"red", 1}}, queries: []query{
				{`max(rounds_audit_duplicated)`, "duplicated"},
			}},
			{title: "Failing", unit: "percentunit", about: "The part of the accounts in circulation whose last check failed.", levels: []level{{"green", 0}, {"orange", 0.02}, {"red", 0.1}}, queries: []query{
				{`sum(max by (kind) (rounds_accounts_failing)) / sum(max by (place) (rounds_accounts{place!="parked"}))`, "failing"},
			}},
			{title: "Newly failing", unit: "short", about: "Accounts that have begun to fail within the last hour.", levels: []level{{"green", 0}, {"orange", 20}, {"red", 100}}, queries: []query{
				{`sum(max by (kind) (rounds_accounts_newly_failing))`, "newly"},
			}},
			{title: "Missed slots p99", unit: "short", about: "99 of 100 accounts have missed at most so many slots of their cadences.", levels: []level{{"green", 0}, {"orange", 2}, {"red", 3}}, queries: []query{
				{`max(rounds_missed_slots{share="0.99"})`, "p99"},
			}},
			{title: "Longest overdue", unit: "s", about: "How long the longest overdue account has waited to be claimed.", levels: []level{{"green", 0}, {"orange", 60}, {"red", 300}}, queries: []query{
				{`max(rounds_overdue_seconds)`, "overdue"},
			}},
			{title: "In time again in", unit: "s", about: "Estimate of how long it takes until no account is ten seconds late. Infinite: not with this capacity.", levels: []level{{"green", 0}, {"orange", 60}, {"red", 3600}}, queries: []query{
				{`max(rounds_catch_up_seconds)`, "in time"},
			}},
			{title: "Monitors on duty", unit: "short", about: "One, but for moments.", levels: []level{{"green", 0}}, queries: []query{
				{`sum(rounds_monitor_on_duty)`, "on duty"},
			}},
			{title: "Outage suspected", unit: "short", about: "Replicas whose own network seems to be down.", levels: []level{{"green", 0}, {"red", 1}}, queries: []query{
				{`sum(rounds_outage_suspected)`, "replicas"},
			}},
		}},
		{"What fails", []panel{
			{title: "Failing accounts by kind", unit: "short", about: "Accounts whose last check failed, whatever the cause. Parked ones are left out.", queries: []query{
				{`max by (kind) (rounds_accounts_failing)`, "{{kind}}"},
				{`max by (kind) (rounds_accounts_newly_failing)`, "{{kind}}, newly"},
				{`max by (kind) (rounds_accounts_never_succeeded)`, "{{kind}}, never succeeded"},
			}},
			{title: "Failing checks by host and code", unit: "short", about: "Within the last minute, those that fail most.", queries: []query{
				{`topk(20, sum by (host, code) (rounds_checks_failing))`, "{{host}} {{code}}"},
			}},
			{title: "Failing checks by class", unit: "cps", queries: []query{
				{`sum by (kind, class) (rate(rounds_check_failures_total[5m]))`, "{{kind}} {{class}}"},
			}},
			{title: "Share of checks that fail", unit: "percentunit", queries: []query{
				{`sum by (kind) (rate(rounds_check_failures_total[5m])) / sum by (kind) (rate(rounds_checks_total[5m]))`, "{{kind}}"},
			}},
			{title: "Warnings", unit: "cps", about: "Checks that succeeded though something was wrong with the answer.", queries: []query{
				{`sum by (kind, code) (rate(rounds_check_warnings_total[5m]))`, "{{kind}} {{code}}"},
			}},
			{title: "Behind their cadence by kind", unit: "short", about: "Accounts that have missed three slots of their cadence or more.", queries: []query{
				{`max by (kind) (rounds_accounts_behind)`, "{{kind}}"},
			}},
			{title: "Missed slots", unit: "short", about: "How many slots of their cadences have passed since accounts were last checked with complete success.", queries: []query{
				{`max by (share) (rounds_missed_slots)`, "of a share of {{share}}, at most"},
			}},
		}},
		{"Accounts", []panel{
			{title: "Accounts by place", unit: "short", stacked: true, queries: []query{
				{`max by (place) (rounds_accounts)`, "{{place}}"},
			}},
			{title: "Parked, quarantined, tried again", unit: "cps", queries: []query{
				{`sum by (kind) (rate(rounds_parked_total[5m]))`, "parked {{kind}}"},
				{`sum(rate(rounds_quarantined_total[5m]))`, "quarantined"},
				{`sum(rate(rounds_probed_total[5m]))`, "tried again"},
			}},
			{title: "Requeued", unit: "cps", about: "Taken out of processing_list by the monitors.", queries: []query{
				{`sum by (reason) (rate(rounds_requeued_total[5m]))`, "{{reason}}"},
			}},
		}},
		{"Time", []panel{
			{title: "Lateness", unit: "s", about: "How much later than due checks start.", queries: []query{
				{`histogram_quantile(0.5, sum by (le) (rate(rounds_lateness_seconds_bucket[5m])))`, "p50"},
				{`histogram_quantile(0.95, sum by (le) (rate(rounds_lateness_seconds_bucket[5m])))`, "p95"},
				{`histogram_quantile(0.99, sum by (le) (rate(rounds_lateness_seconds_bucket[5m])))`, "p99"},
			}},
			{title: "Staleness", unit: "s", about: "How long ago accounts were last checked with complete success, found by a scan that does not trust the schedule.", queries: []query{
				{`max by (quantile) (rounds_staleness_seconds)`, "{{quantile}}"},
			}},
			{title: "Duration of checks, p99", unit: "s", queries: []query{
				{`histogram_quantile(0.99, sum by (le, kind) (rate(rounds_check_seconds_bucket[5m])))`, "{{kind}}"},
			}},
			{title: "Headroom by kind", unit: "s", about: "The least time until a third party forgets messages that no check has fetched.", queries: []query{
				{`min by (kind) (rounds_headroom_seconds)`, "{{kind}}"},
			}},
		}},
		{"Checks", []panel{
			{title: "Checks by outcome", unit: "cps", stacked: true, queries: []query{
				{`sum by (outcome) (rate(rounds_checks_total[5m]))`, "{{outcome}}"},
			}},
			{title: "Messages found", unit: "cps", queries: []query{
				{`sum by (kind) (rate(rounds_messages_found_total[5m]))`, "{{kind}}"},
			}},
			{title: "Running and hanging", unit: "short", queries: []query{
				{`sum(rounds_checks_running)`, "running"},
				{`sum(rounds_checks_hanging)`, "hanging"},
				{`sum(rate(rounds_checks_abandoned_total[5m]))`, "abandoned a second"},
				{`sum(rate(rounds_checker_panics_total[5m]))`, "panics a second"},
			}},
			{title: "Claimed and returned", unit: "cps", queries: []query{
				{`sum(rate(rounds_claimed_total[5m]))`, "claimed"},
				{`sum by (outcome) (rate(rounds_returns_total[5m]))`, "returned, {{outcome}}"},
				{`sum(rate(rounds_released_total[5m]))`, "released"},
				{`sum(rate(rounds_reclaimed_total[5m]))`, "reclaimed"},
			}},
			{title: "Held up", unit: "cps", queries: []query{
				{`sum by (kind) (rate(rounds_limit_denials_total[5m]))`, "limit {{kind}}"},
				{`sum by (reason) (rate(rounds_put_back_total[5m]))`, "put back, {{reason}}"},
			}},
			{title: "Void entries, set aside", unit: "short", about: "Void entries are old tickets, dropped where they turn up. What is set aside should not have been there.", queries: []query{
				{`sum(rate(rounds_void_entries_total[5m]))`, "void"},
				{`sum(increase(rounds_set_aside_total[5m]))`, "set aside within 5 minutes"},
			}},
		}},
	}
}

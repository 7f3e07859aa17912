package concern

import (
	"fmt"
	"time"
)

// text returns a concern in an English sentence.
func (c *Concern) text() string {
	long := time.Duration(c.Seconds * float64(time.Second)).Round(time.Second)
	more := func(noun string) string { // the subject, and others that are alike
		if c.Count > 1 {
			return fmt.Sprintf("%s and %d other %s", c.Subject, c.Count-1, noun)
		}
		return c.Subject
	}
	wait := fmt.Sprintf("%d messages wait, the oldest for %v", c.Messages, long)
	switch c.Code {
	case LawViolated:
		return fmt.Sprintf("%d accounts are in no place or in several; an audit with repair puts them right", c.Accounts)
	case NoReplica:
		return "no replica is alive: no account is checked"
	case NoMonitor:
		return "no monitor is alive: nobody requeues the accounts of dead replicas, audits or trims"
	case WatchOld:
		return "the monitor on duty does not tell what it watches: whether groups lag and accounts are overdue is not known"
	case Outage:
		return fmt.Sprintf("half of the hosts or more are out of reach for replica %s: the network seems to be down", more("replicas"))
	case MemoryShort:
		return fmt.Sprintf("replica %s accept no messages: Redis has used its memory up to the mark", more("replicas"))
	case RedisEviction:
		return fmt.Sprintf("redis %s: maxmemory-policy is %s, so accounts are dropped when memory is full", more("servers"), c.Value)
	case RedisAppendFails:
		return fmt.Sprintf("redis %s: the append-only file cannot be written", more("servers"))
	case RedisSnapshot:
		return fmt.Sprintf("redis %s: the last snapshot failed, so it refuses all writes until one succeeds", more("servers"))
	case RedisMemory:
		return fmt.Sprintf("redis %s: %s %% of maxmemory is in use", more("servers"), c.Value)
	case RedisAppendOnly:
		return fmt.Sprintf("redis %s: appendonly is no, so a restart loses what was written since the last snapshot", more("servers"))
	case RedisNoSync:
		return fmt.Sprintf("redis %s: appendfsync is no, so half a minute of writes may be lost when its machine dies", more("servers"))
	case RedisReplicas:
		return fmt.Sprintf("redis %s: min-replicas-to-write is 0, so a master that is cut off accepts writes that a failover forgets", more("servers"))
	case RedisUnasked:
		return fmt.Sprintf("redis %s: %s is not allowed, so nobody sees whether it keeps what it acknowledges", more("servers"), c.Value)
	case RedisUnsaved:
		return fmt.Sprintf("the data directory %s cannot be written (%s): a restart would lose what changes", c.Subject, c.Value)
	case RedisDamaged:
		return fmt.Sprintf("a file of the data directory %s was damaged and is now %s: what came after the one before it is lost", c.Subject, c.Value)
	case RedisLarge:
		return fmt.Sprintf("so much is kept in %s that saving it takes long: it is time for a Redis, to which rounds backup and rounds restore move it", c.Subject)
	case KindUnchecked:
		return fmt.Sprintf("no living replica checks the kind %s", more("kinds"))
	case Overdue:
		return fmt.Sprintf("accounts are overdue: %d wait, the longest for %v", c.Accounts, long)
	case FailingJumped:
		return fmt.Sprintf("%d accounts, %.1f %% of all, began to fail within the last hour", c.Accounts, 100*c.Share)
	case HeadroomLow:
		if c.Seconds <= 0 {
			return fmt.Sprintf("%d accounts of the kind %s were not checked for so long that messages may be lost already", c.Accounts, more("kinds"))
		}
		return fmt.Sprintf("%d accounts of the kind %s will lose messages, the first in %v", c.Accounts, more("kinds"), long)
	case WebhookDisabled:
		return fmt.Sprintf("webhook %s is disabled: %s", more("webhooks"), wait)
	case WebhookRefused:
		if c.Value == "" {
			return fmt.Sprintf("webhook %s does not take some messages: %s", more("webhooks"), wait)
		}
		return fmt.Sprintf("webhook %s does not take messages (%s): %s", more("webhooks"), c.Value, wait)
	case NoDelivery:
		return fmt.Sprintf("no process delivers to webhook %s: %s", more("webhooks"), wait)
	case GroupLagging:
		return fmt.Sprintf("consumer group %s lags: %s", more("groups"), wait)
	case MessagesDropped:
		return fmt.Sprintf("%d messages were dropped before they were past their retention", c.Messages)
	case DeadLetters:
		return fmt.Sprintf("there are %d dead letters, the oldest %v old", c.Messages, long)
	case Quarantined:
		return fmt.Sprintf("%d accounts are in quarantine: their checks hang or kill replicas", c.Accounts)
	case ClockStepped:
		if c.Seconds < 0 {
			return fmt.Sprintf("Redis' clock went back by %v; %d accounts were rescheduled", -long, c.Accounts)
		}
		return fmt.Sprintf("Redis' clock went ahead by %v", long)
	case ProcessSilent:
		return fmt.Sprintf("process %s went silent without leaving", more("processes"))
	case SettingsDiffer:
		return fmt.Sprintf("processes differ in %s", more("settings"))
	case VersionsDiffer:
		return fmt.Sprintf("processes of %d versions run: %s", c.Count, c.Value)
	case TrailLost:
		return fmt.Sprintf("%d entries of the trail are missing in Redis, and are in the log alone", max(1, c.Count))
	case AuditBroken:
		return "the latest audit broke off"
	case AuditOld:
		return fmt.Sprintf("the last audit is %v ago", long)
	case LawFlawed:
		return fmt.Sprintf("the last audit has %d findings, none of them lost or doubled", max(1, c.Count))
	case OwnerPaused:
		return fmt.Sprintf("owner %s left alone for up to %v, as its third party asked (%s): its accounts wait", more("owners"), long, c.Value)
	case LimitDenying:
		return fmt.Sprintf("limit %s denies %d checks a minute until later", more("limits"), c.PerMinute)
	case ChecksWarn:
		return fmt.Sprintf("%d checks a minute of the kind %s succeed with a warning: %s", c.PerMinute, more("kinds"), c.Value)
	}
	return string(c.Code)
}

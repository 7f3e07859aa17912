package concern

import (
	"fmt"
	"time"
)

// text returns a concern in an English sentence.
func (c *Concern) text() string {
	long := time.Duration(c.Seconds * float64(time.Second)).Round(time.Second)
	more := func(one, several string) string { // the subject, and others that are alike
		if c.Count > 1 {
			return c.Subject + " and " + many(c.Count-1, "other "+one, "other "+several)
		}
		return c.Subject
	}
	wait := many(c.Messages, "message waits", "messages wait")
	if long > 0 {
		wait += fmt.Sprintf(", the oldest for %v", long)
	}
	switch c.Code {
	case LawViolated:
		return many(c.Accounts, "account is", "accounts are") + " in no place or in several; an audit with repair puts that right"
	case NoReplica:
		return "no replica is alive: no account is checked"
	case NoMonitor:
		return "no monitor is alive: nobody requeues the accounts of dead replicas, audits or trims"
	case WatchOld:
		return "the monitor on duty does not tell what it watches: whether groups lag and accounts are overdue is not known"
	case Outage:
		return fmt.Sprintf("half of the hosts or more are out of reach for replica %s: the network seems to be down", more("replica", "replicas"))
	case MemoryShort:
		return fmt.Sprintf("replica %s accept no messages: Redis has used its memory up to the mark", more("replica", "replicas"))
	case RedisEviction:
		return fmt.Sprintf("redis %s: maxmemory-policy is %s, so accounts are dropped when memory is full", more("server", "servers"), c.Value)
	case RedisAppendFails:
		return fmt.Sprintf("redis %s: the append-only file cannot be written", more("server", "servers"))
	case RedisSnapshot:
		return fmt.Sprintf("redis %s: the last snapshot failed, so it refuses all writes until one succeeds", more("server", "servers"))
	case RedisMemory:
		return fmt.Sprintf("redis %s: %s %% of maxmemory is in use", more("server", "servers"), c.Value)
	case RedisAppendOnly:
		return fmt.Sprintf("redis %s: appendonly is no, so a restart loses what was written since the last snapshot", more("server", "servers"))
	case RedisNoSync:
		return fmt.Sprintf("redis %s: appendfsync is no, so half a minute of writes may be lost when its machine dies", more("server", "servers"))
	case RedisReplicas:
		return fmt.Sprintf("redis %s: min-replicas-to-write is 0, so a master that is cut off accepts writes that a failover forgets", more("server", "servers"))
	case RedisUnasked:
		return fmt.Sprintf("redis %s: %s is not allowed, so nobody sees whether it keeps what it acknowledges", more("server", "servers"), c.Value)
	case RedisUnsaved:
		return fmt.Sprintf("the data directory %s cannot be written (%s): a restart would lose what changes", c.Subject, c.Value)
	case RedisDamaged:
		return fmt.Sprintf("a file of the data directory %s was damaged and is now %s: what came after the one before it is lost", c.Subject, c.Value)
	case RedisLarge:
		return fmt.Sprintf("so much is kept in %s that saving it takes long: it is time for a Redis, to which rounds backup and rounds restore move it", c.Subject)
	case KindUnchecked:
		return fmt.Sprintf("no living replica checks the kind %s", more("kind", "kinds"))
	case Overdue:
		return fmt.Sprintf("%s overdue, the longest for %v", many(c.Accounts, "account is", "accounts are"), long)
	case FailingJumped:
		return fmt.Sprintf("%d of %d accounts, %.1f %%, had begun to fail within an hour when they were last looked at", c.Accounts, c.Of, 100*c.Share)
	case HeadroomLow:
		if c.Seconds <= 0 {
			return fmt.Sprintf("%s of the kind %s went unchecked for so long that messages may be lost already", many(c.Accounts, "account", "accounts"), more("kind", "kinds"))
		}
		return fmt.Sprintf("%s of the kind %s will lose messages, the first in %v", many(c.Accounts, "account", "accounts"), more("kind", "kinds"), long)
	case WebhookDisabled:
		return fmt.Sprintf("webhook %s is disabled: %s", more("webhook", "webhooks"), wait)
	case WebhookRefused:
		if c.Value == "" {
			return fmt.Sprintf("webhook %s does not take some messages: %s", more("webhook", "webhooks"), wait)
		}
		return fmt.Sprintf("webhook %s does not take messages (%s): %s", more("webhook", "webhooks"), c.Value, wait)
	case NoDelivery:
		return fmt.Sprintf("no process delivers to webhook %s: %s", more("webhook", "webhooks"), wait)
	case NoDeliveryRole:
		return "no process has the role delivery, so the endpoints of ROUNDS_WEBHOOKS_FILE get no messages"
	case GroupLagging:
		switch c.Value {
		case "":
			return fmt.Sprintf("consumer group %s lags: %s", more("group", "groups"), wait)
		case NoConsumer:
			return fmt.Sprintf("consumer group %s lags, and none of its consumers is alive: %s", more("group", "groups"), wait)
		}
		return fmt.Sprintf("consumer group %s lags, and its handler does not handle messages (%s): %s", more("group", "groups"), c.Value, wait)
	case MessagesDropped:
		return many(c.Messages, "message was", "messages were") + " dropped before the end of their retention"
	case DeadLetters:
		return fmt.Sprintf("%s could not be delivered (dead letters), the oldest %v old", many(c.Messages, "message", "messages"), long)
	case Quarantined:
		return many(c.Accounts, "account is", "accounts are") + " in quarantine, because checks hang or kill replicas"
	case ClockStepped:
		if c.Seconds < 0 {
			return fmt.Sprintf("Redis' clock went back by %v; %s rescheduled", -long, many(c.Accounts, "account was", "accounts were"))
		}
		return fmt.Sprintf("Redis' clock went ahead by %v", long)
	case ProcessSilent:
		return fmt.Sprintf("process %s went silent without leaving", more("process", "processes"))
	case SettingsDiffer:
		return fmt.Sprintf("processes differ in %s", more("setting", "settings"))
	case VersionsDiffer:
		return fmt.Sprintf("processes of %d versions run: %s", c.Count, c.Value)
	case TrailLost:
		return many(max(1, c.Count), "entry of the trail is", "entries of the trail are") + " in the log alone, and missing in Redis"
	case AuditBroken:
		return "the latest audit broke off"
	case AuditOld:
		return fmt.Sprintf("the last audit is %v ago", long)
	case LawFlawed:
		return fmt.Sprintf("the last audit has %s, and no account is lost or doubled", many(max(1, c.Count), "finding", "findings"))
	case OwnerPaused:
		return fmt.Sprintf("owner %s left alone for up to %v, as its third party asked (%s): its accounts wait", more("owner", "owners"), long, c.Value)
	case LimitDenying:
		return fmt.Sprintf("limit %s denies %d checks a minute until later", more("limit", "limits"), c.PerMinute)
	case ChecksWarn:
		return fmt.Sprintf("%d checks a minute of the kind %s succeed with a warning: %s", c.PerMinute, more("kind", "kinds"), c.Value)
	}
	return string(c.Code)
}

// many returns a number with the words that follow it.
func many(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

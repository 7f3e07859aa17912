package concern

import "strings"

//go:generate go test -run TestGuideListsEveryConcern -update .

// entry is the fixed part of a code.
type entry struct {
	code   Code
	page   string   // of the dashboard, which has more
	alerts []string // alerts of deployments/monitoring/alerts.yaml that fire for the same reason; nil: none
	en, zh string   // the sentence, as Sentence fills it in
	other  []variant
}

// variant is another sentence for a code. The first one that fits is taken.
type variant struct {
	fits   func(*Concern) bool
	en, zh string
}

// table has all codes, in the order in which concerns of one level are listed. It is the
// source of the guide's lists of concerns: see the test beside it.
func table() []entry {
	redis := []string{"RoundsRedisConcern"}
	return []entry{
		{
			code: LawViolated, page: "/system", alerts: []string{"RoundsAccountsLost", "RoundsAccountsDuplicated"},
			en: "{accounts:is|are} in no place or in several; an audit with repair puts that right",
			zh: "{accounts}不在任何一处或在多处。带修复的审计可以纠正。",
		},
		{
			code: NoReplica, page: "/", alerts: []string{"RoundsNoReplica"},
			en: "no replica is alive: no account is checked",
			zh: "没有存活的副本：没有账号被检查。",
		},
		{
			code: NoMonitor, page: "/system", alerts: []string{"RoundsNoMonitorOnDuty"},
			en: "no monitor is alive: nobody requeues the accounts of dead replicas, audits or trims",
			zh: "没有存活的监控器：无人接管死去副本的账号，也无人审计和清理。",
		},
		{
			code: WatchOld, page: "/system",
			en: "the monitor on duty does not tell what it watches: whether groups lag and accounts are overdue is not known",
			zh: "值班的监控器没有报告所见：无法得知消费组是否滞后、账号是否逾期。",
		},
		{
			code: Outage, page: "/", alerts: []string{"RoundsOutageSuspected"},
			en: "half of the hosts or more are out of reach for replica {subject:replica|replicas}: the network seems to be down",
			zh: "副本 {subject:副本|副本} 有一半以上的主机无法访问：网络似乎断了。",
		},
		{
			code: MemoryShort, page: "/system", alerts: []string{"RoundsRedisFull"},
			en: "replica {subject:replica|replicas} {alike:accepts|accept} no messages: Redis has used its memory up to the mark",
			zh: "副本 {subject:副本|副本} 不再接收消息：Redis 内存已用到警戒线。",
		},
		{
			code: RedisEviction, page: "/system", alerts: redis,
			en: "redis {subject:server|servers}: maxmemory-policy is {value}, so accounts are dropped when memory is full",
			zh: "Redis {subject:服务器|服务器} 的淘汰策略是 {value}：内存满时会丢掉账号。",
		},
		{
			code: RedisAppendFails, page: "/system", alerts: redis,
			en: "redis {subject:server|servers}: the append-only file cannot be written",
			zh: "Redis {subject:服务器|服务器} 无法写入 AOF 文件。",
		},
		{
			code: RedisSnapshot, page: "/system", alerts: redis,
			en: "redis {subject:server|servers}: the last snapshot failed, so it refuses all writes until one succeeds",
			zh: "Redis {subject:服务器|服务器} 拒绝所有写入：上次快照失败。",
		},
		{
			code: RedisUnsaved, page: "/system", alerts: redis,
			en: "the data directory {name} cannot be written ({value}): a restart would lose what changes",
			zh: "数据目录 {name} 无法写入（{value}）：重启会丢失之后的改动。",
		},
		{
			code: RedisMemory, page: "/system", alerts: []string{"RoundsRedisConcern", "RoundsRedisFull"},
			en: "redis {subject:server|servers}: {value} % of maxmemory is in use",
			zh: "Redis {subject:服务器|服务器} 已用内存上限的 {value} %。",
		},
		{
			code: RedisAppendOnly, page: "/system", alerts: redis,
			en: "redis {subject:server|servers}: appendonly is no, so a restart loses what was written since the last snapshot, or everything if there is none",
			zh: "Redis {subject:服务器|服务器} 没有开启 AOF：重启会丢失上次快照之后写入的内容，没有快照时丢失全部。",
		},
		{
			code: RedisNoSync, page: "/system", alerts: redis,
			en: "redis {subject:server|servers}: appendfsync is no, so half a minute of writes may be lost when its machine dies",
			zh: "Redis {subject:服务器|服务器} 的 appendfsync 为 no：机器断电可能丢失半分钟的写入。",
		},
		{
			code: RedisReplicas, page: "/system", alerts: redis,
			en: "redis {subject:server|servers}: min-replicas-to-write is 0, so a master that is cut off accepts writes that a failover forgets",
			zh: "Redis {subject:服务器|服务器} 在没有从节点时也接受写入：被隔离的主节点会接受故障转移后丢失的内容。",
		},
		{
			code: RedisDamaged, page: "/system", alerts: redis,
			en: "a file of the data directory {name} was damaged and is now {value}: what came after the one before it is lost",
			zh: "数据目录 {name} 里有文件损坏，已改名为 {value}：前一份之后的改动已丢失。",
		},
		{
			code: RedisLarge, page: "/system", alerts: redis,
			en: "{name} has so much data that saving it takes long: it is time for a Redis, to which rounds backup and rounds restore move the data",
			zh: "{name} 里的数据太多，保存太慢：该换成 Redis 了。",
		},
		{
			code: KindUnchecked, page: "/problems",
			en: "no living replica checks the kind {subject:kind|kinds}",
			zh: "没有存活的副本检查种类 {subject:种类|种类}。",
		},
		{
			code: Overdue, page: "/", alerts: []string{"RoundsOverdue"},
			en: "{accounts:is|are} overdue, the longest for {time}",
			zh: "账号逾期：{accounts}在等待，最久 {time}。",
		},
		{
			code: FailingJumped, page: "/problems", alerts: []string{"RoundsNewlyFailing"},
			en: "{some} of {of} in circulation, {share}, had begun to fail within an hour when they were last looked at",
			zh: "上次查看时，在流转的 {of}中，有 {some} 个（{share}）在一小时内开始失败。",
		},
		{
			code: HeadroomLow, page: "/problems", alerts: []string{"RoundsHeadroomLow", "RoundsMessagesAboutToBeLost"},
			en: "{accounts} of the kind {subject:kind|kinds} will lose messages, the first in {time}",
			zh: "种类 {subject:种类|种类} 的{accounts}将丢失消息，最早在 {time}后。",
			other: []variant{{
				fits: func(c *Concern) bool { return c.Seconds <= 0 },
				en:   "{accounts} of the kind {subject:kind|kinds} went unchecked for so long that messages may be lost already",
				zh:   "种类 {subject:种类|种类} 的{accounts}太久没有检查，消息可能已经丢失。",
			}},
		},
		{
			code: WebhookDisabled, page: "/delivery", alerts: []string{"RoundsWebhookDisabled"},
			en: "webhook {subject:webhook|webhooks} {alike:is|are} disabled: {messages:waits|wait}[, the oldest for {time}]",
			zh: "Webhook {subject:Webhook| Webhook} 已停用：{messages}在等待[，最久 {time}]。",
			other: []variant{{
				fits: func(c *Concern) bool { return c.Messages == 0 },
				en:   "webhook {subject:webhook|webhooks} {alike:is|are} disabled and {alike:gets|get} no messages",
				zh:   "Webhook {subject:Webhook| Webhook} 已停用，收不到消息。",
			}},
		},
		{
			code: WebhookRefused, page: "/delivery",
			en: "webhook {subject:webhook|webhooks} {alike:does|do} not take messages ({value}): {messages:waits|wait}[, the oldest for {time}]",
			zh: "Webhook {subject:Webhook| Webhook} 不接收消息（{value}）：{messages}在等待[，最久 {time}]。",
			other: []variant{{
				fits: func(c *Concern) bool { return c.Value == several },
				en:   "webhook {subject:webhook|webhooks} {alike:does|do} not take messages, for several reasons: {messages:waits|wait}[, the oldest for {time}]",
				zh:   "Webhook {subject:Webhook| Webhook} 因多种原因不接收消息：{messages}在等待[，最久 {time}]。",
			}, {
				fits: func(c *Concern) bool { return c.Value == "" },
				en:   "webhook {subject:webhook|webhooks} {alike:does|do} not take some messages: {messages:waits|wait}[, the oldest for {time}]",
				zh:   "Webhook {subject:Webhook| Webhook} 不接收部分消息：{messages}在等待[，最久 {time}]。",
			}},
		},
		{
			code: WebhookKind, page: "/delivery",
			en: "webhook {subject:webhook|webhooks} {alike:is|are} for the kind {value}, which no living replica checks; the kind may be misspelt",
			zh: "Webhook {subject:Webhook| Webhook} 只接收种类 {value} 的消息，但没有存活的副本检查该种类：种类可能写错了。",
		},
		{
			code: NoDelivery, page: "/delivery",
			en: "no process delivers to webhook {subject:webhook|webhooks}: {messages:waits|wait}[, the oldest for {time}]",
			zh: "没有进程向 Webhook {subject:Webhook| Webhook} 投递：{messages}在等待[，最久 {time}]。",
		},
		{
			code: NoDeliveryRole, page: "/delivery",
			en: "no process has the role delivery, so the endpoints that ROUNDS_WEBHOOKS_FILE declares or that were added get no messages",
			zh: "没有进程承担 delivery 角色，ROUNDS_WEBHOOKS_FILE 中声明的端点和运行时添加的端点都收不到消息。",
		},
		{
			code: GroupLagging, page: "/delivery", alerts: []string{"RoundsGroupFallsBehind"},
			en: "consumer group {subject:group|groups} {alike:lags|lag}: {messages:waits|wait}[, the oldest for {time}]",
			zh: "消费组 {subject:消费组|消费组} 滞后：{messages}在等待[，最久 {time}]。",
			other: []variant{{
				fits: func(c *Concern) bool { return c.Value == NoConsumer },
				en:   "consumer group {subject:group|groups} {alike:lags, and none of its consumers is|lag, and none of their consumers is} alive: {messages:waits|wait}[, the oldest for {time}]",
				zh:   "消费组 {subject:消费组|消费组} 滞后，并且没有在运行的消费者：{messages}在等待[，最久 {time}]。",
			}, {
				fits: func(c *Concern) bool { return c.Value != "" },
				en:   "consumer group {subject:group|groups} {alike:lags, and its handler does not handle messages|lag, and their handlers do not handle messages} ({value}): {messages:waits|wait}[, the oldest for {time}]",
				zh:   "消费组 {subject:消费组|消费组} 滞后，其处理程序未能处理消息（{value}）：{messages}在等待[，最久 {time}]。",
			}},
		},
		{
			code: MessagesDropped, page: "/messages",
			en: "{messages:was|were} dropped before the retention period ended",
			zh: "{messages}未到保留期限就被丢弃。",
		},
		{
			code: DeadLetters, page: "/delivery", alerts: []string{"RoundsDeadLetters", "RoundsFilesLost"},
			en: "{messages} could not be delivered (dead letters), the oldest {time} old",
			zh: "有 {messages}无法处理（死信），最早的已有 {time}。",
		},
		{
			code: FilesStoreFails, page: "/delivery", alerts: []string{"RoundsFilesStoreFails"},
			en: "the store of files fails, and no file is fetched until it works: {value}",
			zh: "文件存储出错，恢复之前不抓取任何文件：{value}。",
		},
		{
			code: FilesFull, page: "/delivery", alerts: []string{"RoundsFilesFull"},
			en: "the quota of files is reached, and no file is fetched until there is room",
			zh: "文件配额已用完，腾出空间之前不抓取任何文件。",
		},
		{
			code: FilesUnfetched, page: "/delivery", alerts: []string{"RoundsFilesExpire"},
			en: "files of {messages} could not be fetched yet, and the first may be forgotten in {time}",
			zh: "有 {messages}的文件还没能抓取，最早的在 {time}后可能被忘记。",
			other: []variant{{
				fits: func(c *Concern) bool { return c.Seconds <= 0 },
				en:   "files of {messages} could not be fetched yet, and the first, of account {account}, may be forgotten already",
				zh:   "有 {messages}的文件还没能抓取，其中账号 {account} 的文件可能已被忘记。",
			}, {
				fits: func(c *Concern) bool { return c.Account != "" },
				en:   "files of {messages} could not be fetched yet, and the first, of account {account}, may be forgotten in {time}",
				zh:   "有 {messages}的文件还没能抓取，其中账号 {account} 的文件最早在 {time}后可能被忘记。",
			}},
		},
		{
			code: SendsUnknown, page: "/delivery/sends", alerts: []string{"RoundsSendsUnknown"},
			en: "nobody knows whether {sends:has|have} arrived[; the oldest was queued {time} ago]",
			zh: "有 {sends}结果未知[，最早的在 {time}前排队]。",
		},
		{
			code: Quarantined, page: "/problems", alerts: []string{"RoundsQuarantine"},
			en: "{accounts:is|are} in quarantine, because checks hang or kill replicas",
			zh: "{accounts}被隔离：它们的检查会卡住或弄死副本。",
		},
		{
			code: ClockStepped, page: "/system", alerts: []string{"RoundsRedisClockStepped"},
			en: "Redis' clock went ahead by {time}",
			zh: "Redis 的时钟向前跳了 {time}。",
			other: []variant{{
				fits: func(c *Concern) bool { return c.Seconds < 0 },
				en:   "Redis' clock went back by {time}; {accounts:was|were} rescheduled",
				zh:   "Redis 的时钟倒退了 {time}。已重新排期{accounts}。",
			}},
		},
		{
			code: ProcessSilent, page: "/", alerts: []string{"RoundsProcessLost"},
			en: "process {subject:process|processes} went silent without leaving",
			zh: "进程 {subject:进程|进程} 没有注销就失去响应。",
			other: []variant{{
				fits: func(c *Concern) bool { return len(c.Names) > 0 },
				en:   "{count:process|processes} went silent without leaving ({value}): {names:process|processes}",
				zh:   "{count} 个进程没有注销就失去响应（{value}）：{names}。",
			}, {
				fits: func(c *Concern) bool {
					return c.Count <= 1 && c.Value != "" && !strings.Contains(c.Value, ",")
				},
				en: "process {subject:process|processes} with the role {value} went silent without leaving",
				zh: "进程 {subject}（角色为 {value}）没有注销就失去响应。",
			}, {
				fits: func(c *Concern) bool { return c.Count <= 1 && c.Value != "" },
				en:   "process {subject:process|processes} with the roles {value} went silent without leaving",
				zh:   "进程 {subject:进程|进程}（角色 {value}）没有注销就失去响应。",
			}},
		},
		{
			code: SettingsDiffer, page: "/system",
			en: "processes differ in {subject:setting|settings}",
			zh: "各进程的 {subject} 不一致。",
		},
		{
			code: TrailLost, page: "/system",
			en: "{count:entry of the trail is|entries of the trail are} in the log alone, as they could not be kept",
			zh: "操作记录有 {count} 条没能保存，只在日志中。",
		},
		{
			code: AuditBroken, page: "/system", alerts: []string{"RoundsAuditsFail"},
			en: "the latest audit broke off",
			zh: "最近一次审计中断了。",
		},
		{
			code: AuditOld, page: "/system",
			en: "the last audit is {time} ago",
			zh: "上次审计已是 {time}前。",
		},
		{
			code: LawFlawed, page: "/system", alerts: []string{"RoundsAuditFindings"},
			en: "the last audit has {count:finding|findings}, and no account is lost or doubled",
			zh: "上次审计有 {count} 项发现，没有丢失或重复。",
		},
		{
			code: OwnerPaused, page: "/limits",
			en: "owner {subject:owner|owners} {alike:is|are} left alone for up to {time}, as {alike:its|their} third party asked ({value}): {alike:its|their} accounts wait",
			zh: "应第三方要求，{subject} 暂停检查，最长 {time}（{value}），其账号在等待。",
		},
		{
			code: LimitDenying, page: "/limits",
			en: "limit {subject:limit|limits} {alike:puts|put} off {rate} checks a minute",
			zh: "限流 {subject} 每分钟推迟 {rate} 次检查。",
		},
		{
			code: BudgetTooSmall, page: "/limits", alerts: []string{"RoundsBudgetTooSmall"},
			en: "the budget of adaptive accounts, {value}, is too small: nearly all of them are at their longest intervals, and spend {share} of it",
			zh: "自适应账号的预算 {value} 太小：几乎所有账号都已用最长间隔，仍用掉预算的 {share}。",
		},
		{
			code: BudgetUnused, page: "/limits",
			en: "the budget of adaptive accounts, {value}, is larger than they can spend: nearly all of them are at their shortest intervals, and spend {share} of it",
			zh: "自适应账号的预算 {value} 用不完：几乎所有账号都已用最短间隔，只用掉预算的 {share}。",
		},
		{
			code: ChecksWarn, page: "/accounts",
			en: "{rate} checks a minute of the kind {subject:kind|kinds} succeed with a warning: {value}",
			zh: "种类 {subject:种类|种类} 每分钟有 {rate} 次检查成功但带警告：{value}。",
			other: []variant{{
				fits: func(c *Concern) bool { return c.Account != "" },
				en:   "{rate} checks a minute of the kind {subject:kind|kinds} succeed with a warning, such as account {account}: {value}",
				zh:   "种类 {subject:种类|种类} 每分钟有 {rate} 次检查成功但带警告，例如账号 {account}：{value}。",
			}},
		},
		{
			code: VersionsDiffer, page: "/system",
			en: "processes of {count:version|versions} run: {value}",
			zh: "有 {count} 个版本的进程在运行：{value}。",
		},
		{
			code: RedisUnasked, page: "/system",
			en: "redis {subject:server|servers}: {value} is not allowed, so it is unknown whether acknowledged writes are safe",
			zh: "Redis {subject:服务器|服务器} 拒绝 {value}：无法得知它是否保住已确认的内容。",
		},
		{
			code: BackupOld, page: "/system", alerts: []string{"RoundsBackupOld"},
			en: "the last backup is {time} ago",
			zh: "上次备份已是 {time}前。",
		},
	}
}

// entryOf returns the entry of a code, or nil if this version does not know the code.
func entryOf(code Code) *entry {
	for _, e := range table() {
		if e.code == code {
			return &e
		}
	}
	return nil
}

// Codes returns all codes, in their order.
func Codes() []Code {
	all := table()
	codes := make([]Code, len(all))
	for i := range all {
		codes[i] = all[i].code
	}
	return codes
}

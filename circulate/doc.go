// Package circulate is the ring: timestamped accounts circulate in Redis between
// message_queue and processing_list. Any number of replicas keep checking them for ever.
// No account is lost or doubled, whatever stops half way. The package is the protocol and
// nothing else; this page is its specification.
//
// # Places
//
// An account lives in one shard, CRC32 of its id modulo the number of shards.
// All keys of a shard share a hash tag, {NS:SS}, and so live on one node. Within
// its shard an account is in exactly one of four places:
//
//	schedule         ZSET  due later
//	message_queue    LIST  waiting; pushed at the head, taken from the tail
//	processing_list  LIST  claimed; the tail is the oldest claim
//	parked           ZSET  out of circulation, with a reason
//
// The conservation law: every registered account is in exactly one place under its
// current ticket. Each step preserves it.
//
// # Entries and tickets
//
// An [Entry] travels in the two lists: ticket|stamp|replica|id, the first three in fixed
// width. The stamp says since when the entry is where it is. For a waiting account that
// is when it became due, so that lateness is a subtraction.
//
// The ticket is the account's fencing token. Every claim, return, progress, release,
// registration, change, pause and resume issues a fresh one, from a counter of the shard
// that never goes back. The accounts of one step may share a ticket, because a ticket is
// only ever compared with others of the same account, and no account gets the same one
// twice. The tickets HASH has the current one. An entry with any other ticket is void:
// the step that meets it drops it, and nothing is written under it. So no step has to
// search for an entry to remove it, a second copy does no harm, and of two checks of one
// account at most one is ever written.
//
// The counter is ticket_seq. A second key, ticket_mark, has a number that no ticket has
// reached yet. It is written once in 4,096 tickets. If the counter is lost, or is no
// number any more, it begins again above the mark, in a time that does not depend on the
// number of accounts. If the mark is lost as well, the counter begins at ten for each
// millisecond since 1970. A shard that issued more tickets than that in all its life may
// then repeat one. A server that lost its last writes repeats tickets too. That does no
// harm: an entry must be in processing_list to the letter, with its stamp and its
// replica, and a lease must be the very consumer's.
//
// After the ticket, the same field has all other short values that every account has: its
// lane, why it is due, when a check last succeeded, how the last eight went, and its
// cursor if that has at most 44 bytes, as most have. That saves a field of a second HASH,
// a third of an account's memory. Longer cursors are in the cursors HASH.
//
// # Why tickets
//
// Without tickets the pattern is short: a claim is RPOPLPUSH, a return is MULTI(LREM
// processing_list 1, LPUSH message_queue), and a monitor does the same with stale
// entries. This pattern doubles accounts, and it loses them.
//
// One slow replica doubles an account in five steps, and nothing crashes: the replica
// claims A; a monitor reads A as stale; it takes A out of processing_list and puts it
// into message_queue; the replica returns A. Its LREM removes nothing, but its LPUSH is
// done all the same. A is now in message_queue twice, and nothing ever notices.
//
// It does not help if a monitor removes the copy that it added in vain. Two monitors read
// A as stale. The first requeues it. The second requeues it too: its LREM removes
// nothing, and A waits twice. A replica claims one copy. Then the second monitor removes
// its own copy from message_queue and from processing_list: both are gone, and the
// account is lost.
//
// Both protocols were searched as models in which each operation of Redis is a step: two
// replicas and two monitors, at most two crashes and one lost reply.
//
//	                                     bare pattern      with tickets
//	an account is lost for ever          in 8 steps        never
//	an account is doubled for ever       in 5 steps        never
//	a check's results are written twice  in 4 steps        never
//	states                               2,611,458         132,810, all of them
//
// A fresh ticket at each claim alone is not enough: after a return a late LPUSH would
// leave the account in schedule and in message_queue at once. So a return issues a fresh
// ticket as well. Package explore searches the protocol as it is today.
//
// # Lanes
//
// message_queue has three lanes, one list each: message_queue:urgent, message_queue and
// message_queue:low. See [Priority] for the order between and within lanes. A nudged
// account waits in the urgent lane, once. An account that a monitor requeues waits in the
// middle lane, once: Requeue knows no record.
//
// # Late accounts
//
// While accounts are in time, a claim promotes in the order of due times. After a
// standstill that order has little to do with what is late: an account that is checked
// daily would come before all that are checked every few seconds. So where an account is
// [Late], in the schedule or in the normal lane, and more are due than twice the claim, a
// claim promotes the relatively latest first: those with the most lateness for each second
// of their interval. It sees the interval between an account's last success and when it is
// due (late.lua).
//
// That order changes as time passes, so nothing of it is stored, and there is no place for
// it: the backlog stays in the schedule. A claim looks at samples of what is due, some
// hundreds of accounts, however many are due: the earliest, the latest, and three at
// positions that another golden section chooses for each ticket, so that all are met
// alike. It promotes only if fewer wait in a lane than it takes, and then up to twice as
// many as it takes, at least eight. So what waits in a lane was chosen lately. Urgent
// accounts are promoted wherever they are met. A nudge makes an account due now, which is
// among the latest, so it is met by the next claim. An account that is overdue may be
// anywhere, so a nudge to now puts it into the urgent lane itself.
//
// What a third party is about to forget goes before all. The ring does not know it: the
// monitor on duty finds accounts of which less than a quarter of the retention time is
// left, and nudges those that are overdue ([Ring.NudgeOverdue]).
//
// No account starves. Of each lane's promotions every eighth, and at least one, is the
// earliest due that was met, and the earliest due of all is always met. While clocks do not
// go back, what becomes due is never due before what is due already. So the accounts before
// an account in the schedule become no more. The first of them is promoted as soon as its
// lane has room; each lane is taken from in its turns, first in first out, and so has room
// again and again. So each account comes to be the first, is promoted, and is taken.
//
// A replica of an earlier version promotes all that is due, in the order of due times.
// Beside it the normal lane is long, and claims take what waits there. Its monitor
// nudges nothing, and its nudges leave overdue accounts in the schedule.
//
// # Kinds
//
// Replicas may check different kinds of accounts. The ring knows no kinds. It learns the
// kind of an account when a replica that cannot check the account hands it over. From
// then on a claim names the kinds that its replica checks, and passes by accounts of
// other kinds. Such an account waits in message_queue:by_kind, a ZSET whose members are
// KIND, a tab, a rank and the entry, and only a claim with its kind takes it from there.
// An account that was passed by gets a fresh ticket but retains its stamp. While the
// lanes have entries, at most half of a claim comes from message_queue:by_kind, so that
// neither makes the other wait. The rank is the stamp, a minute earlier for urgent
// accounts and a minute later for low ones.
//
// The kinds HASH, id to kind, is what the shard has learned. It is made when an account
// is handed over and expires [KindsKept] later. So where all replicas check the same
// kinds, the ring pays for one more key in two EXISTS, and nothing else. The HASH is a
// hint: whatever it says, and whenever it is lost, an account is in one place. The
// monitor on duty recalls accounts that wait by a kind which no live replica checks.
//
// # Steps
//
// Each step is one atomic operation on one shard, bounded by a count, safe to
// repeat, and a method of [Ring]:
//
//	Claim     promotes due accounts, then RPOPLPUSHes up to n entries from message_queue
//	          to processing_list. It drops void entries. The others get a fresh ticket,
//	          the replica and the time. If nothing waits and the claim takes all that it
//	          promotes, entries get these as they enter message_queue, because they leave
//	          it in the same step. If nothing waits, a busy replica may also take accounts
//	          that are due within a second. It checks them when they are due ([ClaimAhead]).
//	Return    returns claims: messages, cursor, failures and next place are written
//	          together, and only for an entry that was still in processing_list (LREM
//	          answers 1) under the current ticket.
//	Progress  writes one page of several under the same two conditions, and renews the
//	          claim.
//	Release   releases claims: unchecked, next in line. A replica that lost the reply to a
//	          claim finds its entries in processing_list and releases them as well.
//	HandOver  is Release for accounts that only other replicas check ([Kinds]).
//	Recall    takes accounts out of message_queue:by_kind and puts them into the lanes.
//	Requeue   is the monitor's: MULTI(LREM, LPUSH), and MULTI(LREM, LREM) if the first
//	          LREM answered 0. It is no script and knows no ticket. It may leave a copy,
//	          which is void from the next claim on.
//	Register, Upsert, Deregister, Park, Resume, Probe, Nudge, NudgeOverdue
//	          change which accounts circulate; the fresh ticket voids a check under way.
//	          Upsert and Deregister may demand the record that the caller saw, so that
//	          of two changes at once none is lost. A new account may bring along a
//	          cursor, failures and a reason for which it is parked ([Begin]).
//	Quarantine
//	          parks an account that was requeued again and again with no check returned.
//
// The steps of the outbox are methods of [Sends]: see *Sends* below.
//
// All but Requeue are Lua scripts, each in a file beside its caller. A script checks
// types and arguments before its first write, and adds before it removes. It takes
// tickets before it removes anything, and puts a claim back if the stream refuses its
// messages. So a step that fails leaves its accounts where they were. Times come from
// Redis' TIME alone; no step looks at a client's clock.
//
// Return of a batch does the work of one LREM for each entry. If the batch is not much
// smaller than the list, it instead reads the list once and writes back what remains, so
// that the cost of a return does not grow with the number of claims. A batch of lost
// claims does not walk through a longer list for each of them: after a few it reads the
// list once to see which entries are there.
//
// # Wake-ups
//
// Every claim returns the first due time of its shard, and a replica sleeps until then. A
// step that schedules something earlier publishes "SS due" on NS:wake ([Ring.Subscribe]).
// A nudge to now publishes it too: a busy replica lets due accounts gather, and a nudge
// must not wait for that. A lost message loses no account: a replica that cannot listen
// looks at every shard each second.
//
// # Redis' clock
//
// All times are Redis', and its clock may be wrong for a while. The monitor on duty reads
// each node's clock every five seconds and stores the newest time seen ([Clocks.Read]).
// If the clock went back by [ClockStep] or more, the monitor walks the schedule in small
// steps and moves accounts that are due later than they can be: a slot of a cadence to
// the next slot, a wait by as much as the clock went back. It also corrects nudges,
// leases of groups that are longer than a minute, since when accounts are parked, and when
// sends are due and attempts and windows end ([Clocks.Rewind]). Everything outside the shards recovers by itself: limits and
// credentials know when they were last written, a heartbeat from the future counts as
// current, and a duty that lasts longer than allowed is free. If nobody saw the step, an
// audit finds accounts that are due more than an hour ahead. A clock that goes ahead
// makes everything that it passes due at once: each account is checked once, and claims
// under way are requeued as stale. For a day after that nothing is dropped for its age
// ([Clock.Gap]). Messages found while the clock was ahead stay that much longer, unless a
// bound of number or memory is reached.
//
// # Limits
//
// Limits that replicas share (package limit) are not part of a shard. Each is a HASH and
// a ZSET at NS:limits:{NAME}, and a second ZSET while accounts stay connected under it. A denied check returns its account with the time at which
// it may run, and the account waits in the schedule. For operators, each process that
// asks limits reports its view of them: a ZSET and a HASH at {NS:limits}:reporters and
// {NS:limits}:reports.
//
// What accounts share by the name of a limit, such as a host, may be down or ask for a
// pause. All replicas share that in the HASH {NS:limits}:troubles, which has only names
// that are not well, at most 1,024. A success removes its name, and without one a name
// goes by itself. Accounts wait in the schedule meanwhile, while one probe at a time goes
// out (limit.Troubles).
//
// # Credentials
//
// Credentials that a third party issues and all replicas share (package credential) are
// not part of a shard either. Each is a HASH at NS:credentials:{OWNER}:NAME, both
// digests. One replica at a time fetches it, under a fence, and all replicas see the
// result, even a refusal. If the third party asks for a pause, the owner is paused for
// all replicas, in the HASH NS:credentials:{OWNER}:pause. Callers seal the values. For
// operators two bounded ZSETs, {NS:credentials}:settled and {NS:credentials}:paused, have
// the owners in clear.
//
// # Documents
//
// Nor are documents that replicas share (package document): sessions of signed-in people
// at {NS:sessions}, sign-ins of accounts at {NS:signins}, keys of the API at {NS:keys},
// sealed secrets at {NS:secrets}, endpoints that were added while the service runs at
// {NS:endpoints}, reports, attempts and orders of webhook endpoints at {NS:webhooks}, changes of many accounts at {NS:jobs}, the latest checks of accounts that somebody looks at at {NS:checks}, notices at NS:bulletins, the trail
// at NS:trail, maintenance windows at NS:maintenance, silences of concerns at NS:silences,
// saved views at NS:views,
// figures for charts at NS:series:NAME, and what checks did, by period, at NS:activity.
//
// # Processes
//
// Every process of the service reports itself, whatever its roles, and monitors count
// processes that go silent without leaving ([Roster]): a ZSET and a LIST at
// {NS:replicas}:processes and {NS:replicas}:left. For operators a ZSET and a HASH,
// {NS:replicas}:processes:seen and {NS:replicas}:processes:about, also list the processes
// that went silent within the last ten minutes, with their reports. No account depends on
// them.
//
// # Keys
//
// keys.go lists the keys of a shard and of single accounts, with the type and the content
// of each, and those of replicas, processes and disabled webhook endpoints (NS:webhooks).
// The sections above name the keys of limits, credentials and documents. The live consumers of a group are
// at NS:consumers:GROUP, their reports at {NS:consumers:GROUP}:reports, and in each shard
// messages:applied:GROUP has the messages that the group's effects remember. The progress
// of a migration is at NS:migration.
//
// NS:meta has the version of the stored format, in its field format. It is 2 in a new
// namespace, and 3 once the number of shards was changed. Each migration adds 2, and the
// first send adds 1,000. A program refuses a namespace whose format it does not read; [Step]
// says how a format changes.
//
// # Records
//
// The record with which a checker checks an account rarely changes, so a claim does not
// read it. The claim reports which records have changed since the replica's last claim of
// the shard, and [Records] caches the others.
//
// # Messages and groups
//
// Return and Progress append to the shard's stream. The field trace of a message is the
// traceparent of what wrote it, and a send's record has that of what queued it; the ring
// passes it on. A consumer group reads the stream under a lease for each shard, with a
// token from ticket_seq, so that one consumer at a time has an account's messages. Steps under a lost lease do nothing. Messages that a group
// cannot handle go to the dead stream. See packages group and delivery.
//
// A process waits for the messages of all its groups with one XREAD for each node of
// Redis. It takes, renews and surveys their leases of a shard in one step.
//
// # Memory
//
// I4 is about cursors. A third party may give a message again under a new cursor, a second
// or half an hour later, with or without its id. An account can remember its messages
// ([Remember]): Return and Progress then judge each message of a page, and write only
// those that the account does not know. A repetition is counted ([Judged]), and is a line
// of the timeline. The account remembers what the stream has accepted, in the same atomic
// step and under the same ticket. So what a lost claim brought, or what the stream refused,
// is not remembered, and is found again.
//
// A message is identified by its id, and by its content if the kind sets it: what stays
// the same if the third party gives it again ([Message]). These are the rules:
//
//	a known id                              a repetition
//	no id, a known content                  a repetition
//	a new id, a content that is known from  a repetition: the message came without its
//	a message without an id                 id first, and has this id from now on
//	a new id, a content that is known from  another message: a person may write "ok" twice
//	messages with other ids only            within a millisecond
//
// The messages of a page are judged one after the other, so the second of two equal ones
// is a repetition too. Two messages without ids and with one content cannot be told apart:
// only the first is written. A kind that does not trust ids says that there is none.
//
// An account's marks are in two SETs, known:ID and known_before:ID: the newer and the older
// ones. A mark is a number of 19 digits, made from a digest of an id or of a content.
// Redis stores up to 512 of them in eight bytes each. When the newer marks are as many as
// half of [Remember].Messages allow, or so old that the older ones are past their time,
// they become the older ones, whose marks are forgotten. So an account knows at least half
// of the messages that it may know, for at least [Remember].For, and forgets them at the
// latest after four times as long: the keys expire. If marks are dropped before their time
// because there are too many, that is an overrun, which is counted. A page of fewer than 16
// marks counts those that exist only in one of ten cases, because that takes time, so there
// may be some more.
//
// Most pages have no repetition. One question to each SET shows that, and then the page's
// marks are added as they came. Only the messages of other pages are judged one by one.
//
// One ZSET for each account, with the time of each mark, would be exact. But a ZSET takes
// more time for each message, and several times as much memory. One STRING with all marks
// takes more time the longer it is.
//
// An account that remembers nothing has no key, and its steps make no call for it; an
// account without messages has no key either. Deregistering an account drops its memory.
// Resharding and backups take it along. An audit finds the memory of accounts that are not
// registered. A process of a version without memory writes every message, and leaves the
// memory as it is. If it moves accounts to other shards, they begin to remember anew.
//
// # Sends
//
// A send is one answer to a peer of an account: a person, a chat, an address. [Sends] has
// the steps of the outbox. All of an account's sends are in its shard, beside the account
// and not in one of its places: a check and a send never wait for each other.
//
//	     Queue
//	       │          Attempt
//	       ▼     ┌──────────────────▶ attempting
//	┌──▶ queued ─┤                     │ │ │ └──▶ accepted ──▶ failed
//	│      ▲     ├──▶ expired          │ │ │
//	│      │     └──▶ canceled         │ │ └────▶ rejected ─────────────────────┐
//	│      │  again later, or withdrawn│ │                                      │
//	│      └───────────────────────────┘ └──────▶ unknown ──▶ accepted, rejected │
//	│                                                │                          │
//	└── Resolve: sent again, last of its peer ───────┴──────────────────────────┘
//
// An attempt is the note, in Redis, that a send is on its way. Attempt makes it before the
// first byte leaves, under a fence: a fresh ticket and the name of the step. Settle writes
// only under that fence. An attempt ends as accepted, rejected, to be tried again later, or
// unknown. It becomes unknown by itself if it lasts too long, or if its replica is dead
// (Sweep). Nothing repeats an unknown send. Somebody resolves it: it was accepted, it was
// not, or it is to be sent again, which voids the fence. Until then an answer that comes
// late may still end the doubt, because it comes under the fence of the last attempt.
//
// After Attempt the caller waits, by [Syncer.Attempts], until the attempts are on the disk of
// their Redis and on as many of its replicas as it wants: by WAITAOF and by WAIT. Attempts of
// all shards of a node share its rounds. After the wait the Syncer also says which attempts
// still count. One that became unknown meanwhile does not, nor one that a failover has lost
// between its note and the wait. These must not be sent. If the wait fails, the caller gives
// the attempts back, because no byte of them has left: they are queued again at their old
// places. Attempt does the same after a cut connection. The name of a step is used once, and
// Redis remembers for a minute that a step was withdrawn, so a step that was still on its
// way takes nothing. A replica that dies before it has withdrawn leaves a doubt although
// nothing was sent, and never a double.
//
// A Redis that cannot tell what is on its disk may lose the note of an attempt, and so may
// a failover to a replica that nobody waited for: the send is then queued again and goes
// out twice.
//
// Of a peer's sends at most one is under an attempt, in the order in which they were
// queued; other peers do not wait. A send that is tried again later stays the first of its
// peer. An unknown one does not hold up its peer. One that is sent again goes last.
//
// Queue refuses what would exceed the bounds of an account or of all ([SendsBusyError]).
// What is queued or under an attempt counts, and for its account what is unknown. Of the
// sends that have ended, the shard remembers [MostEndedSends] of each account, for a week.
// An idempotency key, as the digest of account and key, is remembered for [SendKeyKept],
// and the last [MostSendKeys] of an account. It outlives its send: the same key and
// contents are not queued again.
//
// Lists are in one order over all accounts and shards, the oldest send first
// ([Sends.Oldest]). For that the index has each send twice, by its account and by time
// alone. A place in a list is a time and an id, so it stays the same while accounts move.
//
// The id of a send begins with the CRC32 of its account. So it is found in any number of
// shards, and says no more than that of where it is.
//
// A paused account's sends wait; those of an account that is parked for another reason do
// not, because the vendor's answer says more than a guess. Deregister cancels what is
// queued, and forgets all sends of the account, in its own step. An attempt under way
// then is told as unknown. Sends depart and arrive with their account. An account waits in
// its old shard for an attempt under way, as for a claim, and nothing is attempted there
// while accounts leave. In a backup an attempt under way is unknown. On a full Redis only
// Queue is refused.
//
// A program of a version without sends would leave them behind where it changes the number
// of shards or deregisters their account. So before the first send is queued, NS:meta gets a
// format that such programs refuse, for good. One that is running then goes on checking,
// but is not ready, changes no number of shards, and does not start again. Until then such
// versions run beside this one, and after this one. testing/upgrade shows both.
//
// The keys are sends, sends:line, sends:due, sends:index, sends:ends, sends:names and
// windows: see send_keys.go and sends.lua. A shard without sends has none of them, and
// claims, returns and pages without windows make no call for them.
//
// # Windows
//
// Some vendors allow answers only for a time after a person's last message, and only so
// many. Such a message says so ([Answerable]), and the step that writes it, Return or
// Progress, also writes the window of its peer: until when, how often, and the newest
// token, which the caller has sealed. A message that is found late never shortens a
// window, and one that is found again does not refill it.
//
// Outside its window a send is refused by Queue, or waits. The step that opens the window
// lets the first one in line go. Attempt takes one from the count in the step that notes
// the attempt, so no number of replicas exceeds it. What no byte left of is given back, to
// the same window. A send that is Free needs the window, as for its token, and takes
// nothing from the count. A send that was queued inside its window and comes too late is
// rejected, with the code window. An account has at most [MostWindows] windows. Sweep
// forgets those that are over.
//
// # Events
//
// A group may ask for events ([Streams.TellEvents]). The step that ends a send, or leaves
// it in doubt, then also appends an event for that group to the shard's messages:
// send.accepted, send.rejected, send.unknown, send.expired, send.failed, and send.canceled
// if the account is deregistered. If no group asks, nothing is written. An event is an
// entry for one group, as a replayed dead letter is, and has the field event. Other groups
// pass it by, and observers leave it out.
//
// So events need no machinery of their own. Leases, retries, dead letters, retention,
// resharding and backups are those of messages. An account's messages and events come in
// one order, and an event is not trimmed before its group has acknowledged it. A separate
// stream of events would hold one entry for all groups that ask, but it would need all of
// that a second time.
//
// The field e of sends:names has the groups that ask. New shards get it before the first
// account moves. A restored backup has no event for attempts that were under way: these
// sends are unknown.
//
// # Files
//
// What a message names, such as an image, its third party forgets. So rounds fetches it and
// stores the bytes outside Redis, in a store. [Files] is the list of what the store has. All
// of it is under one hash tag, {NS:files}, because equal bytes of any accounts are stored
// once.
//
// A row is a file of a message, of a send, or an upload. Its id is a digest of its account,
// its holder's id and its place there ([NewFileID]), so a message has its files wherever it
// is: in another shard, as a dead letter, replayed, or restored. A row is kept or lost; a lost
// one says why. An object is what the store has under a name. The hash of its bytes leads to
// it, and it counts its rows.
//
//	Keep    adds a row for bytes that the caller has stored under a name that was never used
//	        before. If an object has these bytes, the row gets that object, and the caller's
//	        name is condemned.
//	Share   adds a row with the bytes of another, as for a send that names a file.
//	Lose    adds a lost row. It never replaces a kept one.
//	Raise   has a row judged from a later time.
//	End     ends rows, and condemns objects without rows.
//	Orphans condemns names of the store that no object has.
//	Clear   forgets condemned names, once the store has removed them.
//
// A name in condemned is never given to a row, and no name is used twice. So the store may
// remove a condemned name at any time, however late, and removes nothing that a row has. A
// process that dies leaves an orphan if it stored bytes and did not call Keep, and a condemned
// name if it did not remove one. The next collection removes both.
//
// A row is judged by a time, at first when its message was found. A row may end once that
// time is before the first entry of every shard's messages and before its own retention, if
// no dead letter names its message. End names the time that its caller saw, and passes over a
// row that has another one by now. So a caller that is about to write a message again, as a
// replay does, first raises its rows.
//
// A send's row is added before the send is queued, and stays as long as the send is known. An upload
// stays for a day. They are judged apart from files of messages ([Files.DueSent]).
//
// The keys are rows, objects, due, index, read, condemned, totals and accounts: see files.go
// and files.lua. On a full Redis only Keep, Share, Lose and Load are refused.
//
// # Connections
//
// A Server that is Divided has separate connections for heartbeats, claims and steps that
// end claims, for steps of groups, and for calls that block. So the first kind never
// waits behind any number of the others.
//
// # Timelines
//
// If [Options] ask for timelines, a step in which something unusual happens writes a line
// about the account ([Timeline]), in the same atomic script or transaction as the event
// itself. A line never makes a step fail: if Redis refuses it, it is lost. There are two
// capped STREAMs for each shard. One, timeline, has rare events. The other,
// timeline:routine, has messages found, checks asked for, and failures that an account is
// not to blame for. The first gets three of four lines that a namespace may have, so that
// busy and merely unlucky accounts do not push out real faults. A check that succeeded,
// found nothing and followed no failure writes nothing and costs nothing more.
//
// An account that fails for days must not push out the others either. A failure is a line
// if it is the first, the tenth, the hundredth and so on in a row, or if it is of another
// sort than the one before: the text before its colon differs. Failures of limits and
// outages are lines only if they are of another sort than the one before. Once the last
// eight checks changed three times between success and failure, further first failures
// and recoveries are routine. So 20,000 accounts that begin to fail write 20,000 lines,
// about as many again after ten failures, and one each when they are parked. A line gives
// the number of messages that one check found. Up to eight accounts whose checks were
// written together share a line.
//
// Changes of a record are not lines, unless a third party's move caused them: the trail
// already has the changes and their authors. Registrations are not lines, because a
// million accounts may be imported at once. A deregistration is one. It ends what can be
// read about an id, so that nobody who registers the id again reads about the earlier
// account.
//
// The number of lines is a setting of the ring. A line takes 60 to 500 bytes of Redis'
// memory, mostly about 100; a line that eight accounts share takes as much as their ids.
// Redis drops whole blocks of lines, so each of the two streams of a shard may hold up to
// a hundred more. On a Redis at its memory limit, steps that succeed there write their
// lines too. Texts are bounded. They are the texts of errors and reasons, which have no
// secret and no query.
//
// Lines do not move when the number of shards changes. The lines of the old shards are
// read until the change is complete and the old shards are dropped.
//
// # Audit
//
// [Ring.Audit] compares places and tickets in small steps. It confirms a suspicion at one
// moment, and can repair what it found. It also compares sends and their places, as
// [Sends.Audit] does.
//
// # Held checks
//
// Some third parties hold a call: they keep it open until something comes. The check of
// such an account is a held check. It has no step and no place of its own: it is a long
// claim, because the account stays claimed from call to call.
//
// A page is committed before the next call. Each page is a Progress: its messages and the
// cursor behind them are written together, under the claim's current ticket. The next
// call starts from that cursor. So I3 and I4 hold for every page, and a death costs at
// most the page in hand. A third party that retains its messages gives that page again.
//
// Progress renews the claim. It puts a fresh ticket and a fresh stamp on the entry, even
// for a page without messages. A monitor takes a claim for stale by its stamp. So a
// replica renews the claim before any call that may end later than 55 per cent of the
// long timeout after the last renewal, or later than 165 seconds if that is less. No call
// may last longer than half the long timeout. A renewal also notes that a check succeeded
// ([Page]): an account on which nothing happens must not look unchecked. An empty end
// between two renewals costs Redis nothing.
//
// A claim may be lost during a call: somebody changes, pauses or deregisters the account,
// or a monitor requeues it. Nothing is written under the old ticket. A replica compares
// the tickets of its held checks every three seconds ([Tickets]), and ends the call of an
// account with another ticket. Until then one account may have calls from two replicas;
// only one of them writes.
//
// A replica that dies during a held call is like any other dead replica. Heartbeats end,
// a monitor requeues the entries, and another replica makes the calls within the time of
// I2. A replica that stops does not wait for that: it ends its calls, commits the pages
// that have arrived, and releases the accounts in waves.
//
// A requeue is a strike, and the return of a check clears the strikes. A held check may
// not return for minutes, so a few replicas that die one after the other would make
// suspects of innocent accounts. An account that kills its replica does so when a call
// begins or an answer arrives, not while it waits. Therefore a replica acquits an account
// whose call has been held for a second ([Ring.ClearStrikes]): that clears its strikes,
// and nothing else. ClearStrikes looks at no ticket, because all that it can do is make a
// suspicion begin anew. The first claim after a strike ends with its first call, by a
// return.
//
// In a shard that accounts are leaving, each held call has a claim of its own, so that
// the account can move between two calls.
//
// # Changing the number of shards
//
// NS:meta says how the namespace is divided: generation, shards, next or previous while
// that changes, and skipped, the number of later generations that were aborted. Each
// change makes a new generation with keys of its own, {NS:gN:SS}. So every account moves,
// from any number of shards to any other, and no name ever means two things. A ring
// opened during a change has the old shards, which come first, and the new ones, and all
// steps work on both. A ring opened before finds out by Ring.awaitChange, and [Follow]
// lets a process begin with the new ring before it ends with the old one.
//
//	Reshard   meta gets next. From then on the format keeps out programs that know
//	          nothing of changes.
//	Receive   each new shard accepts accounts: its arrivals SET is made, and the
//	          consumer groups.
//	Move      writes leaving in an old shard, the first time and for good: no account is
//	          made there any more. For [MoveGate] at a time nothing is claimed there, so
//	          that returned accounts can be moved.
//	          depart takes accounts that are not claimed out of all their places and puts
//	          them into departures, with all their fields;
//	          arrive puts them into their new shards, under fresh tickets;
//	          settle takes them out of departures. What accounts remember goes along:
//	          depart puts it into known_away under the batch's name, arrive gives it to
//	          the accounts that it brings, and Confirm drops it.
//	Complete  is arrive and settle for the accounts in departures. Any process may do it.
//	Confirm   asks the new shard, keptFor after the settling, whether it still knows the
//	          accounts. If its Redis has lost them, they arrive again. Otherwise Confirm
//	          frees the old shard's copies, while other accounts are still moving. That
//	          bounds the number of accounts that exist twice, see [Mover.Copies].
//	Moved     meta: the new shards are the ring's, once only messages are left in the
//	          old ones.
//	Drained   meta: the old shards are dropped, once their messages are handled. Their
//	          dead letters move to the new shards, each once and in order.
//
// Before the first Move a change can be aborted. The first account that moves is the
// point of no return: after it the change can only go on. [Mover.Abort] makes every old
// shard record, in its key stays, that its accounts stay, which a shard does only if no
// account is leaving it. From then on no Move of that generation does anything, however
// late it comes. Then the new shards refuse registrations, as shards that accounts leave
// do, and meta forgets them. Their generation is skipped: no later change has its names.
// The process that aborts may stop anywhere. A monitor that meets a shard whose accounts
// stay goes on with the abort. If accounts are already leaving another shard, it takes
// the abort back instead.
//
// An account is at every moment in the places of its old shard, in departures, or in the
// places of its new shard. Each of the three scripts takes it from one to the next in one
// atomic step on one shard. If a process stops, its accounts are in one of the three, and
// the next process continues from there. arrive records in arrivals the accounts that it
// has seen, and a shard that is done with a change never has that key again. So a step
// that is repeated, or late by any time, brings no account twice, and brings back none
// that was deregistered. A claimed account moves after its return; a move never voids a
// check.
//
// A step that goes by ids looks in the old shard, completes the accounts on their way,
// and looks in the new one. An account only ever moves in this order, so the search does
// not miss it. Before a step reports an account missing, it reads meta again: a ring
// opened before the change returns [ErrResharding] instead. In a shard that has leaving,
// the script refuses a registration, which is then made in the new shard.
//
// All of these steps work on a Redis at its memory limit: they begin with a removal, and
// add no more than they then free. [Mover.Room] estimates the memory that they take on
// top, about a third of the accounts' memory, mostly for arrivals.
//
// While all goes well, an account is late at most by the time that its shard takes to
// move. An account that was on its way when a mover died is late until the next sweep of
// any monitor. An account that waited in a shard whose mover died is late by MoveGate. A
// consumer group reads a new shard only after it has acknowledged all messages in the old
// shards that the new shard's accounts came from, so that an account's messages stay in
// order. Walks over all accounts may return an account that moves meanwhile twice, but
// never miss it.
//
// One key is left behind for each old shard, leaving, for thirty days. It stops a process
// that slept through the change from making anything there.
//
// # A full Redis
//
// A Redis at its memory limit refuses every command that could need more, and all of
// MULTI. Steps that free memory, move or only read succeed there: Claim, Return and
// Progress without messages, Release, Requeue, which is a script then, Deregister, Park,
// Resume, Quarantine, NudgeOverdue, Look, Count, heartbeats, duty, trimming, all steps of
// consumer groups, and all steps of sends but Queue, with their events. Steps that add are
// refused before they have written anything ([Full]): Return and Progress with messages,
// Register and Upsert of something new, Nudge, and Queue.
//
// # Unknown outcomes
//
// A time-out or a cut connection says nothing about whether a step was done
// ([Unknown]). Every step except Requeue's compensation can be repeated: accounts that the
// first attempt changed then show as fenced, lost or unchanged. A requeue of unknown outcome
// is never compensated, because it may have been the one that moved the entry. The next
// sweep looks again.
//
// # What is unusable
//
// A malformed entry goes to set_aside. A key of a wrong type is renamed to
// KEY:set_aside:…. Both are logged and counted, and the shard goes on.
//
// # Guarantees
//
//	I1  each registered account is in exactly one place under a current ticket
//	I2  a dead replica's claims can be claimed again within 20 s at default
//	    settings; a stuck replica's claims within the long timeout plus one sweep
//	I3  only the holder of the current ticket writes a check's results
//	I4  each message reported under a cursor is in the stream once; of an account that
//	    remembers, also if the third party gives it again
//	I5  an acknowledged registration survives whatever Redis survives
//	I8  each send that was queued ends with one outcome, or is shown as unknown; what
//	    is unknown is repeated only if somebody decides so
//	I9  a send is sent again only if its vendor refused it for now, no byte of it had
//	    left, or somebody decides so
//	I10 of a peer's sends one at a time is attempted, in the order of acceptance
//	I11 no attempt is made outside a window, and none beyond its count
//
// I6 and I7 are about the service: see the README. The explorer finds each of I8 to I10
// broken on purpose (TestMutations), and ringtest I11 (windowOpens, windowCounts,
// windowCloses).
//
// Package ringtest tests them step by step on every kind of server. Its random walk tests
// them over arbitrary interleavings of whole steps, with requeues stopped half way.
//
// Late accounts: the explorer finds what is promoted late and stays, goes nowhere, or
// starves, and ringtest in which order they go.
//
// Not guaranteed: that two checks of one account never overlap in time. A live replica
// that outlasts the long timeout may be checking while another does; only one of the
// checks is written. What Redis itself loses is lost here too: see the README.
package circulate

// Package circulate is the ring: accounts, timestamped, that circulate in Redis
// between message_queue and processing_list, so that any number of replicas keep
// checking them for ever, and none is lost or doubled whatever stops half way.
// It is the protocol and nothing else; this page is its specification.
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
// The conservation law: every registered account is in exactly one place under
// its current ticket. Each step keeps it.
//
// # Entries and tickets
//
// What travels in the two lists is an [Entry], ticket|stamp|replica|id, the first three
// in fixed width. The stamp says since when the entry is where it is. For a waiting
// account that is when it became due, so that lateness is a subtraction.
//
// The ticket is the account's fencing token. Every claim, return, progress, release,
// registration, change, pause and resume issues a fresh one, from a counter of the
// shard that never goes back. The accounts of one step may share it, because a ticket is
// only ever compared with others of the same account, which never gets one twice. The
// tickets HASH has the current one. An entry with any
// other ticket is void: it is dropped where it is met, and nothing is written under it.
// So an entry never has to be searched for to remove it, a second copy does no harm,
// and of two checks of one account at most one is ever written.
//
// The counter is ticket_seq. A second key, ticket_mark, has a number that no ticket has
// reached yet: it is written once in 4,096 tickets. A counter that is lost, or is no
// number any more, begins above the mark, in a time that does not depend on the number
// of accounts. If the mark is lost as well, the counter begins at ten for each
// millisecond since 1970. A shard that issued more than that all its life may then
// repeat a ticket. A server that forgot its last writes repeats tickets too. That does
// no harm: an entry must be in processing_list to the letter, with its stamp and its
// replica, and a lease must be the very consumer's.
//
// After the ticket, the same field holds everything else that is short and that every
// account has: its lane, what decided when it is due, when a check last succeeded, how
// the last eight went, and its cursor if that has at most 44 bytes, as most have. That
// saves a field of a second HASH, a third of what an account takes. Longer cursors are
// in the cursors HASH.
//
// # Why tickets
//
// Without them the pattern is short: a claim is RPOPLPUSH, a return is
// MULTI(LREM processing_list 1, LPUSH message_queue), and a monitor does the same with
// what is stale. It doubles accounts, and it loses them.
//
// One slow replica doubles an account in five steps, and nothing crashes: the replica
// claims A; a monitor reads A as stale; it takes A out of processing_list and puts it into
// message_queue; the replica returns A. Its LREM removes nothing, and its LPUSH is done
// all the same. A now stands in message_queue twice, and nothing ever notices.
//
// A monitor that takes back what it added for nothing does not mend that. Two monitors
// read A as stale. The first requeues it. The second requeues it too: its LREM removes
// nothing, and A waits twice. A replica claims one of them. Then the second monitor takes
// its own A back, from message_queue and from processing_list: both are gone, and the
// account is lost.
//
// Both protocols were searched as models, where each operation of Redis is a step: two
// replicas and two monitors, at most two crashes and one lost reply.
//
//	                                     bare pattern      with tickets
//	an account is lost for ever          in 8 steps        never
//	an account is doubled for ever       in 5 steps        never
//	a check's results are written twice  in 4 steps        never
//	states                               2,611,458         132,810, all of them
//
// A fresh ticket at each claim alone is not enough: after a return a late LPUSH would
// leave the account in schedule and in message_queue at once. So a return issues a
// fresh one as well. Package explore searches the protocol as it is today.
//
// # Lanes
//
// message_queue has three lanes, one list each: message_queue:urgent,
// message_queue and message_queue:low. See [Priority] for the order between them
// and within them. A nudged account waits in the urgent lane, once. What a
// monitor requeues waits in the middle one, once: Requeue knows no record.
//
// # Kinds
//
// Replicas may check different kinds of accounts. The ring knows no kinds; it learns that
// of an account when a replica that cannot check it hands it over. From then on a claim
// names the kinds that its replica checks, and passes by an account of another: the
// account waits in message_queue:by_kind, a ZSET whose members are KIND, a tab, a rank
// and the entry, and only a claim with that kind takes it from there. An account passed by
// gets a fresh ticket and keeps its stamp. Half of a claim at most is taken from there
// while the lanes have entries, so that neither keeps the other waiting. The rank is the
// stamp, a minute earlier for urgent accounts and a minute later for low ones.
//
// The kinds HASH, id to kind, is what the shard has learned. It is made when an account is
// handed over and expires [KindsKept] later, so that the ring of a namespace whose
// replicas check the same kinds pays one key more in two EXISTS, and nothing else. It is
// a hint: whatever it says, and whenever it is lost, an account is in one place. Accounts
// that wait by a kind which no living replica checks are recalled by the monitor on duty.
//
// # Steps
//
// Each step is one atomic operation on one shard, bounded by a count, safe to
// repeat, and a method of [Ring]:
//
//	Claim     promotes what is due, then RPOPLPUSHes up to n entries from
//	          message_queue to processing_list; void ones are dropped, the others
//	          get a fresh ticket, the replica and the time. Where nothing waits,
//	          and all that is promoted is taken, it gets them as it comes to
//	          message_queue, for it leaves that in the same step. A busy replica
//	          may take what is due within a second as well, if nothing waits, and
//	          checks it when it is due ([ClaimAhead]).
//	Return    gives claims back: messages, cursor, failures and next place are
//	          written together, and only for an entry that was still in
//	          processing_list (LREM answers 1) under the current ticket.
//	Progress  writes one page of several, under the same two conditions, and
//	          renews the claim.
//	Release   gives claims back unchecked, next in line. A replica that lost the
//	          reply to a claim finds its entries in processing_list and releases
//	          them as well.
//	HandOver  is Release of accounts that only other replicas check ([Kinds]).
//	Recall    takes accounts out of message_queue:by_kind and puts them into the lanes.
//	Requeue   is the monitor's: MULTI(LREM, LPUSH), and MULTI(LREM, LREM) where the
//	          first LREM answered 0. It is no script and knows no ticket: it may
//	          leave a copy, which is void from the next claim on.
//	Register, Upsert, Deregister, Park, Resume, Probe, Nudge
//	          change who circulates; the fresh ticket voids what is under way.
//	          Upsert and Deregister may demand the record that the caller saw, so
//	          that of two changes at once none is lost. A new account may bring
//	          along a cursor, failures and why it is parked ([Begin]).
//	Quarantine
//	          parks what was requeued again and again with no check returned.
//
// All but Requeue are Lua scripts, in a file each beside their callers. A script checks
// types and arguments before its first write, and adds before it removes. Tickets are
// taken before anything is removed, and a claim whose messages the stream refuses is
// put back. So a step that fails leaves its accounts where they were. Times come from
// Redis' TIME alone; no step looks at a client's clock.
//
// Return of a batch does what one LREM for each entry would do. When the batch is
// not much smaller than the list it reads the list once instead and puts what
// remains in its place, so that the cost of a return does not grow with what is
// in flight. A batch of claims that were lost does not walk through a longer list for
// each of them: after a few it reads the list once, to know which are there.
//
// # Wake-ups
//
// A replica sleeps until the first due time of its shards, which every claim tells it.
// A step that schedules something before that publishes "SS due" on NS:wake
// ([Ring.Subscribe]). A nudge to now publishes it too: a busy replica lets due accounts
// gather, and a nudge must not wait for that. Losing a message loses no account: a
// replica that cannot listen looks at every shard each second.
//
// # Redis' clock
//
// All times are Redis', and its clock may be wrong for a while. The monitor on duty
// reads each node's clock every five seconds and keeps the newest time seen
// ([Clocks.Read]). If the clock went back by [ClockStep] or more, the monitor walks the
// schedule in small steps and moves what is due later than it can be: a slot of a
// cadence to the next one, a wait by as much as the clock went back. It does the same
// to nudges, to leases of groups that are longer than a minute, and to since when
// accounts are parked ([Clocks.Rewind]). What is not on a shard recovers by itself: a
// limit and a credential keep when they were last written, a heartbeat from the future
// counts as one of now, and a duty that lasts longer than it may is free. If nobody saw
// the step, an audit finds what is due more than an hour ahead. A clock that goes ahead
// makes everything that it passes due at once: each account is checked once, and what
// was under way is requeued as stale. Nothing is dropped for its age for a day after it
// ([Clock.Gap]). What was found while the clock was ahead stays that much longer, unless a
// bound of number or memory is reached.
//
// # Limits
//
// Limits that replicas share (package limit) are not part of a shard. Each is a HASH
// and a ZSET at NS:limits:{NAME}. A denied check returns its account with the time at
// which it may run, and the account waits in the schedule. For operators each process
// that asks limits reports what it sees of them: a ZSET and a HASH at
// {NS:limits}:reporters and {NS:limits}:reports.
//
// # Credentials
//
// Nor are credentials that a third party issues and all replicas share (package
// credential): a HASH at NS:credentials:{OWNER}:NAME, both digests. One replica at a
// time fetches it, under a fence, and all replicas see the result, also a refusal. If
// the third party asks to leave an owner alone, the owner is paused for all replicas,
// in the HASH NS:credentials:{OWNER}:pause. Callers seal the values. For operators two
// bounded ZSETs, {NS:credentials}:settled and {NS:credentials}:paused, have the owners in
// clear.
//
// # Documents
//
// Nor are documents that replicas share (package document): sessions of people who signed in
// at {NS:sessions}, sign-ins of accounts at {NS:signins}, keys of the API at {NS:keys}, sealed
// secrets at {NS:secrets}, reports and orders about webhook endpoints at {NS:webhooks},
// notices at NS:bulletins, the trail at NS:trail, and figures for charts at NS:series:NAME.
//
// # Processes
//
// Every process of the service reports itself, whatever its roles, and monitors count
// those that go silent without leaving ([Roster]): a ZSET and a LIST at
// {NS:replicas}:processes and {NS:replicas}:left. For operators a ZSET and a HASH,
// {NS:replicas}:processes:seen and {NS:replicas}:processes:about, also have those that
// went silent within the last ten minutes, and their reports. No account depends on
// them.
//
// # Records
//
// What a checker needs to know of an account rarely changes. A claim does not read it.
// It reports which records changed since the replica's last claim of the shard, and
// [Records] keeps the others.
//
// # Messages and groups
//
// Return and Progress append to the shard's stream. A consumer group reads it under a
// lease for each shard, with a token from ticket_seq, so that one consumer at a time
// has an account's messages. Steps under a lost lease do nothing. Messages that cannot
// be handled go to the dead stream. See packages group and delivery.
//
// However many groups a process reads, it waits for their messages with one XREAD for
// each node of Redis, and takes, renews and surveys their leases of a shard in one step.
//
// # Connections
//
// A server that is divided keeps connections apart for heartbeats, claims and what
// returns claims, for steps of groups, and for calls that block. So the first kind
// never waits behind any number of the others.
//
// # Timelines
//
// If [Options] say so, steps in which something unusual happens write a line about the
// account ([Timeline]), in the same atomic script or transaction that does what the line
// says. A line never makes a step fail: if Redis refuses it, it is lost. There are two
// capped STREAMs for each shard. One, timeline, has what seldom happens to an account. The
// other, timeline:routine, has messages found, checks asked for, and failures that an
// account is not to blame for. Three of four lines that a namespace keeps are of the
// first, so the busy and the merely unlucky do not push out what went wrong. A check that
// succeeded, found nothing and followed no failure writes nothing and costs nothing more.
//
// An account that fails for days must not push out the others either. A failure is a line
// if it is the first, the tenth, the hundredth and so on in a row, or if it is of another
// sort than the one before: the text before its colon differs. Failures of limits and
// outages are lines only if they are of another sort than the one before. Once the last
// eight checks changed three times between success and failure, further first failures and
// recoveries are routine. So 20,000 accounts that begin to fail write 20,000 lines, about
// as many again after ten failures, and one each when they are parked. The messages of one
// check are told by their number, and up to eight accounts whose checks were written
// together share a line.
//
// A record's changes are not lines, unless a third party's move caused them: the trail has
// them already, and who ordered them. Registrations are no lines, because a million
// accounts may be imported at once. A deregistration is one. It ends what is read of an
// id, so that nobody who registers an id again reads of the account that had it before.
//
// The number of lines is a setting of the ring. A line takes 60 to 500 bytes of Redis'
// memory, mostly about 100; one that eight accounts share takes as much as their ids.
// Redis drops whole blocks of lines, so each of the two streams of a shard may keep up to
// a hundred more. On a Redis at its memory limit lines are written by steps that succeed
// there. Texts are bounded, and are those of errors and reasons, which have no secret and
// no query.
//
// Lines are not carried along when the number of shards changes. Those of the old shards
// are read until the change is complete and the old shards are dropped.
//
// # Audit
//
// [Ring.Audit] compares places and tickets in small steps, confirms at one moment what
// looks wrong, and can repair it.
//
// # Held checks
//
// Some third parties hold a call: they keep it open until something comes. The check of such an
// account is a held check. It has no step and no place of its own: it is a claim that lasts, because
// the account stays claimed from call to call.
//
// A page is committed before the next call. Each page is a Progress: its messages and the cursor
// behind them are written together, under the claim's current ticket. The next call asks from that
// cursor. So I3 and I4 hold for every page, and a death costs at most the page in hand. A third
// party that keeps its messages gives that page again.
//
// Progress renews the claim. It puts a fresh ticket and a fresh stamp on the entry, also for a page
// without messages. A monitor takes a claim for stale by its stamp. So a replica renews the claim
// before any call that may end later than 55 per cent of the long timeout after the last renewal, or
// than 165 seconds if that is less. No call may last longer than half the long timeout. A renewal
// also notes that a check succeeded ([Page]): an account on which nothing happens must not look
// unchecked. An empty end between two renewals costs Redis nothing.
//
// A claim may be lost during a call: somebody changes, pauses or deregisters the account, or a
// monitor requeues it. Nothing is written under the old ticket. A replica compares the tickets of its
// held checks every three seconds ([Tickets]), and ends a call whose account has another one. Until
// then one account may have calls from two replicas; only one of them writes.
//
// A death within a hold is a death like any other. Heartbeats end, a monitor requeues the entries,
// and another replica makes the calls within the time of I2. A replica that stops does not wait for
// that: it ends its calls, commits the pages that have arrived, and releases the accounts in waves.
//
// A requeue is a strike, and the return of a check clears the strikes. A held check may not return
// for minutes, so a few replicas that die one after the other would make suspects of innocent
// accounts. An account that kills its replica does so when a call begins or an answer arrives, not
// while it waits. Therefore a replica acquits an account whose call has been held for a second
// ([Acquit]): that clears its strikes, and nothing else. Acquit looks at no ticket, because it can
// only make a suspicion begin anew. The first claim after a strike ends with its first call, by a
// return.
//
// An account does not stay in a shard that accounts are leaving: each call there has a claim of its
// own, and between two of them the account moves.
//
// # Changing the number of shards
//
// NS:meta says how the namespace is divided: generation, shards, while that changes
// next or previous, and skipped, how many generations after this were given up. Each
// change makes a new generation with keys of its own, {NS:gN:SS}, so that every account
// moves, from any number to any other, and no name ever means two things. A ring that
// is opened meanwhile has the old shards, which come first, and the new ones, and all
// steps work on both; one that was opened before finds out by Ring.awaitChange, and
// [Follow] has a process begin with the new ring before it ends with the old one.
//
//	Reshard   meta gets next. From then on programs that know nothing of
//	          changes are kept out by the format.
//	Receive   each new shard takes accounts: its arrivals SET is made, and the
//	          consumer groups.
//	Move      for each old shard, from the first time on and for good, leaving is
//	          there: no account is made in it any more. For [MoveGate] at a time
//	          nothing is claimed there, so that what comes back can be moved.
//	          depart takes accounts that are not claimed out of all their places
//	          and into departures, with all that the shard has of them;
//	          arrive puts them into their new shards, under fresh tickets;
//	          settle takes them out of departures.
//	Complete  is arrive and settle for what is in departures. Anybody may do it.
//	Confirm   keptFor after the settling asks the new shard whether it still
//	          knows the accounts, and has them arrive again where its Redis has
//	          lost them. Otherwise it frees the copies that the old shard has
//	          kept, while other accounts are still moving: so what is there
//	          twice at any time is bounded, see [Mover.Copies].
//	Moved     meta: the new shards are the ring's, once nothing but messages is
//	          left in the old ones.
//	Drained   meta: the old shards are forgotten, once their messages are. Dead
//	          letters go to the new shards, in their order and once.
//
// Before the first Move a change can be aborted. The first account that moves is the
// point of no return: after it the change can only go on. [Mover.Abort] has every old
// shard say, in its key stays, that its accounts stay, which a shard does only if it is
// not being left; from then on no Move of that generation does anything, however late
// it comes. Then it has the new shards refuse registrations, as shards do that are
// left, and then meta forgets them. Their generation is skipped: no later change has
// its names. The process that gives up may stop anywhere: a monitor that meets a shard
// whose accounts stay goes on with it, and where one shard is being left it is taken
// back.
//
// An account is at every moment in the places of its old shard, or in departures, or in
// the places of its new shard, and each of the three scripts takes it from one to the
// next in one atomic step on one shard. A process that stops leaves it in one of them,
// and the next one continues from there. arrive remembers in arrivals what it has seen,
// and a shard that is done with a change never has that key again. So a step that is
// repeated, or comes late by any time, brings no account twice, and none back that was
// deregistered. A claimed account is moved after its return; a move never voids a
// check.
//
// A step that goes by ids looks in the old shard, completes what is on its way, and
// looks in the new one: an account only ever goes on in this order, and so is not
// missed. Before a step reports an account missing, it reads meta again: a ring that
// was opened before the change returns [ErrResharding] instead. A registration in a
// shard that has leaving is refused by the script, and made in the new shard.
//
// All of these steps work on a Redis at its limit of memory: they begin with a
// removal, and add no more than they then free. [Mover.Room] estimates what
// they take besides, about a third of what the accounts take, mostly for arrivals.
//
// While all goes well an account is late by what its shard takes to move, at most;
// one that was on its way when a mover died, until the next sweep of any monitor;
// one that waited in a shard whose mover died, for MoveGate. A consumer group reads a
// new shard only when it has acknowledged all that was found in the old shards that
// accounts of it came from, so that an account's messages keep their order. Walks
// over all accounts give one that moves meanwhile perhaps twice, and never not at all.
//
// Left behind is one key for each old shard, leaving, for thirty days: it keeps a
// process that slept through the change from making anything there.
//
// # A full Redis
//
// A Redis at its memory limit refuses every command that could need more, and all of
// MULTI. Steps that free memory, move or only read succeed there: Claim, Return and
// Progress without messages, Release, Requeue, which is a script then, Deregister,
// Park, Resume, Quarantine, Look, Count, heartbeats, duty, trimming, and all that
// consumer groups do. Steps that add are refused before they have written anything
// ([Full]): Return and Progress with messages, Register and Upsert of something new,
// Nudge.
//
// # Unknown outcomes
//
// A time-out or a cut connection says nothing about whether a step was done
// ([Unknown]). Every step except Requeue's compensation can be repeated: what was done
// before then shows as fenced, lost or unchanged. A requeue of unknown outcome is never
// compensated, because it may have been the one that moved the entry. The next sweep
// looks again.
//
// # What is unusable
//
// A text in a list that is no entry goes to set_aside, a key of a wrong type is
// renamed to KEY:set_aside:…; both are logged and counted, and the shard goes on.
//
// # Guarantees
//
//	I1  each registered account is in exactly one place under a current ticket
//	I2  what a dead replica held is claimable again within 20 s at default
//	    settings; what a stuck one holds, within the long timeout plus one sweep
//	I3  only the holder of the current ticket writes a check's results
//	I4  each message reported under a cursor is in the stream once
//	I5  an acknowledged registration survives whatever Redis survives
//
// Package ringtest holds them step by step on every kind of server; its random
// walk does so over arbitrary interleavings of whole steps, with requeues stopped
// half way.
//
// Not guaranteed: that two checks of one account never overlap in time. A live replica
// that outlasts the long timeout may be checking while another does; only one of the
// checks is written. What Redis itself loses is lost here too: see the README.
package circulate

// Package poller is a replica. Until it is stopped, it claims due accounts, checks them with their
// checkers, and returns them with the messages that the checks found.
//
// One step of the ring writes the messages of a check together with the cursor and the
// account's next place, or nothing at all. A replica that dies, hangs or is cut off loses
// only time: the monitors requeue the accounts that it had claimed, and its late writes are fenced.
//
// A Checker knows one third party. A Pool knows none: it handles time-outs, panics, pages,
// batches and shutdown. It joins three types: claimer claims due accounts, flights are the
// checks under way, and writer writes what they found.
//
// # One check
//
// A check is one loop: make a call, write its page, and go on or give the account back. Most third
// parties answer at once; some hold a call, which means that they keep it open until something
// comes. The loop is the same for both. Two policies say what differs: drain for third parties that
// answer at once, hold for those that hold a call.
//
//	                   drain                       hold
//	place              of Config.Concurrency       of Config.HeldChecks
//	time of a call     Config.CheckTimeout         the hold and ten seconds
//	pages of a claim   at most 20, in 30 seconds   any number, for ten minutes
//	a page             is committed if more is     is committed; the next call follows, at a
//	                   there, else returned        pace that no third party finds too hot
//	an empty end       returns the account         costs Redis nothing until the claim must be
//	                                               renewed; the account stays
//	a cut connection   is a failure                is an empty end if the call was held for a
//	                                               while, else it is tried twice more
//	the replica stops  at the end of the grace     in waves, from the beginning, so that other
//	                   period                      replicas can take the accounts over
//
// With hold an account stays as long as no return has to change anything: it has no failures, strikes
// or hint, its limits have no rate and do not count its connection, its cadence is "every 0", its shard
// stays with this replica, Redis has room, and no other account waits for a place. Package circulate
// says what the protocol promises.
//
// # Who settles a check
//
// While a check runs, several parties may want its end: the check itself, the watchdog, the
// shutdown, the watch over claims, and a secret that changed. They all move one atomic state by
// compare-and-swap, so exactly one of them settles the check, and only that one gives the account
// back. A page is in hand after a call has brought it and until it is written. During that time
// nobody else touches the claim.
//
//	┌─────────┐   finds    ┌──────────────┐   seizes   ┌────────┐
//	│ calling │ ─────────▶ │ page in hand │ ─────────▶ │ seized │
//	│         │ ◀───────── │              │            │        │
//	└─────────┘  commits   └──────────────┘            └────────┘
//	     │                        │                         │
//	     │ ends, complies,        │ ends, loses             │ commits, loses
//	     │ abandons, seizes       │                         │
//	     ▼                        ▼                         ▼
//	┌───────────────────────────────────────────────────────────┐
//	│ settled by itself, the watchdog, the shutdown, a loss of  │
//	│ the claim, or a secret: every further move is refused     │
//	└───────────────────────────────────────────────────────────┘
//
// Three moves call a check off and leave it where it is: its calls end, and it complies as soon as
// it has no page in hand. W stands for the first party that called it off. A dot means that the
// move is refused.
//
//	move      calling           calling W         page            page W          seized
//	finds     page              page W            .               .               .
//	commits   .                 .                 calling         calling W       settled shutdown
//	ends      settled itself    settled itself    settled itself  settled itself  .
//	loses     .                 .                 settled loss    settled loss    settled loss
//	complies  .                 settled W         .               .               .
//	abandons  settled watchdog  settled watchdog  .               .               .
//	stops     calling shutdown  .                 page shutdown   .               .
//	changes   calling secret    .                 page secret     .               .
//	misses    calling loss      .                 .               .               .
//	seizes    settled shutdown  settled shutdown  seized          seized          .
//
// What a party does after its move:
//
//	finds     the check writes the page, with the account's return or before the next call.
//	          Refused: the page comes too late and is dropped; the log says so.
//	commits   the check makes its next call, or complies. If the shutdown has seized it, the
//	          shutdown stops waiting and releases the account under its new entry.
//	ends      the check returns the account with its result, puts it off or releases it.
//	          Refused: it writes its page alone; the party that settled it has the account.
//	loses     the check forgets the claim: another has the account or may have it. If the check
//	          was seized, the shutdown forgets the claim.
//	complies  the check does it when its call has ended, or a timer if the checker does not
//	          return. The account is released with others (shutdown), put off for a moment
//	          (secret) or forgotten (loss).
//	abandons  the watchdog returns the account as failed; what the checker still brings is late.
//	stops     the shutdown ends the calls of held checks. Other checks may go on until the grace
//	          period is over.
//	changes   the same, because a secret that the account uses has a new value, such as after a
//	          new sign-in.
//	misses    the same, because the account has another ticket: it was changed, paused or
//	          deregistered, or another replica has it.
//	seizes    the shutdown releases the account. If a page is in hand, it waits for it first.
//
// # One send
//
// A pool also attempts the queued sends of kinds whose checkers are Senders. Their calls have Config.Sends
// places of their own, so a check never waits for a send. Package circulate says what the outbox promises.
// A queued send wakes the pool. Without sends, the pool asks Redis once every Config.IdleInterval
// whether there are any.
//
// An attempt is noted in Redis first. Then it waits until it is on Redis' disk, unless
// Config.ConfirmUnsynced is set, and on Config.ConfirmReplicas of its replicas. Thousands of attempts
// wait at once, and share a round trip to each node. None of them has a place: Config.SendsAhead bounds
// them, and the replica notes only as many ahead as its calls will soon have places for. After the
// wait an attempt that is not this replica's any more is dropped. The others take a place, ask the
// limits of checks, and only then does the call begin. If it cannot begin within nine seconds after its
// note, or the replica stops, the attempt is given back, and counts as none.
//
// While the account's way out is down or pauses (see package egress), a send waits as checks do: its
// attempt is given back until shortly after the next probe, and counts as none. Like any other, it is
// given up after a day unless it has an expiry. The probe is a check or a send of any account that goes
// by that way. Sends tell how their ways are, too, so a way is found to be down even if nobody checks by
// it. At a host that is down sends do not wait: a kind may send to another host than it checks, and so
// each send backs off by itself.
//
// If a replica is killed, its attempts are unknown, also those whose calls had not begun. So with
// appendfsync everysec up to a second of sends is in doubt, and few with always.
//
// The call ends in one of these ways:
//
//	accepted   Send returned no error
//	rejected   a SendError that is Final, or one that would be tried again after a day
//	again      any other SendError; the send keeps its place, and waits at least After
//	unknown    any other error, a panic, a call that hangs, or the end of the grace period
//
// An unknown send is sent again only if the kind deduplicates or the account's on_unknown is retry,
// as the last of its peer. If the kind is a Tracer, it is first looked for at the third party: after
// seconds, half a minute and two, or once its way is well again. One that is found is accepted. A killed replica leaves its attempts to the monitors, for which they are
// unknown as well. A fleeting send, such as a typing notice, is accepted or rejected by its only
// attempt: one whose end is unknown is rejected.
package poller

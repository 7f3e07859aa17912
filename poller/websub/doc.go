// Package websub subscribes accounts at WebSub hubs, which announce what is new (W3C Recommendation of
// 23 January 2018, https://www.w3.org/TR/websub/; the sections named here are its).
//
// A push is a nudge: nobody reads what is in it. The state of a subscription is a part of its account's
// cursor, so it goes wherever the account goes, ends with it, and needs no place of its own. Whoever
// checks the account renews the lease.
//
// # One subscription
//
//	planned ──▶ asked ──▶ live ──▶ trusted
//	   ▲          │ ▲      │ ▲        │
//	   └──────────┘ └──────┘ └────────┘
//
// A check that finds the hub of its feed plans a subscription, with a token and a secret, and has it written
// before the next page asks the hub: the hub may ask at once whether that is so. Its question reaches
// the API at a path with the account's id and the token. The API reads the subscription from the cursor,
// answers, and nudges the account; the nudge's hint has the lease, and the check that the nudge asks for writes
// it. A hint may get lost, and the hub may say nothing: it is asked again an hour later, then after two,
// up to a day. In the last third of the lease it is asked for another.
//
// A live subscription is trusted once a check that a push asked for finds something. The account then
// rests, and is checked every six hours besides. It is no longer trusted, and the account keeps its
// cadence, as soon as a check finds something that no push announced or finds nothing after a push, such
// as behind a cache that shows new items later, or when the lease ends.
//
// # What a hub cannot do
//
// A hub is a stranger, named by a stranger. At most one is asked for a feed, two calls a second from each
// process to one hub, with the redirects and private addresses of any other call. It gets the secret over
// TLS alone, and the topic must be of the feed's own host. Pushes have a signature or are dropped, and
// however many come, they ask for two checks in ten seconds at most.
//
// A hub learns the account's id, which is in the path. It is told that nobody subscribes (410) if it
// pushes to an account that is gone, or has another subscription.
package websub

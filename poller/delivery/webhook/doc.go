// Package webhook delivers found messages to HTTP endpoints in the form of Standard Webhooks
// 1.0.0 (https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md). That
// specification says what is sent, how it is signed, and what the status of an answer means.
//
// A [Sink] is the [delivery.Handler] of one [Endpoint]. Each endpoint is a consumer group of its
// own, [Endpoint.Group], so that a failing endpoint does not hold up others.
//
// # What is sent
//
// A POST for each message, with the spec's payload structure:
//
//	{"type":"message.found","timestamp":"2026-03-01T12:00:00Z","data":{
//	  "account":"…","kind":"feed","id":"…","type":"…","time":"2026-03-01T12:00:00Z","data":{…},
//	  "handle":"12:1767225600000-0"}}
//
// data is the message as it was found: id, type and data are the third party's own. time is the
// time of the message by the third party's clock, or null. timestamp is the same time, or when
// the message was found if its time is unknown. handle names the message where it is stored, for
// reply_to of a send. A message that carries files also has them:
//
//	"files":[{"n":0,"name":"invoice.pdf","type":"application/pdf","size":48211,
//	  "link":"https://rounds.example/v1/links/…","link_until":"2026-03-02T12:00:00Z"}]
//
// The link is signed, needs no key, and ends. Each delivery has a new one.
//
// An endpoint with Events also gets a POST when a send ends or is in doubt:
//
//	{"type":"send.accepted","timestamp":"2026-03-01T12:00:00.5Z","data":{
//	  "id":"…","account":"…","kind":"telegram","to":"…","type":"text","reply_to":"…","state":"accepted",
//	  "queued":"2026-03-01T12:00:00Z","attempts":1,"code":"…","reason":"…","vendor_id":"…"}}
//
// data is a circulate.SendEvent, and timestamp is when it happened, by Redis' clock. The webhook-id
// is made from the event's own id.
//
// The header webhook-id is the idempotency key: a hash of namespace, account and message id, so
// that all deliveries of a message to all endpoints have the same key. It is not the position in
// the stream, which changes if a failover of Redis loses the message and it is found again.
// webhook-timestamp is the time of the attempt. webhook-signature has a v1 signature (HMAC-SHA256)
// for each of the endpoint's secrets, so that keys can be rotated.
//
// # What an answer means
//
//	2xx            delivered; the body does not matter
//	410            the endpoint is disabled, in all replicas, until it is enabled
//	429; 503 with  not now: nothing is sent to the endpoint before Retry-After
//	Retry-After    is over
//	408, 425, 5xx  failed; tried again a few times at once, then by redelivery
//	no answer      the same, if the endpoint was reached
//	other 3xx, 4xx failed, and not tried again at once; redirects are not followed
//
// After a failed delivery a message waits 5 s, and after each further one twice as long, up to
// 1 h. After 34 failed deliveries, which take about a day, it is a dead letter. A delivery is a
// few attempts at once if the answer is 408, 425 or 5xx, or there is none. A failure that says
// nothing about the message does not count, and is a [delivery.Later]: the endpoint cannot be
// reached at all, asks for a pause, is disabled or its circuit breaker is open, or a secret is
// missing.
//
// An answer counts once it has been read to its end or to 64 KiB. If it breaks off, the outcome is
// unknown, and the message is sent again under the same id.
//
// # The circuit breaker
//
// After five failed attempts in a row nothing is sent for 30 s, and then one message as a probe.
// Each failed probe doubles the wait, up to 10 min. A probe that reached the endpoint counts for
// its message like any other attempt. Otherwise a message that brings the endpoint down would never
// become a dead letter. Each replica has its own breaker.
//
// # Watching an endpoint
//
// A [Remote] reports the state of a process's sinks: the last status, the waiting messages, how
// often each failed and when it is tried again, and the breaker, and every ten seconds the latest 20
// attempts, failures before successes, with the first KiB of the answer. It carries out orders: a retry
// tries waiting messages at once, even if the breaker is open. When an endpoint first refuses a
// message, the log says so. It repeats that every ten minutes, and says when the endpoint takes
// messages again.
//
// # Test events
//
// [Sink.Test] sends one event of the type endpoint.test, signed like any other:
//
//	{"type":"endpoint.test","timestamp":"2026-03-01T12:00:00Z","data":{"endpoint":"crm"}}
//
// It is sent once, whatever the breaker says and although the endpoint is disabled, and whatever its
// filter. Its answer changes nothing.
//
// # Endpoints that were added while the service runs
//
// They use only secrets whose bindings name the endpoint's host, also for signing. So who may add
// endpoints cannot send a secret, or what it signs, anywhere else.
//
// # Order
//
// An endpoint with Ordered gets the messages of an account one at a time. While one fails, later
// ones wait ([delivery.ErrHeld]). Other endpoints get messages as they come, several at once.
package webhook

// Package webhook delivers found messages to HTTP endpoints in the form of
// Standard Webhooks 1.0.0 (https://github.com/standard-webhooks/standard-webhooks,
// spec/standard-webhooks.md): what is sent, how it is signed, and what the
// answer's status means are taken from there.
//
// A [Sink] is the [delivery.Handler] of one [Endpoint]. Each endpoint is a
// consumer group of its own, [Endpoint.Group], so that one that fails holds up
// no other.
//
// # What is sent
//
// A POST for each message, with the spec's payload structure:
//
//	{"type":"message.found","timestamp":"2026-03-01T12:00:00Z","data":{
//	  "account":"…","kind":"feed","id":"…","type":"…","time":"2026-03-01T12:00:00Z","data":{…}}}
//
// data is the message as it was found: id, type and data are the third party's
// own, time is when it came to be by the third party's clock, or null. timestamp
// is that time too, or when the message was found where it is unknown.
//
// The header webhook-id is the idempotency key: the same for all deliveries of a
// message, to all endpoints, for ever, since it is a hash of namespace, account
// and message id. It is not the position in the stream, which changes when a
// failover of Redis loses a message and it is found again. webhook-timestamp is
// the time of the attempt. webhook-signature has a v1 signature (HMAC-SHA256) for
// each of the endpoint's secrets, so that keys can be rotated.
//
// # What an answer means
//
//	2xx            delivered; the body is dropped
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
// An answer counts once it has been read to its end or to 64 KiB. If it breaks off, the outcome
// is unknown, and the message is sent again under the same id.
//
// # The circuit breaker
//
// After five failed attempts in a row nothing is sent for 30 s, then one message
// as a probe. Each failed probe doubles the wait, up to 10 min. Probes that
// reached the endpoint count for their message like any other attempt: otherwise
// a message that no endpoint can stand would never end in the dead letters. Each
// replica has a breaker of its own.
//
// # Who looks after an endpoint
//
// A [Remote] reports how the sinks of a process stand: the last status, what waits, how
// often it failed and when it is tried again, the breaker. It obeys orders: what waits is
// tried at once, whatever kept it back. The log is told of the first message that an
// endpoint does not take, every ten minutes while that lasts, and when it is over.
//
// # Order
//
// An endpoint with Ordered set gets the messages of an account one at a time;
// while one fails, later ones wait ([delivery.ErrHeld]). Other endpoints get them
// as they come, several at once.
package webhook

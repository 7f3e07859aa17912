// Package secret defines the names of secrets and where secrets may go, and stores sealed
// secrets in Redis. The code that stores secrets and the code that resolves them share
// it.
//
// # Seals
//
// A secret is sealed with HPKE (RFC 9180) to a public key: DHKEM(X25519, HKDF-SHA256),
// HKDF-SHA256, ChaCha20-Poly1305, base mode, by the standard library's crypto/hpke. The
// process that stores secrets needs no private key. An attacker who breaks into the API, or
// reads Redis, cannot read secrets that were stored before. Only pollers have private keys:
// see package poller/secrets. ChaCha20-Poly1305 runs in constant time on every
// processor, with or without instructions for AES.
//
// The name and the binding are the additional data of the seal. A value that was moved to
// another name or binding cannot be opened. A seal does not show whether it is the latest
// one: an attacker who can write to Redis can restore an older value of the same name and
// binding, or remove the value.
package secret

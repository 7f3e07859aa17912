// Package secret says what secrets may be called and where they may go, and keeps them
// sealed in Redis. It has what those who put a secret in and those who resolve one must
// agree on.
//
// # Seals
//
// A secret is sealed with HPKE (RFC 9180) to a public key: DHKEM(X25519, HKDF-SHA256),
// HKDF-SHA256, ChaCha20-Poly1305, base mode, by the standard library's crypto/hpke. So the
// process that takes secrets needs no key that opens them: who breaks into the API, or reads
// Redis, reads no secret that was put in before. Only pollers have private keys; see package
// poller/secrets/opener. ChaCha20-Poly1305 takes the same time on every processor, whether
// or not it has instructions for AES.
//
// The name and the binding are the additional data of the seal: a value under another name,
// or with another binding, does not open. What a seal cannot tell is whether it is the
// latest: who can write to Redis can put an older value of the same name and binding back,
// or remove it.
package secret

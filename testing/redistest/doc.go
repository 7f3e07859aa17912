// Package redistest starts Redis servers for tests: real ones, as processes on free
// loopback ports, alone, with sentinels or as a cluster, and the embedded one. Functions
// named Start end them with a test; those named Launch are for programs. A test that
// needs a real server is skipped where redis-server is not installed, but fails if the
// environment has CI or ROUNDS_TEST_REQUIRE_REDIS. There a green run means that it ran.
// ROUNDS_TEST_REDIS_SERVER names another server to start, such as valkey-server.
package redistest

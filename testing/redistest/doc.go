// Package redistest starts Redis servers for tests: real ones, as processes of
// their own on free loopback ports, alone, with sentinels or as a cluster, and the
// embedded one. Start and its like end them with a test; Launch and its like are
// for programs. A test that needs a real server is skipped where redis-server is
// not installed, but fails where the environment has CI or
// ROUNDS_TEST_REQUIRE_REDIS: green there means that it ran.
package redistest

// Package redistest starts Redis servers for tests: real ones, as processes of
// their own on free loopback ports, and the embedded one. A test that needs a
// real server is skipped where redis-server is not installed, but fails where
// the environment has CI or ROUNDS_TEST_REQUIRE_REDIS: green there means that it
// ran.
package redistest

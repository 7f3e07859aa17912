// Package brokers runs the suite of all sinks on brokers: Kafka as kfake, the fake that franz-go is tested with, over
// a network in memory and in fake time, and, with the build tag night, NATS as its real server. It is a module of its
// own, so that who embeds rounds does not inherit servers.
package brokers

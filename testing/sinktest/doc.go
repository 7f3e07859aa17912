// Package sinktest is the suite that every sink must pass: order, kills at every step, a place that
// is away, messages that the place cannot take, and pressure. Each sink's tests call [Run] with a
// [Place]; so do those of sinks of one's own.
package sinktest

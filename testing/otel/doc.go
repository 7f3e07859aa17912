// Package oteltest exports traces of a service to a real collector of OpenTelemetry, built from its Go
// modules. Its tests run at night.
package oteltest

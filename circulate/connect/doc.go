// Package connect is how Redis is reached: one server over redis:// or
// rediss://, or one embedded in the process. What it returns lends connections
// to package circulate.
package connect

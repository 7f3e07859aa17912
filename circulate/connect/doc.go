// Package connect is how Redis is reached: one server ([Single]), the master that
// Sentinel names ([Sentinel]), the nodes of a cluster ([Cluster]), or one embedded
// in the process ([Embedded]). What it returns lends connections to package
// circulate.
//
// A connection never does a command again whose outcome is unknown. What a node of
// a cluster redirects it has not done, and only that is sent on.
package connect

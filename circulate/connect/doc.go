// Package connect reaches Redis: one server ([Single]), the master that Sentinel names
// ([Sentinel]), the nodes of a cluster ([Cluster]), or one embedded in the process
// ([Embedded]). These lend connections to package circulate.
//
// A connection never repeats a command whose outcome is unknown. A command that a node of
// a cluster redirects was not done there, and only such a command is sent on.
package connect

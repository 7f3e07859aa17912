// Command rounds is the service and its command line: it keeps checking a large
// set of third-party accounts for new messages. "rounds --help" says how.
//
// Package command is all of it, and makes the same program with kinds of one's own.
package main

import "github.com/rounds-dev/rounds/cmd/rounds/command"

func main() { command.Main() }

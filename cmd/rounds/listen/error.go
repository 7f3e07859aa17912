package listen

import "errors"

// errNothingPassed reports a process that systemd did not start with sockets.
var errNothingPassed = errors.New("systemd has passed no socket to this process: is the socket unit started, and does the service belong to it?")

// Command own-sender is rounds with one more kind, whose accounts can also send: "ntfy" reads a
// topic of a ntfy server, and publishes to any topic there.
//
//	go run ./deployments/examples/own-sender serve &
//	go run ./deployments/examples/own-sender account add desk --kind ntfy --set url=https://ntfy.sh --set topic=our-desk --every 1m
//	go run ./deployments/examples/own-sender send desk --to our-phone --text 'On our way.'
package main

import "github.com/rounds-dev/rounds/cmd/rounds/command"

func main() { command.Main(newNtfy) }

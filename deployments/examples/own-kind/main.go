// Command own-kind is rounds with one more kind: "statuspage" reports the incidents
// of a status page. It has all commands of rounds, from "serve" to "account why".
//
//	go run ./deployments/examples/own-kind serve &
//	go run ./deployments/examples/own-kind account add github --kind statuspage --set url=https://www.githubstatus.com --every 1m
//	go run ./deployments/examples/own-kind messages tail
package main

import "github.com/rounds-dev/rounds/cmd/rounds/command"

func main() { command.Main(newStatuspage) }

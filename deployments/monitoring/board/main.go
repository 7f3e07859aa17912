// Command board writes the dashboard for Grafana that the service is shipped with.
package main

import (
	"flag"
	"fmt"
	"os"
)

//go:generate go run . -o ../dashboard.json

func main() {
	out := flag.String("o", "", "the `FILE` to write; else standard output")
	flag.Parse()
	text, err := encode(dashboardOf(rows()))
	if err == nil {
		if *out == "" {
			_, err = os.Stdout.Write(text)
		} else {
			err = os.WriteFile(*out, text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "board:", err)
		os.Exit(1)
	}
}

// rows are those of the dashboard, from the top.
func rows() []row { return append(ofAccounts(), ofSystem()...) }

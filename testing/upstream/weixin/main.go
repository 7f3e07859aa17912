// Command weixin serves a fake of WeChat's bot interface alone, on loopback, so that any
// client can be pointed at it:
//
//	go run ./testing/upstream/weixin -addr 127.0.0.1:8900
//
// Requests below /fake/ play the person with the phone; see steered.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
	"github.com/rounds-dev/rounds/testing/upstream/ilinkd"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	hold := flag.Duration("hold", ilink.DefaultHold, "how long calls are held")
	told := flag.Duration("told", 0, "the hold to be told as longpolling_timeout_ms; 0: none")
	page := flag.Int("page", 100, "the most messages of an answer")
	bot := flag.String("bot", "", "the token of a bot that is bound from the start")
	flag.Parse()
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, os.Interrupt, syscall.SIGTERM)
	w, stop, err := ilinkd.ServeAt(*addr, ilink.Options{Hold: *hold, NextHold: *told, Page: *page}, steered)
	if err != nil {
		fmt.Fprintln(os.Stderr, "weixin:", err)
		os.Exit(1)
	}
	if *bot != "" {
		w.AddBot(*bot)
	}
	fmt.Printf("%s\n  curl -X POST '%[1]s/fake/bots?token=T'\n  curl -X POST '%[1]s/fake/post?token=T&n=3'\n  curl '%[1]s/fake/codes'\n", w.URL())
	<-stopped
	stop()
}

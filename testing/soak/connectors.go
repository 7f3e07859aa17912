package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/rounds-dev/rounds/testing/upstream"
)

// connectors are accounts of one connector, which take sends.
type connectors struct {
	name     string
	prefix   string // of the accounts
	once     bool   // it takes a send once, however often it comes
	fake     *upstream.Upstream
	accounts []string
}

// serve starts the connector. The returned function stops it.
func (c *connectors) serve() (stop func(), err error) {
	for n := range connectorsEach {
		c.accounts = append(c.accounts, fmt.Sprint(c.prefix, "-", n))
	}
	c.fake, stop, err = upstream.Serve(upstream.Options{Deduplicates: c.once})
	return stop, err
}

// write writes the accounts, one a line.
func (c *connectors) write(out io.Writer) {
	for _, id := range c.accounts {
		fmt.Fprintf(out, `{"id":%q,"kind":"http","cadence":"every %v","config":{"url":%q,"send_url":%q,"deduplicates":%t}}`+"\n", id, every, c.fake.URL("connector", id), c.fake.URL("send", id), c.once)
	}
}

func (c *connectors) heal() {
	for _, id := range c.accounts {
		c.fake.Heal(id)
	}
}

// textOf returns the text of a send's data.
func textOf(data json.RawMessage) string {
	var content struct{ Text string }
	_ = json.Unmarshal(data, &content) // another form has no text
	return content.Text
}

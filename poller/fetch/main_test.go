package fetch

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/rounds-dev/rounds/testing/processes"
)

// Tests of bodies of many megabytes and of thousands of names run without the race detector,
// which sees the same steps in those of small ones.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Apart(m, "TestPackedBodyLimit", "TestBodyLimit", "TestWindowsAreBounded", "TestNamesAreBounded"))
}

// networks reads a valid list.
func networks(list string) Networks {
	n, err := ParseNetworks(list)
	if err != nil {
		panic(err)
	}
	return n
}

// client returns a client that may reach 127.0.0.1 and no other private address.
func client(t *testing.T, options Options) *Client {
	t.Helper()
	if options.Networks.prefixes == nil && options.Networks.names == nil {
		options.Networks = networks("127.0.0.1")
	}
	c := New(options)
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// resolver answers every question with the addresses that next returns. No addresses mean that
// there is no such name.
func resolver(t *testing.T, next func(name string) []netip.Addr) *net.Resolver {
	t.Helper()
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go answer(theirs, next)
		return ours, nil
	}}
}

// answer speaks DNS over a stream: two bytes of length before each message.
func answer(conn net.Conn, next func(string) []netip.Addr) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := conn.Read(size[:]); err != nil {
			return
		}
		packet := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := conn.Read(packet); err != nil {
			return
		}
		var message dnsmessage.Message
		if message.Unpack(packet) != nil {
			return
		}
		question := message.Questions[0]
		message.Response, message.Additionals = true, nil
		addrs := next(question.Name.String())
		if len(addrs) == 0 {
			message.RCode = dnsmessage.RCodeNameError
		}
		for _, addr := range addrs {
			header := dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class}
			switch {
			case question.Type == dnsmessage.TypeA && addr.Is4():
				message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
			case question.Type == dnsmessage.TypeAAAA && addr.Is6():
				message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
			}
		}
		packed, err := message.Pack()
		if err != nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)); err != nil {
			return
		}
	}
}

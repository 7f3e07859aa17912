// Package dnstest answers questions for names, in the process of a test.
package dnstest

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"
)

// Resolver answers every question with the addresses that next returns. No addresses mean that
// there is no such name.
func Resolver(next func(name string) []netip.Addr) *net.Resolver {
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

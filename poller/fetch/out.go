package fetch

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/proxy"

	"github.com/rounds-dev/rounds/accounts/strict"
)

const schemeSOCKS = "socks5"

var (
	errNobody = &Error{Code: CodeUnknownWay, blame: blameUs,
		text: "the call is for no account, so ROUNDS_EGRESS does not say which way it goes: a kind must call with the context that it was given"}
	errSource = &Error{Code: CodeProxy, blame: blameUs, apart: true, // of this machine alone, whatever others say of the way
		text: "the source address of the way is not one of this machine: see ROUNDS_EGRESS"}
)

// noSecret returns the error for a confined call that would go through the way's proxy.
func (w *way) noSecret() error {
	if w.out.Proxy == nil {
		return ErrPublic
	}
	return &Error{Code: CodeRefusedAddress, cause: ErrPublic,
		text: "without TLS a secret is sent only to private addresses, and not through a proxy: use https, or let the account go by a way of ROUNDS_EGRESS that has no proxy"}
}

// dialProxy connects to a proxy. The operator names it, so its address is not judged.
func (w *way) dialProxy(ctx context.Context, address string) (net.Conn, error) {
	dialer := w.dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil, err
		}
		return nil, unreachedProxy(err, w.out.Name)
	}
	return conn, nil
}

// tunnel connects to HOST:PORT through a proxy, which resolves the name. Of the host it judges what can
// be judged here. Until the proxy has answered, all but a time-out is the proxy's fault: it may be the
// host that takes long.
func (w *way) tunnel(ctx context.Context, to *url.URL, address string) (net.Conn, error) {
	if err := w.rule.judge(&url.URL{Scheme: "https", Host: address}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.dialer.Timeout)
	defer cancel()
	host := to.Hostname()
	if dialled, err := strict.Hostname(host); err == nil {
		host = dialled
	}
	conn, err := w.dialProxy(ctx, net.JoinHostPort(host, strconv.Itoa(int(portOf(to)))))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(aLongTimeAgo()) })
	through, err := w.askProxy(ctx, conn, to, address)
	if stopped := stop(); err == nil && !stopped {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return through, nil
}

// askProxy has the proxy connect to HOST:PORT.
func (w *way) askProxy(ctx context.Context, conn net.Conn, to *url.URL, address string) (net.Conn, error) {
	if to.Scheme == schemeSOCKS {
		return conn, w.askSOCKS(ctx, conn, to, address)
	}
	if to.Scheme == "https" {
		over := tls.Client(conn, &tls.Config{ServerName: to.Hostname(), NextProtos: []string{"http/1.1"}})
		if err := over.HandshakeContext(ctx); err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, ctx.Err()
			}
			return nil, brokenProxy("TLS failed", w.out.Name) // a time-out too: no host is concerned yet
		}
		conn = over
	}
	return w.askHTTP(ctx, conn, to, address)
}

// askHTTP asks an HTTP proxy (RFC 9110, 9.3.6).
func (w *way) askHTTP(ctx context.Context, conn net.Conn, to *url.URL, address string) (net.Conn, error) {
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: make(http.Header)}
	if user := to.User; user != nil {
		password, _ := user.Password()
		request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := request.Write(conn); err != nil {
		return nil, w.spokeBadly(ctx, "the connection broke off")
	}
	limited := &io.LimitedReader{R: conn, N: lineHeader}
	from := bufio.NewReader(limited)
	answer, err := http.ReadResponse(from, request)
	if err != nil {
		return nil, w.spokeBadly(ctx, "its answer is not HTTP, or the connection broke off")
	}
	if failed := tunnelError(answer, w.out.Name); failed != nil {
		return nil, failed
	}
	if from.Buffered() == 0 {
		return conn, nil
	}
	begin, _ := from.Peek(from.Buffered()) // the host may speak first
	return &begunConn{conn, io.MultiReader(strings.NewReader(string(begin)), conn)}, nil
}

// begunConn is a connection of which the first bytes were read.
type begunConn struct {
	net.Conn
	from io.Reader
}

// Read implements net.Conn.
func (c *begunConn) Read(p []byte) (int, error) { return c.from.Read(p) }

// askSOCKS asks a SOCKS5 proxy (RFC 1928 and 1929).
func (w *way) askSOCKS(ctx context.Context, conn net.Conn, to *url.URL, address string) error {
	var auth *proxy.Auth
	if user := to.User; user != nil {
		auth = &proxy.Auth{User: user.Username()}
		auth.Password, _ = user.Password()
	}
	dialer, err := proxy.SOCKS5("tcp", to.Host, auth, nil)
	if err != nil {
		return w.spokeBadly(ctx, "")
	}
	over, ok := dialer.(interface {
		DialWithConn(ctx context.Context, c net.Conn, network, address string) (net.Addr, error)
	})
	if !ok {
		return w.spokeBadly(ctx, "")
	}
	if _, err = over.DialWithConn(ctx, conn, "tcp", address); err != nil {
		return w.socksError(ctx, err)
	}
	return nil
}

// socksReply is how the library begins its error for a reply that is not 0: the proxy has let us in,
// and says what became of the connection to the host. If that text changes, the way is to blame.
const socksReply = "unknown error "

// socksError returns the error for a SOCKS5 proxy's answer. A reply that says that the proxy itself has
// failed is the host's fault all the same: for a name that they cannot resolve, proxies have no other one
// (microsocks). See tunnelError.
func (w *way) socksError(ctx context.Context, err error) error {
	inner := err
	if op, ok := errors.AsType[*net.OpError](err); ok {
		inner = op.Err
	}
	reply, replied := strings.CutPrefix(inner.Error(), socksReply)
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // it may be the host that takes long
	case replied && reply == "connection not allowed by ruleset":
		return &Error{Code: CodeRefusedAddress, text: "the proxy refuses the host", cause: ErrRefusedAddress}
	case replied:
		switch reply {
		case "general SOCKS server failure", "network unreachable", "host unreachable", "connection refused", "TTL expired":
		default:
			reply = "an unknown reply"
		}
		return &Error{Code: CodeConnect, text: "the proxy has no connection to the host: " + reply, blame: blameHost}
	case strings.Contains(inner.Error(), "authentication"):
		return (&Error{Code: CodeProxy, text: "the proxy refuses the login"}).by(w.out.Name)
	}
	return w.spokeBadly(ctx, "it does not speak SOCKS5, or the connection broke off")
}

// spokeBadly returns the error for a proxy that does not answer as one.
func (w *way) spokeBadly(ctx context.Context, how string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return brokenProxy(how, w.out.Name)
}

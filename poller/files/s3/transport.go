package s3

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	dialTime = 10 * time.Second
	// idleTime is how long a connection may carry no byte during a request. A service copies a large
	// object in less.
	idleTime = 2 * time.Minute
	// restTime is how long a connection stays open between requests.
	restTime = 30 * time.Second
)

// newTransport returns the transport to the service. It uses no proxy: ROUNDS_PROXY is for checks and
// webhooks.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTime, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return moving{conn}, nil
		},
		TLSHandshakeTimeout:    dialTime,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        restTime,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // objects are what they are
		WriteBufferSize:        64 << 10,
		ReadBufferSize:         64 << 10,
	}
}

// moving is a connection that fails after idleTime without a byte. A time limit for whole requests
// would depend on their size and on the speed of the network.
type moving struct{ net.Conn }

// Read implements net.Conn.
func (m moving) Read(p []byte) (int, error) {
	if err := m.SetDeadline(time.Now().Add(idleTime)); err != nil {
		return 0, err
	}
	return m.Conn.Read(p)
}

// Write implements net.Conn.
func (m moving) Write(p []byte) (int, error) {
	if err := m.SetDeadline(time.Now().Add(idleTime)); err != nil {
		return 0, err
	}
	return m.Conn.Write(p)
}

package ports

import (
	"fmt"
	"net"
	"testing"
)

// No port is returned twice, even before anybody listens on it.
func TestPortsAreTakenOnce(t *testing.T) {
	taken := make(map[int]bool)
	for range 200 {
		port, err := Take()
		if err != nil {
			t.Fatal(err)
		}
		if taken[port] {
			t.Fatalf("%d was taken twice", port)
		}
		taken[port] = true
		if err := take(port); err == nil {
			t.Fatalf("%d can be taken once more", port)
		}
	}
}

// A port that somebody listens on is not returned, and its mark is closed.
func TestPortThatIsInUse(t *testing.T) {
	port, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err) // the test itself can listen on it
	}
	defer l.Close()
	for other := least; other <= most; other++ {
		busy, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", other))
		if err != nil {
			continue
		}
		if err := take(other); err == nil {
			t.Error("a port that is listened on was handed out")
		}
		_ = busy.Close()
		if err := take(other); err == nil {
			return
		}
		// Another program of the machine was quicker: the next port shows the same.
	}
	t.Fatal("no port can be taken once nobody listens on it")
}

package connect_test

import (
	"fmt"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// The URL says what is at the other end: one server, Sentinel or Cluster. A Redis that is
// away causes no error yet.
func ExampleOpen() {
	for _, url := range []string{
		"redis://user:s3cret@127.0.0.1:6379/0",
		"redis+sentinel://127.0.0.1:26379,127.0.0.1:26380/main",
		"redis+cluster://127.0.0.1:7000,127.0.0.1:7001",
		"http://127.0.0.1",
	} {
		server, err := connect.Open(url, connect.Options{})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(server.Name())
		if err := server.Close(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 127.0.0.1:6379
	// master main of sentinels 127.0.0.1:26379,127.0.0.1:26380
	// cluster 127.0.0.1:7000,127.0.0.1:7001
	// redis URL: must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://, begins with "http"
}

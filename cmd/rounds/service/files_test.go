package service

import (
	"testing"
	"testing/fstest"
)

func TestKeptConnections(t *testing.T) {
	limits := func(open string) fstest.MapFS {
		const others = "Limit                     Soft Limit           Hard Limit           Units     \nMax processes             31357                31357                processes \n"
		return fstest.MapFS{"proc/self/limits": {Data: []byte(others + open + others)}}
	}
	for _, test := range []struct {
		root    fstest.MapFS
		allowed int
		want    int
	}{
		{limits("Max open files            20000                20000                files     \n"), 8192, 8192},
		{limits("Max open files            1024                 4096                 files     \n"), 8192, 512},
		{limits("Max open files            1024                 4096                 files     \n"), 100, 100},
		{limits("Max open files            unlimited            unlimited            files     \n"), 8192, 8192},
		{limits("Max open files            1                    1                    files     \n"), 8192, 1},
		{limits("Max open files\n"), 8192, 8192},
		{fstest.MapFS{}, 8192, 8192},
	} {
		if got := keptConnections(test.allowed, openFiles(test.root)); got != test.want {
			t.Errorf("%d allowed with %q: got %d, want %d", test.allowed, test.root["proc/self/limits"], got, test.want)
		}
	}
}

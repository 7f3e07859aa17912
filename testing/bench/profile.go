package main

import (
	"os"
	"runtime/pprof"
)

// startProfile writes a CPU profile to a file, if the name is not empty, until the
// returned function is called.
func startProfile(name string) (end func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// processCPU returns how many seconds of processor time a process has used.
func processCPU(pid int) (float64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// Behind the name, which may hold spaces, come the state and other fields, as proc(5)
	// says.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, errors.New("/proc: a stat without times")
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	return (user + system) / clockTicks, err
}

// clockTicks is how many of proc(5)'s clock ticks make a second: USER_HZ, on every Linux
// that Go runs on.
const clockTicks = 100

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// loading is a restart in which Redis takes a while to read its data: each key is delayed
// until the fault is over. Commands behind the snapshot in the append-only file would be
// delayed too, and Redis reads a thousand of them before it serves its clients, so there
// must be none.
func loading(t *turn) (func() error, error) {
	if err := t.rewritten(); err != nil {
		return nil, err
	}
	size, err := redis.Int(t.admin("DBSIZE"))
	if err != nil {
		return nil, err
	}
	t.redis.Kill()
	each := loadingTime / time.Duration(max(1, size))
	// Redis serves its clients after each so many bytes. That must be often enough while
	// it waits at each key, and rare enough that serving does not take the time.
	every := max(1024, t.dataSize()/500)
	if err := t.redis.RelaunchLoading(t.redisPath, "--key-load-delay", fmt.Sprint(each.Microseconds()),
		"--loading-process-events-interval-bytes", fmt.Sprint(every)); err != nil {
		return nil, err
	}
	heal := func() error {
		var errs []error
		if !t.until(func() bool { return t.set("key-load-delay", "0") == nil }) {
			errs = append(errs, errors.New("it cannot be told to hurry"))
		}
		return errors.Join(append(errs, t.redis.AwaitReady(30*time.Second))...)
	}
	err = t.last(3 * time.Second)
	if text, infoErr := redis.String(t.admin("INFO", "persistence")); infoErr != nil || !strings.Contains(text, "\nloading:1") {
		err = errors.Join(err, infoErr, errors.New("it was not loading any more"))
	}
	return heal, err
}

const loadingTime = 10 * time.Second // the least that it takes if nobody hurries it

// rewritten stops all writes to Redis and makes a snapshot of what was written.
func (t *turn) rewritten() error {
	base := func() string {
		files, err := filepath.Glob(filepath.Join(t.redis.Dir, "appendonlydir", "*.base.rdb"))
		if err != nil || len(files) != 1 {
			return ""
		}
		return files[0]
	}
	before := base()
	if _, err := t.admin("CLIENT", "PAUSE", 30000, "WRITE"); err != nil {
		return err
	}
	if _, err := t.admin("BGREWRITEAOF"); err != nil {
		return err
	}
	if !t.until(func() bool { now := base(); return now != "" && now != before }) {
		return errors.New("the append-only file was not rewritten")
	}
	return nil
}

// dataSize returns the size of Redis' append-only files.
func (t *turn) dataSize() int64 {
	var size int64
	files, _ := filepath.Glob(filepath.Join(t.redis.Dir, "appendonlydir", "*")) // the pattern is a good one
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			size += info.Size()
		}
	}
	return size
}

package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	logName = "data.log."
	// waitingBytes is how many bytes of passing changes wait for another change.
	waitingBytes = 64 << 10
)

// segmentName returns the name of a segment of the log.
func segmentName(number int) string { return fmt.Sprintf("%s%08d", logName, number) }

// wal is the log of changes. It implements connect.Log. A change is written at once, so
// that it outlives the process, and synced when Sync is called.
type wal struct {
	disk    disk
	passing func(key string) bool // see Options.Passing; nil: no key is
	failed  func(error)           // called when the log cannot be written
	synced  func(time.Time)

	syncing sync.Mutex // one Sync at a time, and only Sync closes files

	mu        sync.Mutex // guards what follows
	number    int        // of the segment
	file      file       // nil: no file could be made
	length    int64      // of the segment
	ended     []file     // segments before it that may not be synced yet
	dirty     bool       // something was written since the last Sync
	waiting   []byte     // records of passing changes, not written yet
	waitsFrom time.Time  // since when they wait
	total     int64      // bytes ever appended
	base      int64      // bytes of total that the newest image covers
	found     int64      // bytes of total that were there at first
	buffer    []byte
	apart     bool  // the segment began after the log had failed: no segment leads to it
	why       error // why nothing can be appended until there is a new image; nil: appending works
	fails     int
}

// Append implements connect.Log. Passing changes wait in memory and are written together.
func (w *wal) Append(at time.Time, effects [][]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why != nil {
		return w.why
	}
	if w.allPassing(effects) {
		if len(w.waiting) == 0 {
			w.waitsFrom = time.Now()
		}
		w.waiting = appendRecord(w.waiting, at, effects)
		if len(w.waiting) < waitingBytes {
			return nil
		}
		return w.write(nil)
	}
	w.buffer = appendRecord(w.buffer[:0], at, effects)
	record := w.buffer
	if cap(w.buffer) > 1<<20 {
		w.buffer = nil
	}
	return w.write(record)
}

// allPassing reports whether all effects are on passing keys.
func (w *wal) allPassing(effects [][]string) bool {
	if w.passing == nil || len(effects) == 0 {
		return false
	}
	return !slices.ContainsFunc(effects, func(effect []string) bool {
		var keys []string
		switch effect[0] {
		case "DEL", "UNLINK":
			keys = effect[1:]
		case "HSET", "HDEL", "HINCRBY", "HSETNX", "SET", "INCR", "INCRBY", "EXPIRE", "PEXPIRE", "PEXPIREAT", "LPUSH", "RPUSH", "LTRIM", "LPOP", "RPOP", "LREM",
			"SADD", "SREM", "ZADD", "ZREM", "ZREMRANGEBYSCORE", "ZREMRANGEBYRANK", "XADD", "XTRIM":
			keys = effect[1:2]
		}
		return len(keys) == 0 || slices.ContainsFunc(keys, func(key string) bool { return !w.passing(key) })
	})
}

// write writes the waiting records and then another one, which may be empty. The caller
// holds mu.
func (w *wal) write(record []byte) error {
	if len(w.waiting) > 0 {
		w.waiting = append(w.waiting, record...)
		record, w.waiting = w.waiting, nil
	}
	if len(record) == 0 {
		return nil
	}
	w.dirty = true
	if n, err := w.file.Write(record); err != nil {
		if n > 0 { // a partly written record must not look like damage
			_ = w.disk.Truncate(segmentName(w.number), w.length)
		}
		return w.fail(err)
	}
	w.length += int64(len(record))
	w.total += int64(len(record))
	return nil
}

// fail stops appending until there is a new image: the memory may have changes that the
// log lacks. The caller holds mu.
func (w *wal) fail(err error) error {
	w.why, w.apart = reason(err), false
	w.fails++
	w.failed(err)
	return w.why
}

// Refuses implements connect.Log.
func (w *wal) Refuses() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

// Sync implements connect.Log.
func (w *wal) Sync() error { return w.sync(true) }

// sync syncs the written records. It first writes the waiting ones, if everything is
// asked for or they have waited for passingWithin.
func (w *wal) sync(everything bool) error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	began := time.Now()
	w.mu.Lock()
	if w.why != nil {
		defer w.mu.Unlock()
		return w.why
	}
	if len(w.waiting) > 0 && (everything || began.Sub(w.waitsFrom) >= passingWithin) {
		if err := w.write(nil); err != nil {
			w.mu.Unlock()
			return err
		}
	}
	ended := w.ended
	files := slices.Clone(ended)
	if w.dirty {
		files = append(files, w.file)
	}
	w.ended, w.dirty = nil, false
	w.mu.Unlock()

	var failed error
	for _, f := range files {
		if err := f.Sync(); failed == nil {
			failed = err
		}
	}
	for _, f := range ended {
		_ = f.Close() // the file was synced
	}
	if failed != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.fail(failed)
	}
	if len(files) > 0 {
		w.synced(began)
	}
	return nil
}

// begin makes a segment, which nobody writes to before turn. Its number follows the last
// one, or leaves one out if the segments before lack changes.
func (w *wal) begin() (*segment, error) {
	w.mu.Lock()
	next := &segment{number: w.number + 1}
	if w.why != nil {
		next.number++
	}
	if w.file != nil && w.length == int64(len(logMagic)) && len(w.waiting) == 0 && (w.why == nil || w.apart) {
		next = &segment{number: w.number, file: w.file} // the current segment is still empty
	}
	w.mu.Unlock()
	return next, next.make(w.disk)
}

// segment is a segment that is still empty.
type segment struct {
	number int
	file   file
}

// make makes the file.
func (s *segment) make(on disk) error {
	if s.file != nil {
		return nil
	}
	name := segmentName(s.number)
	made, err := on.Create(name)
	if err != nil {
		return err
	}
	if _, err = made.Write([]byte(logMagic)); err == nil {
		err = on.Sync() // syncs the name: an empty segment counts like one with only its beginning
	}
	if err != nil {
		_ = made.Close()
		_ = on.Remove(name)
		return err
	}
	s.file = made
	return nil
}

// drop removes a segment that was never turned to.
func (w *wal) drop(s *segment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.file != w.file {
		_ = s.file.Close()
		_ = w.disk.Remove(segmentName(s.number))
	}
}

// mark is the state of the log when an image was taken.
type mark struct {
	total int64
	fails int
}

// turn makes a segment the current one. It is called at the moment of an image. It
// refuses a segment made before the log failed: that would seem to follow.
func (w *wal) turn(next *segment) (mark, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if next.file != w.file {
		if w.why != nil && next.number == w.number+1 {
			return mark{}, w.why
		}
		if w.why == nil {
			_ = w.write(nil) // waiting records belong before the image; a failure is reported
		}
		if w.file != nil {
			w.ended = append(w.ended, w.file)
		}
		w.file, w.number, w.length, w.apart = next.file, next.number, int64(len(logMagic)), w.why != nil
	}
	w.waiting = nil
	return mark{w.total, w.fails}, nil
}

// covered notes that an image has everything up to a mark. A failed log works again.
func (w *wal) covered(m mark) {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.base = m.total
	for _, f := range w.ended { // the image is synced, and has their changes
		_ = f.Close()
	}
	w.ended = nil
	if w.fails == m.fails {
		w.why = nil
	}
}

// start begins the log after the segments that were read. If no new segment can be made,
// the log refuses everything until there is one.
func (w *wal) start() {
	next, err := w.begin()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		_ = w.fail(err) // the failure is reported
		return
	}
	w.file, w.number, w.length = next.file, next.number, int64(len(logMagic))
}

// since returns how many bytes follow the newest image.
func (w *wal) since() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total - w.base + int64(len(w.waiting))
}

// state returns what since does, how many bytes were written, and whether the log refuses
// changes.
func (w *wal) state() (since, written int64, refuses bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total - w.base + int64(len(w.waiting)), w.total - w.found, w.why != nil
}

// close closes the files.
func (w *wal) close() {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range append(w.ended, w.file) {
		if f != nil {
			_ = f.Close()
		}
	}
	w.ended, w.file, w.why = nil, nil, errClosed
}

// segments returns the numbers of the existing segments, in order.
func segments(on disk) ([]int, error) {
	names, err := on.Names()
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, logName)
		var number int
		if _, err := fmt.Sscanf(digits, "%d", &number); ok && err == nil && name == segmentName(number) {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

const (
	// logMagic begins a segment of the log.
	logMagic = "rounds log 1\n"
	// recordHead is the size of a record's head: its length, and the checksum of both.
	recordHead = 8
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errRecord  = errors.New("a record of the log is cut off")
)

// appendRecord appends a record: a moment, and the commands that changed something then.
func appendRecord(to []byte, at time.Time, effects [][]string) []byte {
	from := len(to)
	to = append(to, make([]byte, recordHead)...)
	to = binary.AppendVarint(to, at.UnixNano())
	to = binary.AppendUvarint(to, uint64(len(effects)))
	for _, effect := range effects {
		to = binary.AppendUvarint(to, uint64(len(effect)))
		for _, word := range effect {
			to = binary.AppendUvarint(to, uint64(len(word)))
			to = append(to, word...)
		}
	}
	head, payload := to[from:from+recordHead], to[from+recordHead:]
	binary.LittleEndian.PutUint32(head, uint32(len(payload)))
	binary.LittleEndian.PutUint32(head[4:], checksum(head[:4], payload))
	return to
}

func checksum(length, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, payload)
}

// payload returns the content of the record at the beginning of a text, or nil if the
// record is not whole.
func payload(text []byte) []byte {
	if len(text) < recordHead {
		return nil
	}
	n := uint64(binary.LittleEndian.Uint32(text))
	if n == 0 || n > uint64(len(text)-recordHead) {
		return nil
	}
	given := text[recordHead : recordHead+n]
	if checksum(text[:4], given) != binary.LittleEndian.Uint32(text[4:]) {
		return nil
	}
	return given
}

// parseRecord reads the content of a record.
func parseRecord(given []byte) (at time.Time, effects [][]string, err error) {
	r := recordReader{given}
	ns, n := binary.Varint(r.rest)
	if n <= 0 {
		return at, nil, errRecord
	}
	r.rest = r.rest[n:]
	for range r.count() {
		effect := make([]string, r.count())
		for i := range effect {
			n := r.count()
			effect[i] = string(r.rest[:n])
			r.rest = r.rest[n:]
		}
		if len(effect) == 0 {
			return at, nil, errRecord
		}
		effects = append(effects, effect)
	}
	if len(r.rest) > 0 {
		return at, nil, errRecord
	}
	return time.Unix(0, ns), effects, nil
}

type recordReader struct{ rest []byte }

// count reads the number of the following values, which have at least a byte each. If
// that is more than can follow, it returns 0, so that something is left over.
func (r *recordReader) count() int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > uint64(len(r.rest)-n) {
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

// readSegment calls each for every record of a segment, and returns how many bytes are
// good. The rest is an unfinished write of a process that ended, unless a whole record
// comes after it: that is an error, and so is an error of each.
func readSegment(text []byte, each func(time.Time, [][]string) error) (good int, err error) {
	if len(text) < len(logMagic) && logMagic[:len(text)] == string(text) {
		return 0, nil
	}
	if len(text) < len(logMagic) || string(text[:len(logMagic)]) != logMagic {
		return 0, errors.New("this is not a log of rounds, or it is one of a later version")
	}
	good = len(logMagic)
	for {
		given := payload(text[good:])
		if given == nil {
			break
		}
		at, effects, err := parseRecord(given)
		if err == nil {
			err = each(at, effects)
		}
		if err != nil {
			return good, fmt.Errorf("at byte %d: %w", good, err)
		}
		good += recordHead + len(given)
	}
	for at := good + 1; at < len(text); at++ {
		if payload(text[at:]) != nil {
			return good, fmt.Errorf("a record is damaged at byte %d, before others", good)
		}
	}
	return good, nil
}

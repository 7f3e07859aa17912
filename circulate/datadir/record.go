package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

const (
	// logMagic begins a segment of the log.
	logMagic = "rounds log 1\n"
	// recordHead is what stands before a record: its length, and the checksum of both.
	recordHead = 8
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errRecord  = errors.New("a record of the log is cut off")
)

// appendRecord appends a record: a moment, and the commands that changed something at it.
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

// payload returns what the record at the beginning of a text has; nil: there is no whole record.
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

// parseRecord reads what a record has.
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

// count reads a number of things that follow, each of a byte at least. Of more than can follow
// there are none, and then something is left over.
func (r *recordReader) count() int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > uint64(len(r.rest)-n) {
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

// readSegment calls each with every record of a segment, and returns how many bytes are good.
// What follows them is what was being written when a process ended, unless a whole record
// comes after it: that is an error, and so is one of each.
func readSegment(text []byte, each func(time.Time, [][]string) error) (good int, err error) {
	if len(text) < len(logMagic) && logMagic[:len(text)] == string(text) {
		return 0, nil
	}
	if len(text) < len(logMagic) || string(text[:len(logMagic)]) != logMagic {
		return 0, errors.New("this is no log of rounds, or one of a later version")
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

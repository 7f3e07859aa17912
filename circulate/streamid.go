package circulate

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// StreamID is the id of an entry in a stream, which is also its position: Redis' clock
// when the entry was written, in unix ms, and a number within that millisecond. The zero
// StreamID is the position before the first entry.
type StreamID struct{ Ms, Seq uint64 }

// StreamIDAt returns the first id that an entry written at a time may have.
func StreamIDAt(t time.Time) StreamID { return StreamID{Ms: uint64(max(0, t.UnixMilli()))} }

// ParseStreamID reads an id as Redis writes it, MS-SEQ, or 0, which Redis takes for the
// start of a stream.
func ParseStreamID(text string) (StreamID, error) {
	if text == "0" {
		return StreamID{}, nil
	}
	ms, seq, _ := strings.Cut(text, "-")
	var id StreamID
	var err error
	if id.Ms, err = strconv.ParseUint(ms, 10, 64); err == nil {
		id.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil || id.Ms > math.MaxInt64 || id.Seq > math.MaxInt64 || id.String() != text {
		return StreamID{}, fmt.Errorf("position %q: must be MS-SEQ", text)
	}
	return id, nil
}

// String returns MS-SEQ.
func (id StreamID) String() string {
	return strconv.FormatUint(id.Ms, 10) + "-" + strconv.FormatUint(id.Seq, 10)
}

// Compare is negative if the id comes before the other one, and positive if it comes
// after it.
func (id StreamID) Compare(other StreamID) int {
	return cmp.Or(cmp.Compare(id.Ms, other.Ms), cmp.Compare(id.Seq, other.Seq))
}

// Before reports whether the id comes before the other one.
func (id StreamID) Before(other StreamID) bool { return id.Compare(other) < 0 }

// Time returns when the entry was written, by Redis' clock.
func (id StreamID) Time() time.Time { return time.UnixMilli(int64(id.Ms)) }

// Next returns the id after this one.
func (id StreamID) Next() StreamID { return StreamID{id.Ms, id.Seq + 1} }

// Previous returns the last id before this one; for the start it returns the start.
func (id StreamID) Previous() StreamID {
	switch {
	case id.Seq > 0:
		return StreamID{id.Ms, id.Seq - 1}
	case id.Ms > 0:
		return StreamID{id.Ms - 1, math.MaxInt64}
	}
	return id
}

// ComparePositions compares two ids as Redis writes them. A text that is no id comes
// before all ids.
func ComparePositions(a, b string) int {
	x, _ := ParseStreamID(a)
	y, _ := ParseStreamID(b)
	return x.Compare(y)
}

// PositionAge returns how long before now a message was written, by its position, or 0 if
// that is none.
func PositionAge(now time.Time, position string) time.Duration {
	id, err := ParseStreamID(position)
	if err != nil {
		return 0
	}
	return time.Duration(max(0, now.UnixMilli()-int64(id.Ms))) * time.Millisecond
}

// ValidatePosition returns what is wrong with a stream position.
func ValidatePosition(text string) error {
	_, err := ParseStreamID(text)
	return err
}

package accounts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// Revision is which version of its record an account has.
type Revision struct {
	// Number is 1 for the record that an account was registered with, and one more for
	// each change of it. Of a record from a version that kept no revisions it is 1.
	Number int
	// Created is when the account was registered, and Updated when its record last
	// changed, by Redis' clock, in whole seconds; zero where that was not kept.
	Created, Updated time.Time
}

// next is the revision that comes of a change, or of a registration where there was none.
func (v Revision) next(now time.Time) Revision {
	now = now.Truncate(time.Second)
	if v.Number == 0 {
		v.Created = now
	}
	v.Number++
	v.Updated = now
	return v
}

// A record is kept with its revision as the last member, so that it goes wherever the
// record goes, costs an account two dozen bytes, and is passed over by versions that
// do not know it:
//
//	{"id":"a","kind":"feed","revision":[NUMBER,CREATED,UPDATED]}
//
// The times are unix seconds, 0 where not known; the last is left out where it is the one
// before. Encode writes every record with at least an id before it.
const (
	revisionField  = "revision"
	revisionMember = `,"` + revisionField + `":[`
)

// withRevision is a record as it is kept.
func withRevision(record []byte, v Revision) []byte {
	kept := make([]byte, 0, len(record)+len(revisionMember)+32)
	kept = append(append(kept, bytes.TrimSuffix(record, []byte("}"))...), revisionMember...)
	kept = strconv.AppendInt(kept, int64(v.Number), 10)
	kept = strconv.AppendInt(append(kept, ','), unixOrZero(v.Created), 10)
	if !v.Updated.Equal(v.Created) {
		kept = strconv.AppendInt(append(kept, ','), unixOrZero(v.Updated), 10)
	}
	return append(kept, "]}"...)
}

// SplitRevision takes a record as the ring keeps it apart: the record as Encode wrote it, and
// its revision. A record that was kept without one, or is none of this package's, is
// returned as it is, with the number 1.
func SplitRevision(kept []byte) (record []byte, v Revision) {
	start := -1
	if bytes.HasSuffix(kept, []byte("]}")) {
		start = bytes.LastIndex(kept, []byte(revisionMember))
	}
	if start < 0 {
		return kept, Revision{Number: 1}
	}
	// Nothing but digits stands between: so it is the last member of the outermost object.
	parts := bytes.Split(kept[start+len(revisionMember):len(kept)-2], []byte(","))
	var numbers [3]int64
	if len(parts) != 2 && len(parts) != 3 {
		return kept, Revision{Number: 1}
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(string(part), 10, 53)
		if err != nil {
			return kept, Revision{Number: 1}
		}
		numbers[i] = int64(n)
	}
	if len(parts) == 2 {
		numbers[2] = numbers[1]
	}
	v = Revision{Number: max(1, int(numbers[0])), Created: timeOrZero(numbers[1]), Updated: timeOrZero(numbers[2])}
	return append(bytes.Clone(kept[:start]), '}'), v
}

// tag names a record and its revision, in characters that an ETag may have: two records of
// one account have different ones, even where a version that counts no revisions
// wrote one of them.
func (v Revision) tag(record []byte) string {
	sum := sha256.Sum256(record)
	return strconv.Itoa(v.Number) + "-" + hex.EncodeToString(sum[:8])
}

func unixOrZero(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func timeOrZero(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0)
}

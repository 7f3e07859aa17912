package accounts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// Revision identifies a version of an account's record.
type Revision struct {
	// Number is 1 for the record that an account was registered with, and one more for
	// each change. It is 1 for a record from a version without revisions.
	Number int
	// Created is when the account was registered, and Updated when its record last
	// changed, by Redis' clock, in whole seconds. They are zero if unknown.
	Created, Updated time.Time
}

// next returns the revision after a change. After the zero revision comes the revision of
// a registration.
func (v Revision) next(now time.Time) Revision {
	now = now.Truncate(time.Second)
	if v.Number == 0 {
		v.Created = now
	}
	v.Number++
	v.Updated = now
	return v
}

// A record is stored with its revision as the last member. So the revision goes wherever
// the record goes, and costs an account two dozen bytes. Versions that do not know it
// ignore it:
//
//	{"id":"a","kind":"feed","revision":[NUMBER,CREATED,UPDATED]}
//
// The times are Unix seconds; 0 means unknown. UPDATED is left out if it equals CREATED.
// Encode always writes an id in front of the revision.
const (
	revisionField  = "revision"
	revisionMember = `,"` + revisionField + `":[`
)

// withRevision returns a record as it is stored.
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

// SplitRevision splits a record as the ring stores it into the record as Encode wrote it
// and its revision. It returns a record as it is, with the number 1, if the record has no
// revision or another program wrote it.
func SplitRevision(kept []byte) (record []byte, v Revision) {
	start := -1
	if bytes.HasSuffix(kept, []byte("]}")) {
		start = bytes.LastIndex(kept, []byte(revisionMember))
	}
	if start < 0 {
		return kept, Revision{Number: 1}
	}
	// Only digits and commas may follow, so the member is the last one of the outermost object.
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

// tag names a record and its revision, in characters that an ETag may have. Two records of
// one account have different tags, even if a version that counts no revisions wrote one.
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

package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// wantFaults expects the error to be Faults, which the caller can mend.
func wantFaults(t *testing.T, err error) {
	t.Helper()
	var faults Faults
	if err != nil && (!errors.As(err, &faults) || len(faults) == 0) {
		t.Fatalf("an error without faults: %v", err)
	}
}

// The summary of an import counts every line, and every account that it created exists.
func FuzzImport(f *testing.F) {
	registry, ring := newRegistry(f, redistest.Embedded(f), 2)
	f.Add([]byte("{\"id\":\"a\",\"kind\":\"plain\"}\n{\"id\":\"a\",\"kind\":\"plain\",\"labels\":{\"x\":\"y\"}}\n\n{\"id\":\"b\""))
	f.Add([]byte(`{"id":"a","kind":"plain","state":{"cursor":"eyJ4IjoxfQ==","failures":2,"parked":{"reason":"paused"}}}`))
	f.Add([]byte("id,kind\na,plain\n"))
	f.Add([]byte("[\n{\"id\":\"a\"}]"))
	f.Add([]byte("\xef\xbb\xbf{\"id\":\"\\ud800\",\"kind\":\"plain\"}\r\n\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		bad := 0
		done, err := registry.ImportWith(t.Context(), bytes.NewReader(text), Importing{Bad: func(BadLine) error { bad++; return nil }})
		if err != nil && !errors.Is(err, ErrNotLines) {
			t.Fatal(err)
		}
		if err == nil && (done.Done() != done.Lines || bad != done.Failed) {
			t.Errorf("%d lines were bad: %+v", bad, done)
		}
		there := 0
		for shard := range ring.Shards() {
			ids, err := registry.idsOf(t.Context(), shard)
			if err != nil {
				t.Fatal(err)
			}
			there += len(ids)
		}
		if there != done.Created {
			t.Errorf("%d accounts are there: %+v", there, done)
		}
		if gone, err := registry.Bulk(t.Context(), Bulk{Action: DeleteAll, All: true}, func(Progress) error { return nil }); err != nil || gone.Changed != there {
			t.Errorf("%d accounts were there: %+v, %v", there, gone, err)
		}
	})
}

// The result of a merge patch on a valid record is accepted or refused with faults. Applying
// the same patch again changes nothing.
func FuzzPatch(f *testing.F) {
	f.Add([]byte(`{"id":"a","kind":"plain","config":{"x":{"y":1}},"labels":{"t":"u"}}`), []byte(`{"config":{"x":{"y":null,"z":[]}},"labels":null}`))
	f.Add([]byte(`{"id":"a","kind":"plain"}`), []byte(`{"id":"b","other":1,"config":{"a":{"b":{"c":null}}}}`))
	f.Add([]byte(`{"id":"a","kind":"plain","config":{"x":1e400}}`), []byte("{\"config\":{\"\\ud800\":1}}"))
	f.Fuzz(func(t *testing.T, record, patch []byte) {
		if _, err := decode(record); err != nil {
			return
		}
		fields, err := decodePatch("a", patch)
		wantFaults(t, err)
		if err != nil {
			return
		}
		merged, err := mergeRecord(record, fields)
		if err != nil || !json.Valid(merged) {
			t.Fatalf("%q: %v", merged, err)
		}
		again, err := mergeRecord(merged, fields)
		if err != nil || !bytes.Equal(again, merged) {
			t.Errorf("%q became %q, %v", merged, again, err)
		}
		_, err = decode(merged)
		wantFaults(t, err)
		changedFields(record, merged)
	})
}

// An accepted selector can judge any record, and stays the same when it is read again.
func FuzzSelector(f *testing.F) {
	f.Add("kind=feed&state=failing&label=a%3Db&since=1h&host=X.example", []byte(`{"id":"a","kind":"feed","labels":{"a":"b"}}`))
	f.Add("label=a&label=a%3Db&label=a%3Dc&state=x&since=-1s&since=2h", []byte(`{}`))
	f.Add("prefix=%ff&reason=&error=%00", []byte("\xff"))
	f.Fuzz(func(t *testing.T, query string, record []byte) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		s, err := ParseSelector(values)
		wantFaults(t, err)
		if err != nil {
			return
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%q is accepted, and then %v", query, err)
		}
		s.matchesRecord(record)
		if all := len(s.Kinds)+len(s.Labels) == 0; all && !s.matchesRecord(record) {
			t.Errorf("%q asks for nothing of a record, and does not fit %q", query, record)
		}
	})
}

// The bodies of nudges, resumptions and revivals are accepted in their valid forms, or
// refused with faults.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		"", "{}", `{"within":"10s","hint":{"a":1},"lives":"1h"}`, `{"from":"now"}`, `{"from":"\ud800"}`, `{"ids":["a","a"],"rate":1e999}`,
		`{"reason":"auth","kind":"feed","rate":0.001,"dry_run":true,"cursor":"x"}`, `{"ids":[null]}`, "[]", "{\"within\":1}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := DecodeNudge(body)
		wantFaults(t, err)
		if err == nil && (n.Within < 0 || n.Lives < 0) {
			t.Errorf("%q: %+v", body, n)
		}
		from, err := DecodeResumption(body)
		wantFaults(t, err)
		if err == nil && from != "" && from != ResumeCursor && from != ResumeNow && from != ResumeBackfill {
			t.Errorf("%q: %q", body, from)
		}
		v, err := DecodeRevival(body)
		wantFaults(t, err)
		if err == nil && v.Validate() != nil {
			t.Errorf("%q is accepted, and then %v", body, v.Validate())
		}
	})
}

// The checksum of a cursor is no signature. Any content is either read as the program would
// write it, or refused.
func FuzzCursors(f *testing.F) {
	_, ring := newRegistry(f, redistest.Embedded(f), 3)
	registry := NewRegistry(ring, testKinds{})
	f.Add([]byte{3, 1, 'a'})
	f.Add([]byte{3, 2, 0x80, 1, 'a'})
	f.Add([]byte{2, 4, 3, 0, 2, 'b'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, content []byte) {
		refused := func(err error) bool {
			if err != nil && !errors.Is(err, ErrCursor) {
				t.Errorf("%x: %v", content, err)
			}
			return err != nil
		}
		if at, err := parseListCursor(SealCursor(CursorList, content), 3); !refused(err) {
			if again, err := parseListCursor(at.String(3), 3); err != nil || again != at || at.shard < 0 || at.shard > 2 {
				t.Errorf("%x: %+v, then %+v, %v", content, at, again, err)
			}
		}
		if p, err := parseParkedPlace(content, 3); !refused(err) {
			if again, err := parseParkedPlace(p.append(nil, 3), 3); err != nil || again.shard != p.shard || again.behind.ID != p.behind.ID || p.shard < 0 || p.shard > 2 {
				t.Errorf("%x: %+v, then %+v, %v", content, p, again, err)
			}
		}
		if shard, err := auditPlace(SealCursor(CursorAudit, content), 3); !refused(err) && (shard < 0 || shard > 2) {
			t.Errorf("%x: shard %d", content, shard)
		}
		w := &revivalWalk{registry: registry}
		if !refused(w.parse(SealCursor(CursorRevival, content))) && (w.began.Before(time.UnixMicro(0)) || w.next < 0) {
			t.Errorf("%x: %+v", content, w)
		}
	})
}

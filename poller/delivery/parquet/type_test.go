package parquet

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

func TestRead(t *testing.T) {
	types := sink.Types{Type{Namespace: "rounds"}}
	for fields, want := range map[string]string{
		``:                                "directory: missing",
		`,"directory":"/x","max_bytes":1`: "max_bytes: must be 65536 (64 KiB) to 1073741824 (1 GiB)",
		`,"directory":"/x","format":"cloudevents"`: "format: must be left out",
		`,"directory":"/x","topic":"t"`:            "topic: unknown field; the fields are name, type, directory",
	} {
		if _, err := types.Read(strings.NewReader(`{"endpoints":[{"name":"lake","type":"parquet"` + fields + `}]}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", fields, err, want)
		}
	}
}

// Columns have what a message has, in several groups of rows.
func TestConvert(t *testing.T) {
	f := form{sinktest.Namespace}
	timeless := sinktest.Message("账号", 1)
	timeless.Message.Time, timeless.Message.Data = time.Time{}, nil
	var lines bytes.Buffer
	const all, group = 3 * rowsAtOnce, 64 << 10
	for n := range all {
		d := sinktest.Message("a", n)
		if n == 1 {
			d = timeless
		}
		if n > 1 {
			d.Message.Data = []byte(`"` + strings.Repeat("x", group/rowsAtOnce) + `"`)
		}
		line, err := f.Line(d)
		if err != nil || !f.Valid(line) {
			t.Fatal(n, err)
		}
		lines.Write(line)
		lines.WriteByte('\n')
	}
	for _, torn := range []string{`{"id":"x"`, `{}`, `{"id":""}`, `[]`} {
		if f.Valid([]byte(torn)) {
			t.Errorf("%s is taken for a row", torn)
		}
	}
	bad := sinktest.Message("a", 0)
	bad.Message.Data = []byte("{")
	if _, err := f.Line(bad); err == nil {
		t.Error("data that is no JSON is a row")
	}
	var file bytes.Buffer
	if err := convert(&lines, &file, group); err != nil {
		t.Fatal(err)
	}
	opened, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(opened.RowGroups()); n < 3 {
		t.Errorf("%d groups of rows", n)
	}
	want := `message row {
	required binary id (STRING);
	required binary account (STRING);
	required binary kind (STRING);
	required binary message (STRING);
	required binary type (STRING);
	optional int64 time (TIMESTAMP(isAdjustedToUTC=true,unit=MICROS));
	required binary data (JSON);
	required binary handle (STRING);
}`
	if got := opened.Schema().String(); got != want {
		t.Errorf("the columns are %s", got)
	}
	rows, err := parquet.Read[row](bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil || len(rows) != all {
		t.Fatal(len(rows), err)
	}
	d := sinktest.Message("a", 0)
	if r := rows[0]; r.ID != sink.Key(sinktest.Namespace, d) || r.Account != "a" || r.Kind != "feed" || r.Message != "a-0" || r.Type != "text" || !r.Time.Equal(d.Message.Time) || r.Data != `{"n":0}` || r.Handle != d.Handle {
		t.Errorf("got %+v", r)
	}
	if r := rows[1]; r.Account != "账号" || r.Time != nil || r.Data != "null" {
		t.Errorf("got %+v", r)
	}
	if err := f.Convert()(strings.NewReader("{}\n"), &file); err == nil {
		t.Error("a line that is no row is converted")
	}
}

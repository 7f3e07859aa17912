package parquet

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/ndjson"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

const (
	// groupMost is the most bytes of lines of a row group, which is in memory while it is made.
	groupMost = 32 << 20
	// rowsAtOnce is how many rows are given to the writer at once.
	rowsAtOnce = 256
)

// row is a message. Its line has the same fields in JSON.
type row struct {
	ID      string     `json:"id" parquet:"id"`
	Account string     `json:"account" parquet:"account,dict"`
	Kind    string     `json:"kind" parquet:"kind,dict"`
	Message string     `json:"message" parquet:"message"`
	Type    string     `json:"type" parquet:"type,dict"`
	Time    *time.Time `json:"time" parquet:"time,optional,timestamp(microsecond)"`
	Data    string     `json:"-" parquet:"data,json"`
	Handle  string     `json:"handle" parquet:"handle"`
}

// line is the line of a row.
type line struct {
	row
	Data json.RawMessage `json:"data"`
}

// form is the form of Parquet files.
type form struct{ namespace string }

var _ ndjson.Form = form{}

func (form) Ending() string { return ".parquet" }

func (f form) Line(d delivery.Delivery) ([]byte, error) {
	l := line{row: row{ID: sink.Key(f.namespace, d), Account: d.Account, Kind: d.Kind, Message: d.Message.ID, Type: d.Message.Type, Handle: d.Handle}, Data: d.Message.Data}
	if len(l.Data) == 0 {
		l.Data = json.RawMessage("null")
	}
	if !d.Message.Time.IsZero() {
		l.Time = new(d.Message.Time.UTC())
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(l); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

func (form) Valid(text []byte) bool {
	_, err := read(text)
	return err == nil
}

// read reads a line.
func read(text []byte) (row, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return row{}, err
	}
	if l.ID == "" {
		return row{}, errors.New("the line is no row")
	}
	r := l.row
	r.Data = cmp.Or(string(l.Data), "null")
	return r, nil
}

func (form) Convert() func(io.Reader, io.Writer) error {
	return func(lines io.Reader, to io.Writer) error { return convert(lines, to, groupMost) }
}

// convert writes the rows of whole lines, in groups of at most so many bytes of lines, or one line.
func convert(lines io.Reader, to io.Writer, most int) error {
	writer := parquet.NewGenericWriter[row](to, parquet.Compression(&zstd.Codec{}), parquet.CreatedBy("rounds", "", ""))
	reader := bufio.NewReaderSize(lines, 64<<10)
	var rows []row
	group := 0
	write := func() error {
		_, err := writer.Write(rows)
		rows = rows[:0]
		return err
	}
	for {
		text, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if err := write(); err != nil {
				return err
			}
			return writer.Close()
		}
		if err != nil {
			return err
		}
		r, err := read(text)
		if err != nil {
			return err
		}
		rows, group = append(rows, r), group+len(text)
		if len(rows) == rowsAtOnce || group >= most {
			if err := write(); err != nil {
				return err
			}
		}
		if group >= most {
			if err := writer.Flush(); err != nil {
				return err
			}
			group = 0
		}
	}
}

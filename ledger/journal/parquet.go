package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// parquetRow is a row in a Parquet file: the columns of the CSV, typed.
type parquetRow struct {
	ID         string  `parquet:"id"`
	TS         int64   `parquet:"ts,timestamp(nanosecond)"`
	Provider   string  `parquet:"provider,dict"`
	Account    string  `parquet:"account,dict"`
	Target     string  `parquet:"target,dict"`
	Credential string  `parquet:"credential,dict"`
	Method     string  `parquet:"method,dict"`
	Endpoint   string  `parquet:"endpoint,dict"`
	Vars       string  `parquet:"vars,dict"`
	Job        string  `parquet:"job,dict"`
	Priority   string  `parquet:"priority,dict"`
	Retry      bool    `parquet:"retry"`
	Auth       bool    `parquet:"auth"`
	Status     int32   `parquet:"status"`
	Headers    string  `parquet:"headers"`
	LatencyMs  float64 `parquet:"latencyMs"`
	Refused    string  `parquet:"refused,dict"`
	Body       string  `parquet:"body"`
}

func (p *parquetRow) from(r *Row) {
	*p = parquetRow{
		ID: r.ID, TS: r.At.UnixNano(), Provider: r.Provider, Account: r.Account, Target: r.Target, Credential: r.Credential,
		Method: r.Method, Endpoint: r.Endpoint, Vars: string(appendMap(nil, r.Vars)), Job: r.Job, Priority: r.Priority,
		Retry: r.Retry, Auth: r.Auth, Status: int32(r.Status), Headers: string(appendMap(nil, r.Headers)),
		// A float64 has every nanosecond of the 30 days that a latency may last.
		LatencyMs: float64(r.Latency) / 1e6, Refused: r.Refused, Body: clipBody(r.Body),
	}
}

func (p *parquetRow) row() (Row, error) {
	r := Row{
		ID: p.ID, At: time.Unix(0, p.TS).UTC(), Status: int(p.Status), Refused: p.Refused, Body: clipBody(p.Body),
		Latency: time.Duration(math.Round(p.LatencyMs * 1e6)),
		Request: Request{
			Provider: p.Provider, Account: p.Account, Target: p.Target, Credential: p.Credential, Method: p.Method,
			Endpoint: p.Endpoint, Job: p.Job, Priority: p.Priority, Retry: p.Retry, Auth: p.Auth,
		},
	}
	var errs [4]error
	errs[0] = checkInstant(p.TS)
	errs[1] = checkStatus(int64(p.Status))
	r.Vars, errs[2] = parseMap(p.Vars)
	r.Headers, errs[3] = parseMap(p.Headers)
	if !(p.LatencyMs >= 0 && p.LatencyMs*1e6 <= float64(maxLatency)) {
		return r, fmt.Errorf("latencyMs %g is not between 0 and 30 days", p.LatencyMs)
	}
	return r, errors.Join(errs[:]...)
}

// ParquetOptions are those of all Parquet files of tapyr: the same rows make the same bytes.
func ParquetOptions() []parquet.WriterOption {
	return []parquet.WriterOption{
		parquet.Compression(&zstd.Codec{Concurrency: 1}), parquet.CreatedBy("tapyr", "1", ""), parquet.MaxRowsPerRowGroup(1 << 16),
	}
}

// openParquet reads a Parquet file, from a copy where it is compressed once more or comes through a pipe: its directory is at
// its end.
func (in *input) openParquet(text *bufio.Reader) error {
	file, err := os.CreateTemp(in.reader.options.TempDir, "tapyr-parquet-*")
	if err != nil {
		return err
	}
	in.onClose(func() {
		_ = file.Close() // a copy, which goes
		os.Remove(file.Name())
	})
	size, err := io.Copy(file, text)
	if err != nil {
		return fmt.Errorf("%s: %w", in.name, err)
	}
	pf, err := parquet.OpenFile(file, size)
	if err != nil {
		return fmt.Errorf("%s: %w", in.name, err)
	}
	if _, ok := pf.Schema().Lookup("ts"); !ok {
		return fmt.Errorf("%s has no column ts: only tapyr's own Parquet files can be read", in.name)
	}
	in.source = newPump(in.reader.builder(), func(e *emitter) error { return feedParquet(pf, e) })
	return nil
}

func feedParquet(pf *parquet.File, e *emitter) (err error) {
	defer func() { // the library panics on some damaged files
		if p := recover(); p != nil {
			err = fmt.Errorf("the Parquet file is damaged: %v", p)
		}
	}()
	reader := parquet.NewGenericReader[parquetRow](pf)
	defer func() { _ = reader.Close() }() // it was only read
	buf := make([]parquetRow, 512)
	for number := int64(1); ; {
		n, err := reader.Read(buf)
		for i := range buf[:n] {
			row, rerr := buf[i].row()
			if rerr != nil {
				rerr = e.bad(number, number, rerr)
			} else {
				rerr = e.row(&row, instant{nanos: row.At.UnixNano()}, number, number)
			}
			if rerr != nil {
				return rerr
			}
			number++
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

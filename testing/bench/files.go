package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/files/keep"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const (
	filesSpace    = "files"
	filesAccounts = 1000
	filesHosts    = 20
	filesLeast    = 512 // bytes of a small file
	filesSpread   = 16 << 10

	filesSettle = 30 * time.Minute
	filesKill   = 3 // of what a replica has to fetch, one in so many files is kept when it is killed
)

// filesBench measures how one whole replica keeps the files that messages carry: how fast and with how
// much memory, whether they are read as they were, and what becomes of them while the store is full,
// slow or away, and when the replica is killed.
type filesBench struct {
	report reporter
	small  int
	large  int
	size   int64 // bytes of a large file
	memory int64 // bytes above idle that the replica may have; 0: any number
	stores []string
	only   string        // works: only a store that works; trouble: that and the others; hour: only in fake time; empty: all
	until  time.Duration // for how long third parties have a file
	away   time.Duration // for how long a store is in trouble
	idle   time.Duration // until a replica does nothing

	hourFiles int // in fake time
}

func (b *filesBench) flags(set *flag.FlagSet) {
	set.IntVar(&b.small, "small", 100_000, "small files, of 512 bytes to 16.5 KiB")
	set.IntVar(&b.large, "large", 10, "large files")
	b.size = 100 << 20
	set.Func("size", "MiB of a large file (default 100)", mib(&b.size))
	b.memory = 64 << 20
	set.Func("memory", "MiB above idle that the replica may have; 0: any number (default 64)", mib(&b.memory))
	set.DurationVar(&b.until, "until", time.Hour, "for how long third parties have a file")
	set.DurationVar(&b.away, "away", 30*time.Second, "for how long a store is in trouble; in fake time it is an hour in any case")
	set.IntVar(&b.hourFiles, "hour-files", 2000, "files that are found in the hour of fake time")
	set.StringVar(&b.only, "only", "", "works: only while the store works; trouble: not in fake time; hour: only in fake time")
	b.idle = 5 * time.Second
	b.stores = []string{inDirectory, inS3}
	set.Func("store", "where files are stored; each is measured (default directory,s3)", func(text string) error {
		b.stores = strings.Split(text, ",")
		return nil
	})
}

// mib reads a number of MiB into one of bytes.
func mib(bytes *int64) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, 32)
		*bytes = n << 20
		return err
	}
}

func (b *filesBench) validate() error {
	if b.small < filesHosts || b.large < 1 || b.size < 1<<20 || b.hourFiles < 60 {
		return fmt.Errorf("small must be at least %d, large and size 1, and hour-files 60", filesHosts)
	}
	if b.until < time.Minute || b.away < time.Second {
		return errors.New("until must be at least 1m, and away 1s")
	}
	if !slices.Contains([]string{"", "works", "trouble", "hour"}, b.only) {
		return fmt.Errorf("--only: %q is not works, trouble or hour", b.only)
	}
	for _, store := range b.stores {
		if store != inDirectory && store != inS3 {
			return fmt.Errorf("--store: %q is not directory or s3", store)
		}
	}
	return nil
}

func (b *filesBench) run(ctx context.Context) error {
	var errs []error
	if b.only != "hour" {
		for _, store := range b.stores {
			if err := b.on(ctx, store); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", store, err))
			}
		}
	}
	if b.only == "" || b.only == "hour" {
		errs = append(errs, b.hours(ctx))
	}
	return errors.Join(errs...)
}

// on measures with one store.
func (b *filesBench) on(ctx context.Context, store string) (err error) {
	dir, err := os.MkdirTemp("", "rounds-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &filesRun{filesBench: b, name: "files_" + store + "_"}
	if r.place, err = openFilesPlace(store, dir); err != nil {
		return err
	}
	defer r.place.close()
	redis, server, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	r.redis = redis
	if r.ring, err = circulate.Open(ctx, server, circulate.Options{Namespace: filesSpace}); err != nil {
		return err
	}
	if r.fakes, err = newFileFakes(b.until); err != nil {
		return err
	}
	defer r.fakes.close()
	if err := r.register(ctx); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	defer func() { r.replica.stop() }()
	if err := r.works(ctx); err != nil {
		return err
	}
	if err := r.read(ctx); err != nil {
		return err
	}
	if b.only == "works" {
		return r.judge(ctx)
	}
	for _, trouble := range r.troubles() {
		if err := r.in(ctx, trouble); err != nil {
			return fmt.Errorf("%s: %w", trouble.name, err)
		}
	}
	return r.judge(ctx)
}

// filesRun is the measurements with one store.
type filesRun struct {
	*filesBench
	name    string // what the figures' names begin with
	place   *filesPlace
	redis   *redistest.Server
	ring    *circulate.Ring
	fakes   *fileFakes
	replica *fetchChild
	api     string // of the replica

	files []filed
	seq   uint64
	bytes int64 // of all files
}

// filed is a file, and the message that carries it.
type filed struct {
	fileContent
	id  string // of its row
	ref string // of the message
}

func filesAccount(i int) string { return fmt.Sprintf("account%04d", i) }

// register registers accounts of connectors. No check is due while the bench runs.
func (r *filesRun) register(ctx context.Context) error {
	for i := range filesAccounts {
		id := filesAccount(i)
		record := fmt.Appendf(nil, `{"id":%q,"kind":"http","config":{"url":%q},"cadence":"every 24h"}`, id, r.fakes.host(i)+"/check")
		item := circulate.Registration{ID: id, Record: record, Due: time.Now().Add(24 * time.Hour)}
		if _, err := r.ring.Register(ctx, r.ring.ShardOf(id), []circulate.Registration{item}); err != nil {
			return err
		}
	}
	return nil
}

// start starts a replica, and waits until it reads messages.
func (r *filesRun) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if r.replica, err = startAnswering(ctx, filesVariable+"="+r.place.setting, self, "filesserve", "--redis", r.redis.URL()); err != nil {
		return err
	}
	if err := r.replica.ask("where", &r.api); err != nil {
		return err
	}
	for shard := range r.ring.Shards() {
		for {
			_, err := r.ring.Streams().GroupState(ctx, shard, keep.Group)
			if err == nil {
				break
			}
			if !errors.Is(err, circulate.ErrNoGroup) {
				return err
			}
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// find has messages found that carry a file each.
func (r *filesRun) find(ctx context.Context, n int, size func(number int) int64) error {
	now, err := r.ring.Now(ctx, 0)
	if err != nil {
		return err
	}
	shards := make([][]circulate.Found, r.ring.Shards())
	for range n {
		number := len(r.files)
		owner := number % filesAccounts
		account := filesAccount(owner)
		shard := r.ring.ShardOf(account)
		r.seq++
		c := fileContent{number, size(number)}
		at := circulate.StreamID{Ms: uint64(now.UnixMilli()), Seq: r.seq}
		data, err := json.Marshal(map[string]any{"files": []map[string]any{{
			"url": fmt.Sprintf("%s/%d", r.fakes.host(owner), number), "name": fmt.Sprintf("%d.bin", number), "size": c.size,
			"until": r.fakes.name(c).Format(time.RFC3339),
		}}})
		if err != nil {
			return err
		}
		id := fmt.Sprint("message-", number)
		shards[shard] = append(shards[shard], circulate.Found{Position: at.String(), Account: account, Kind: "http", Message: circulate.Message{ID: id, Type: "file", Time: now, Data: data}})
		r.files = append(r.files, filed{c, circulate.NewFileID(account, circulate.FileOfMessage, id, 0), fmt.Sprintf("%d:%s", shard, at)})
		r.bytes += c.size
	}
	return eachShard(r.ring, func(shard int) error {
		for some := range slices.Chunk(shards[shard], 500) {
			if err := r.ring.Archive().LoadMessages(ctx, shard, some); err != nil {
				return err
			}
		}
		return nil
	})
}

// smallSize returns a small file's size.
func smallSize(number int) int64 { return filesLeast + int64(number)*7919%filesSpread }

// settled waits until all files, or so many, are kept or lost.
func (r *filesRun) settled(ctx context.Context, n int) error {
	for end := time.Now().Add(filesSettle); ; {
		totals, err := r.ring.Files().Totals(ctx)
		if err != nil {
			return err
		}
		done := totals.Kept.Files + totals.Lost
		if done >= n {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d files were found, and after %v %d are kept or lost", n, filesSettle, done)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// works measures while the store works: the small files and then the large ones.
func (r *filesRun) works(ctx context.Context) error {
	if err := pause(ctx, r.idle); err != nil {
		return err
	}
	pid := r.replica.cmd.Process.Pid
	idle, err := residentMemory(pid)
	if err != nil {
		return err
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil { // the peak begins anew
		return err
	}
	for _, part := range []struct {
		name string
		n    int
		size func(int) int64
	}{
		{"small", r.small, smallSize},
		{"large", r.large, func(int) int64 { return r.size }},
	} {
		cpu, err := processCPU(pid)
		if err != nil {
			return err
		}
		bytes, began := r.bytes, time.Now()
		if err := r.find(ctx, part.n, part.size); err != nil {
			return err
		}
		if err := r.settled(ctx, len(r.files)); err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		used, err := processCPU(pid)
		if err != nil {
			return err
		}
		r.report.figure(r.name+part.name+"_per_s", float64(part.n)/took, "files/s, from when their messages are written")
		r.report.figure(r.name+part.name+"_mib_per_s", float64(r.bytes-bytes)/(1<<20)/took, "MiB/s")
		r.report.figure(r.name+part.name+"_cpu_ms", 1000*(used-cpu)/float64(part.n), "ms of the replica's processor a file")
	}
	peak, err := peakMemoryOf(strconv.Itoa(pid))
	if err != nil {
		return err
	}
	asked, expired, least := r.fakes.said()
	r.report.figure(r.name+"idle_mib", idle/(1<<20), "MiB of the replica before")
	r.report.figure(r.name+"memory_mib", (peak-idle)/(1<<20), "MiB more, at most")
	r.report.figure(r.name+"asked", float64(asked)/float64(len(r.files)), "requests a file; some fail at first")
	r.report.figure(r.name+"expired_unfetched", float64(expired), "requests for files that the third party had forgotten")
	r.report.figure(r.name+"least_left_s", least.Seconds(), "s that a file had left at least when it was fetched, of "+r.until.String())
	switch {
	case expired > 0:
		return fmt.Errorf("%d files expired unfetched while the store worked", expired)
	case r.memory > 0 && peak-idle > float64(r.memory):
		return fmt.Errorf("the replica took %.0f MiB above idle, and may take %d", (peak-idle)/(1<<20), r.memory>>20)
	}
	totals, err := r.ring.Files().Totals(ctx)
	if err == nil && totals.Lost > 0 {
		err = fmt.Errorf("%d files were lost while the store worked", totals.Lost)
	}
	return err
}

// filesTrouble is a store that does not work, or a replica that is killed, for a while.
type filesTrouble struct {
	name  string
	begin func() error
	wait  func(ctx context.Context, before int) error
	end   func(ctx context.Context) error
}

// troubles returns what may be wrong.
func (r *filesRun) troubles() []filesTrouble {
	be := func(what string) func() error { return func() error { return r.replica.ask(what, nil) } }
	well := func(context.Context) error { return be(storeWell)() }
	some := func(ctx context.Context, _ int) error { return pause(ctx, r.filesBench.away) }
	return []filesTrouble{
		{storeFull, be(storeFull), some, well},
		{storeSlow, be(storeSlow), some, well},
		{"away", r.place.away, some, func(context.Context) error { return r.place.back() }},
		{"killed", func() error { return nil }, r.partly, func(ctx context.Context) error {
			_ = r.replica.cmd.Process.Kill()
			r.replica.stop()
			return r.start(ctx)
		}},
	}
}

// partly waits until a part of the files that were found last is kept.
func (r *filesRun) partly(ctx context.Context, before int) error {
	return r.settled(ctx, before+(len(r.files)-before)/filesKill)
}

// in has files found in a trouble, and waits until all are kept or lost after its end.
func (r *filesRun) in(ctx context.Context, t filesTrouble) error {
	before := len(r.files)
	asked, _, _ := r.fakes.said()
	if err := t.begin(); err != nil {
		return err
	}
	if err := r.find(ctx, max(filesHosts, r.small/20), smallSize); err != nil {
		return err
	}
	if err := r.find(ctx, 2, func(int) int64 { return r.size / 4 }); err != nil {
		return err
	}
	if err := t.wait(ctx, before); err != nil {
		return err
	}
	if err := t.end(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := r.settled(ctx, len(r.files)); err != nil {
		return err
	}
	now, _, _ := r.fakes.said()
	r.report.figure(r.name+t.name+"_settled_s", time.Since(began).Seconds(), fmt.Sprintf("s after the end until all of %d files were kept or lost", len(r.files)-before))
	r.report.figure(r.name+t.name+"_asked", float64(now-asked)/float64(len(r.files)-before), "requests a file")
	return nil
}

// judge compares what the list has with what third parties have.
func (r *filesRun) judge(ctx context.Context) error {
	byID := make(map[string]int, len(r.files))
	for i := range r.files {
		byID[r.files[i].id] = i
	}
	kept, wrong, unnamed := 0, 0, 0
	lost := make(map[string]int)
	seen := make(map[int]bool, len(r.files))
	err := r.ring.Files().Walk(ctx, func(rows []circulate.File) error {
		for i := range rows {
			row := &rows[i]
			number, known := byID[row.ID]
			if !known || seen[number] {
				continue
			}
			seen[number] = true
			sum, err := r.files[number].sum()
			switch {
			case err != nil:
				return err
			case row.State == circulate.FileLost && row.Reason == "":
				unnamed++
			case row.State == circulate.FileLost:
				lost[row.Reason]++
			case row.Hash == sum && row.Size == r.files[number].size:
				kept++
			default:
				wrong++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	missing := len(r.files) - len(seen)
	sum := 0
	for _, n := range lost {
		sum += n
	}
	r.report.figure(r.name+"kept", float64(kept), fmt.Sprintf("files of %d, with the third parties' bytes", len(r.files)))
	r.report.figure(r.name+"lost", float64(sum), "files, each with its reason")
	for _, reason := range slices.Sorted(maps.Keys(lost)) {
		fmt.Fprintf(os.Stderr, "bench: %d files are lost: %s\n", lost[reason], reason)
	}
	if wrong+unnamed+missing > 0 {
		return fmt.Errorf("of %d files %d have other bytes, %d are lost without a reason, and %d are neither kept nor lost", len(r.files), wrong, unnamed, missing)
	}
	return nil
}

// filesMain is the command.
func filesMain(ctx context.Context, flags *flag.FlagSet, args []string, asJSON *bool, out io.Writer) error {
	b := &filesBench{}
	b.flags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := b.validate(); err != nil {
		return err
	}
	var err error
	if b.report, err = newReporter(ctx, out, *asJSON); err != nil {
		return err
	}
	return b.run(ctx)
}

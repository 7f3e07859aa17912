package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/backup"
	"github.com/rounds-dev/rounds/cmd/rounds/command"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// backupBench measures a backup of very many accounts with a message each, what it costs those
// that are checked meanwhile, and restoring it into another Redis. Every step is a process of
// its own, so that its memory is its own.
type backupBench struct {
	report   reporter
	accounts int
	busy     int // of these, how many are checked every minute while the second backup is taken
	length   time.Duration
	profile  string // of the process that serves; empty: none
}

// window is how long replicas sum up what they report.
const window = 2 * time.Second

func (b *backupBench) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "rounds-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "rounds.ndjson")
	if err := b.take(ctx, file); err != nil {
		return err
	}
	return b.restore(ctx, file)
}

// take measures a backup of a service that does nothing else, and one while accounts are
// checked.
func (b *backupBench) take(ctx context.Context, file string) error {
	redis, server, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	ring, err := b.fill(ctx, server)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	served, err := startAgain(ctx, "backupserve", redis, "--profile="+b.profile)
	if err != nil {
		return err
	}
	defer served.stop()
	if err := ready(ctx, served.line); err != nil {
		return err
	}
	of := countWord(b.accounts)
	redisBefore, err := usedCPU(server)
	if err != nil {
		return err
	}
	servedBefore, err := served.usedCPU()
	if err != nil {
		return err
	}
	did, err := program(ctx, served.line, redis, "backup", file)
	if err != nil {
		return err
	}
	redisAfter, err := usedCPU(server)
	if err != nil {
		return err
	}
	servedAfter, err := served.usedCPU()
	if err != nil {
		return err
	}
	peak, err := served.peakMemory()
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	b.report.figure("backup_"+of+"_seconds", did.took.Seconds(), "s, with as many messages")
	b.report.figure("backup_file_mb", float64(info.Size())/1e6, "MB")
	b.report.figure("backup_redis_cpu", redisAfter-redisBefore, "s of Redis' processor")
	b.report.figure("backup_served_cpu", servedAfter-servedBefore, "s of the serving process' processor")
	b.report.figure("backup_cpu", did.cpu.Seconds(), "s of the command's processor: it verifies the file")
	b.report.figure("backup_served_rss_mib", peak/(1<<20), "MiB, the most that the serving process had")
	b.report.figure("backup_rss_mib", did.peak/(1<<20), "MiB, the most that the command had")
	return b.meanwhile(ctx, ring, served.line, redis, file)
}

// ready waits until the service has reached Redis.
func ready(ctx context.Context, url string) error {
	for {
		var health struct{}
		err := getJSON(ctx, url+"/readyz", &health)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// meanwhile compares how late checks are without a backup and while one is taken.
func (b *backupBench) meanwhile(ctx context.Context, ring *circulate.Ring, url string, redis *redistest.Server, file string) error {
	if b.busy == 0 {
		return nil
	}
	perSecond := float64(b.busy) / interval.Seconds()
	stop, err := start(ring, sleeper{}, 1, poller.Config{Concurrency: max(256, int(3*perSecond*checkTakes.Seconds()))}, nil)
	if err != nil {
		return err
	}
	// Filling and the first backup took a while, so all are due at first.
	if err := pause(ctx, interval+settle); err != nil {
		return err
	}
	without, err := b.lateness(ctx, ring, time.After(b.length))
	if err != nil {
		return err
	}
	ended := make(chan time.Time)
	failed := make(chan error, 1)
	go func() {
		defer close(ended)
		_, err := program(ctx, url, redis, "backup", file)
		failed <- err
	}()
	with, err := b.lateness(ctx, ring, ended)
	if err == nil {
		err = <-failed
	}
	if err != nil {
		return err
	}
	b.report.figure("without_backup_p99_lateness_ms", median(without), "ms, the median of two-second windows, "+countWord(b.busy)+" accounts every minute")
	b.report.figure("backup_p99_lateness_ms", median(with), "ms, likewise while a backup is taken")
	b.report.figure("without_backup_p99_lateness_worst_window_ms", slices.Max(without), "ms")
	b.report.figure("backup_p99_lateness_worst_window_ms", slices.Max(with), "ms")
	return stop()
}

// lateness returns the p99 of two-second windows until something has ended.
func (b *backupBench) lateness(ctx context.Context, ring *circulate.Ring, ended <-chan time.Time) ([]float64, error) {
	var p99 []float64
	for {
		if err := pause(ctx, window); err != nil {
			return nil, err
		}
		all, err := reports(ctx, ring)
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			p99 = append(p99, 1000*r.LatenessP99)
		}
		select {
		case <-ended:
			return p99, nil
		default:
		}
	}
}

// restore measures restoring the file, and looks whether everything is there.
func (b *backupBench) restore(ctx context.Context, file string) error {
	redis, server, stop, err := startRedis()
	if err != nil {
		return err
	}
	defer stop()
	did, err := program(ctx, "", redis, "restore", file)
	if err != nil {
		return err
	}
	redisCPU, err := usedCPU(server)
	if err != nil {
		return err
	}
	ring, err := circulate.Open(ctx, server, circulate.Options{})
	if err != nil {
		return err
	}
	var there backup.Counts
	for shard := range ring.Shards() {
		n, err := ring.Count(ctx, shard)
		if err != nil {
			return err
		}
		there.Accounts += n.Registered
		there.Messages += n.Messages
	}
	if want := (backup.Counts{Accounts: b.accounts, Messages: b.accounts}); there != want {
		return fmt.Errorf("restored %+v of %+v", there, want)
	}
	b.report.figure("restore_"+countWord(b.accounts)+"_seconds", did.took.Seconds(), "s, with as many messages, the file verified first")
	b.report.figure("restore_redis_cpu", redisCPU, "s of Redis' processor")
	b.report.figure("restore_cpu", did.cpu.Seconds(), "s of the command's processor")
	b.report.figure("restore_rss_mib", did.peak/(1<<20), "MiB, the most that the command had")
	return nil
}

// fill makes accounts as they are after some checks, and a message of each.
func (b *backupBench) fill(ctx context.Context, server *connect.Single) (*circulate.Ring, error) {
	ring, err := circulate.Open(ctx, server, circulate.Options{})
	if err != nil {
		return nil, err
	}
	now, err := ring.Now(ctx, 0)
	if err != nil {
		return nil, err
	}
	shards := make([][]int, ring.Shards())
	for i := range b.accounts {
		shard := ring.ShardOf(backupID(i))
		shards[shard] = append(shards[shard], i)
	}
	data := bytes.Repeat([]byte("x"), 160)
	return ring, eachShard(ring, func(shard int) error {
		var at circulate.StreamID
		for some := range slices.Chunk(shards[shard], 250) {
			accounts, messages := make([]circulate.Archived, len(some)), make([]circulate.Found, len(some))
			for j, i := range some {
				cadence, due := "every 24h", now.Add(6*time.Hour)
				if i < b.busy {
					cadence, due = "every 60s", now.Add(time.Duration(i)*interval/time.Duration(b.busy))
				}
				accounts[j] = circulate.Archived{
					ID: backupID(i), Standing: circulate.StandsScheduled, At: due, Line: "ni" + "00000000" + "++++++++" + "cursor1234567",
					Record: fmt.Sprintf(`{"id":%q,"kind":"sleep","config":{"url":"https://feeds.example.com/%d.xml"},"cadence":%q,"labels":{"team":"team-%d","tier":"gold"},"revision":[1,1700000000]}`,
						backupID(i), i, cadence, i%10),
				}
				// All shards have messages of about the same times, as they would.
				at = circulate.StreamID{Ms: uint64(now.UnixMilli()) - uint64(b.accounts-i), Seq: 0}
				messages[j] = circulate.Found{Position: at.String(), Account: backupID(i), Kind: "sleep", Message: circulate.Message{
					ID: fmt.Sprint("message-", i), Type: "text", Time: now, Data: fmt.Appendf(nil, `{"content":%q}`, data),
				}}
			}
			if n, err := ring.Archive().Load(ctx, shard, accounts); err != nil || n != len(some) {
				return fmt.Errorf("%d accounts of %d: %w", n, len(some), err)
			}
			if err := ring.Archive().LoadMessages(ctx, shard, messages); err != nil {
				return err
			}
		}
		return nil
	})
}

func backupID(i int) string { return fmt.Sprintf("customer-%08d", i) }

// ran is what a process took.
type ran struct {
	took, cpu time.Duration
	peak      float64 // bytes
}

// program runs a command of rounds in a process of its own.
func program(ctx context.Context, api string, redis *redistest.Server, args ...string) (ran, error) {
	self, err := os.Executable()
	if err != nil {
		return ran{}, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"program"}, args...)...)
	peak, err := os.CreateTemp("", "rounds-bench-peak-*")
	if err != nil {
		return ran{}, err
	}
	_ = peak.Close()
	defer func() { _ = os.Remove(peak.Name()) }()
	cmd.Env = append(os.Environ(), "ROUNDS_API_URL="+api, "ROUNDS_REDIS_URL="+redis.URL(), peakFile+"="+peak.Name())
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return ran{}, fmt.Errorf("rounds %s: %w: %s", args[0], err, said.Bytes())
	}
	did := ran{took: time.Since(began), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	text, err := os.ReadFile(peak.Name())
	if err == nil {
		did.peak, err = strconv.ParseFloat(string(text), 64)
	}
	return did, err
}

// peakFile is the variable with the file to which the program writes the most memory that it
// had. What the parent is told of an ended child counts the parent's own memory, from before
// the child was another program.
const peakFile = "BENCH_PEAK"

// backupServe is the service with the API's role alone.
func backupServe(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	profile := args[len(args)-1]
	ctx, url, err := childFlags(ctx, "backupserve", args[:len(args)-1], in)
	if err != nil {
		return err
	}
	variables := map[string]string{"ROUNDS_REDIS_URL": url, "ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ROLES": "api"}
	s, lookup, err := serviceSettings(variables)
	if err != nil {
		return err
	}
	endProfile, err := startProfile(profile[len("--profile="):])
	if err != nil {
		return err
	}
	defer endProfile()
	return service.Run(ctx, s, service.Options{Version: "bench", Lookup: lookup, Serving: func(addr string) {
		_, _ = fmt.Fprintln(out, "http://"+addr) // whoever started this waits for it
	}})
}

// backupProgram is the program rounds, in this one.
func backupProgram(ctx context.Context, args []string) error {
	endProfile, err := startProfile(os.Getenv("BENCH_PROFILE"))
	if err != nil {
		return err
	}
	defer endProfile()
	if err := command.Run(ctx, args); err != nil {
		return err
	}
	peak, err := peakMemoryOf("self")
	if err != nil {
		return err
	}
	return os.WriteFile(os.Getenv(peakFile), strconv.AppendFloat(nil, peak, 'f', 0, 64), 0o600)
}

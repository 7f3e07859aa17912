package document

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var jobPutScript = wire.NewScript("put job", lua("job_put"))

const (
	// MostJobs is how many jobs a namespace may have, including ended ones.
	MostJobs = 50
	// MaxJob is the most bytes of a job's document.
	MaxJob = 64 << 10
	// MaxJobChunk is the most bytes of a job's chunk.
	MaxJobChunk = 256 << 10
	// MaxJobLife is the longest that the chunks of a job live after its last change.
	MaxJobLife = 30 * 24 * time.Hour
)

// Jobs has the jobs of a namespace: for each one document, and chunks beside it that are
// written together with the document. Many processes may work on one job, because a
// document is only replaced if it is still the expected one.
type Jobs struct {
	place  // jobs HASH; as in put job
	chunks string
}

// Jobs returns the jobs.
func (d Documents) Jobs() Jobs {
	return Jobs{d.place("jobs", "jobs", "hash"), "{" + d.wire.Namespace() + ":jobs}:of:"}
}

// Job is a stored job.
type Job struct {
	ID      string
	Version int64 // one more with each change
	Text    []byte
}

// JobChange is what is written with a job's document.
type JobChange struct {
	Chunk string        // the name of a chunk to write; empty: none
	Text  []byte        // the chunk's text
	Life  time.Duration // how long the job's chunks live from now; 0 removes them
}

// Put replaces the document of a job that still has the version of j, or adds a job if that
// version is 0. It returns the new version. It returns ErrChanged if the job has another
// version or is gone, and ErrFull if there are too many jobs. It is safe to repeat.
func (s Jobs) Put(ctx context.Context, j Job, with JobChange) (int64, error) {
	if err := refused("put job", wrongSize("document", len(j.Text), 1, MaxJob), wrongSize("chunk", len(with.Text), 0, MaxJobChunk), wrongLifeOf(with.Life)); err != nil {
		return 0, err
	}
	if err := s.put(ctx, j.ID, j.Version, string(j.Text), with); err != nil {
		return 0, err
	}
	return j.Version + 1, nil
}

// Remove removes a job with its chunks. It returns ErrChanged if the job has another version
// than j. It is safe to repeat.
func (s Jobs) Remove(ctx context.Context, j Job) error {
	return s.put(ctx, j.ID, j.Version, "", JobChange{})
}

func (s Jobs) put(ctx context.Context, id string, version int64, text string, with JobChange) error {
	if err := refused("put job", wrongSize("id", len(id), 1, MaxName)); err != nil {
		return err
	}
	of := place{s.wire, append(s.keys[:1:1], wire.Key{s.chunks + id, "hash"})}
	done, err := redis.Int(of.run(ctx, jobPutScript, 2, id, version, text, MostJobs, with.Life.Milliseconds(), with.Chunk, with.Text))
	switch {
	case err != nil:
		return err
	case done < 0:
		return ErrFull
	case done == 0:
		return ErrChanged
	}
	return nil
}

// All returns all jobs, in no order, and the time by Redis' clock. It leaves out what Put did
// not write.
func (s Jobs) All(ctx context.Context) ([]Job, time.Time, error) {
	now, replies, err := s.timed(ctx, "list jobs", wire.Command{"HGETALL", s.key(0)})
	if err != nil {
		return nil, time.Time{}, err
	}
	texts, err := redis.StringMap(replies[0], nil)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("list jobs: %w", err)
	}
	jobs := make([]Job, 0, len(texts))
	for id, text := range texts {
		if j, ok := readJob(id, text); ok {
			jobs = append(jobs, j)
		}
	}
	return jobs, now, nil
}

// Get returns a job and the time by Redis' clock, or ErrNone.
func (s Jobs) Get(ctx context.Context, id string) (Job, time.Time, error) {
	now, replies, err := s.timed(ctx, "get job", wire.Command{"HGET", s.key(0), id})
	if err != nil {
		return Job{}, time.Time{}, err
	}
	text, err := redis.String(replies[0], nil)
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return Job{}, time.Time{}, fmt.Errorf("get job: %w", err)
	}
	j, ok := readJob(id, text)
	if !ok {
		return Job{}, now, ErrNone
	}
	return j, now, nil
}

// Chunk returns a chunk of a job, or ErrNone.
func (s Jobs) Chunk(ctx context.Context, id, name string) ([]byte, error) {
	of := place{s.wire, []wire.Key{{s.chunks + id, "hash"}}}
	replies, err := of.do(ctx, "get chunk", wire.Command{"HGET", of.key(0), name})
	if err != nil {
		return nil, err
	}
	text, err := redis.Bytes(replies[0], nil)
	if errors.Is(err, redis.ErrNil) {
		return nil, ErrNone
	}
	return text, err
}

func readJob(id, text string) (Job, bool) {
	digits, rest, ok := strings.Cut(text, "|")
	version, err := strconv.ParseInt(digits, 10, 64)
	return Job{ID: id, Version: version, Text: []byte(rest)}, ok && err == nil && version > 0
}

func wrongLifeOf(life time.Duration) error {
	if life < 0 || life > MaxJobLife {
		return fmt.Errorf("life: must be 0 to %v, is %v", MaxJobLife, life)
	}
	return nil
}

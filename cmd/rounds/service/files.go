package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/files"
	"github.com/rounds-dev/rounds/poller/files/keep"
)

// standingEvery is how often a process says how its fetching of files stands.
const standingEvery = 15 * time.Second

const filesPolicy = "ROUNDS_FILES_POLICY"

// keepingOf returns how the settings say that files are kept.
func keepingOf(s settings.Keeping, checkers poller.Checkers) (keep.Config, error) {
	policies, err := keep.ParsePolicies(s.Policy, checkers.FileKinds())
	if err != nil {
		return keep.Config{}, fmt.Errorf("%s: %w", filesPolicy, err)
	}
	return keep.Config{
		Policies: policies, Most: int64(s.Most) << 20, AtOnce: s.AtOnce, MakeRoom: s.WhenFull == settings.RemoveRead,
		Bounds: circulate.FileBounds{All: int64(s.Quota) << 20, Account: int64(s.AccountQuota) << 20},
	}, nil
}

// keepingFaults reads the policies to find their faults; keepingOf reads them for use.
func keepingFaults(s settings.Settings, checkers poller.Checkers) settings.Faults {
	_, err := keep.ParsePolicies(s.Keeping.Policy, checkers.FileKinds())
	return faultsAbout(filesPolicy, "", err)
}

// newKeeper makes what fetches the files of messages, or nil if there is no store.
func newKeeper(s settings.Settings, o Options, ring *circulate.Ring, checkers poller.Checkers, metrics *keep.Metrics) (*keep.Keeper, error) {
	if o.Files == nil {
		return nil, nil
	}
	config, err := keepingOf(s.Keeping, checkers)
	if err != nil {
		return nil, err
	}
	return keep.New(config, keep.Options{Ring: ring, Store: o.Files, Checkers: checkers, Log: o.Log, Metrics: metrics}), nil
}

// sendFiles returns where pollers find the files of sends, or nil if there is no store.
func sendFiles(o Options, ring *circulate.Ring) poller.SendFiles {
	if o.Files == nil {
		return nil
	}
	return keep.SendFiles{Ring: ring, Store: o.Files}
}

// startKeeping starts the consumer that fetches files.
func startKeeping(ctx context.Context, group *errgroup.Group, s settings.Settings, o Options, ring *circulate.Ring,
	keeper *keep.Keeper, metrics *keep.Metrics, consumed *delivery.Metrics) {
	log := o.Log.With("role", settings.RoleDelivery)
	consumer := keeper.Consumer()
	consumer.Grace, consumer.Hurry = max(s.Poller.GracePeriod, time.Nanosecond), o.Hurry // zero must not mean the default
	consumer.Log, consumer.Metrics = log, consumed
	group.Go(func() error { return consumer.Run(ctx) })
	group.Go(func() error {
		tick := time.NewTicker(standingEvery)
		defer tick.Stop()
		for {
			metrics.Show(keeper.Standing(), time.Now())
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
	log.Info("files that messages carry are kept", "store", o.Files.String())
}

// reportedFrom is how long before the first file may be forgotten a process reports what waits. An
// earlier report would only change with each message.
const reportedFrom = 2 * time.Hour

// filesReport returns what a process reports about fetching files, or nil if all is well.
func filesReport(s keep.Standing) *accounts.FilesReport {
	second := func(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
	r := accounts.FilesReport{StoreWhy: s.StoreWhy}
	if !s.StoreSince.IsZero() {
		r.StoreSince = second(s.StoreSince)
	}
	if !s.FullSince.IsZero() {
		r.FullSince = second(s.FullSince)
	}
	if s.Waiting > 0 && time.Until(s.Soonest) < reportedFrom {
		r.Waiting, r.Soonest, r.Account = s.Waiting, second(s.Soonest), s.Account
	}
	if r == (accounts.FilesReport{}) {
		return nil
	}
	return &r
}

// linksTo returns what webhooks say of the files of a message, or nil if no files are kept. Links are
// below ROUNDS_PUBLIC_URL or, without that, paths of the API.
func linksTo(keeper *keep.Keeper, s settings.Settings, log *slog.Logger) func(context.Context, *delivery.Delivery) ([]sink.File, error) {
	if keeper == nil {
		return nil
	}
	keys := key.NewKeyring(keeper.Ring, log)
	return func(ctx context.Context, d *delivery.Delivery) ([]sink.File, error) {
		carried := keeper.Checkers.Files(d.Kind, &d.Message)
		var told []sink.File
		for n, one := range carried {
			f := sink.File{N: n, Name: one.Name, Type: one.Type, Size: one.Size}
			if s.Keeping.Links > 0 && keeper.Policy(d.Kind) != keep.None {
				f.Until = time.Now().Add(s.Keeping.Links).UTC().Truncate(time.Second)
				path, err := api.FileLink(ctx, keys, &d.Found, n, f.Until)
				if err != nil {
					return nil, err
				}
				f.Link = s.API.PublicURL + path
			}
			told = append(told, f)
		}
		return told, nil
	}
}

// startCollecting starts a collector of files, in each process that may.
func startCollecting(ctx context.Context, group *errgroup.Group, s settings.Settings, o Options, ring *circulate.Ring, metrics *keep.Metrics) {
	if o.Files == nil || !s.API.Roles.Has(settings.RoleMonitor) && !s.API.Roles.Has(settings.RoleDelivery) {
		return
	}
	collector := keep.Collector{Ring: ring, Store: o.Files, Retention: s.Keeping.Retention, Log: o.Log, Metrics: metrics}
	group.Go(func() error { return collector.Run(ctx) })
}

// fileStore is what the API knows of files.
type fileStore struct {
	keeper   *keep.Keeper
	store    files.Store
	checkers poller.Checkers
	ring     *circulate.Ring

	mu     sync.Mutex
	asked  time.Time // when the ring was last asked for the group
	unread bool      // there is no group then: no process fetches files
}

// groupFor is how long fileStore remembers whether there is a group that fetches files.
const groupFor = 15 * time.Second

// filesFor returns the API's view of a keeper, or nil if there is none.
func filesFor(keeper *keep.Keeper, o Options, checkers poller.Checkers) api.FileStore {
	if keeper == nil {
		return nil
	}
	return &fileStore{keeper: keeper, store: o.Files, checkers: checkers, ring: keeper.Ring}
}

func (f *fileStore) Carried(kind string, m *circulate.Message) []api.CarriedFile {
	var carried []api.CarriedFile
	for _, one := range f.checkers.Files(kind, m) {
		carried = append(carried, api.CarriedFile{Name: one.Name, Type: one.Type, Size: one.Size})
	}
	return carried
}

// When returns the kind's policy. While no process has ever fetched files, none waits for one: it is
// fetched when somebody asks for it.
func (f *fileStore) When(ctx context.Context, kind string) string {
	policy := f.keeper.Policy(kind)
	if policy == keep.All && f.nobodyFetches(ctx) {
		policy = keep.Demand
	}
	return string(policy)
}

func (f *fileStore) nobodyFetches(ctx context.Context) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.asked) >= groupFor {
		if _, err := f.ring.Streams().GroupState(ctx, 0, keep.Group); err == nil || errors.Is(err, circulate.ErrNoGroup) {
			f.asked, f.unread = time.Now(), err != nil
		}
	}
	return f.unread
}

func (f *fileStore) Fetch(ctx context.Context, found *circulate.Found, place int) error {
	carried := f.checkers.Files(found.Kind, &found.Message)
	position, err := circulate.ParseStreamID(found.Position)
	if err != nil || place >= len(carried) {
		return errors.Join(err, api.ErrNoFile)
	}
	_, err = f.keeper.Fetch(ctx, keep.Wanted{
		Account: found.Account, Kind: found.Kind, Message: &found.Message, Place: place, File: carried[place], Found: position.Time(),
	})
	if lost, ok := errors.AsType[*keep.Lost](err); ok {
		return &api.FileLost{Reason: lost.Reason}
	}
	if later, ok := errors.AsType[*delivery.Later](err); ok {
		return &api.FileLater{After: later.After, Reason: later.Err.Error()}
	}
	return err
}

func (f *fileStore) Open(ctx context.Context, object string) (io.ReadSeekCloser, error) {
	reader, err := f.store.Open(ctx, object)
	if errors.Is(err, files.ErrNotFound) {
		return nil, api.ErrNoFile
	}
	return reader, err
}

func (f *fileStore) Upload(ctx context.Context, u api.Upload, from io.Reader) (circulate.File, error) {
	row, err := f.keeper.Upload(ctx, keep.Upload(u), from)
	read := new(files.ReadError)
	switch {
	case errors.Is(err, files.ErrTooLarge):
		return row, &api.FileRefused{Reason: fmt.Sprintf("must have at most %d bytes", f.keeper.Most())}
	case errors.Is(err, files.ErrDiffers):
		return row, &api.FileRefused{Reason: "is not what its SHA-256 says: something was lost or changed on its way"}
	case errors.As(err, &read):
		return row, &api.FileRefused{Reason: "broke off before its end", Err: read.Err}
	}
	return row, err
}

// Most implements api.FileStore.
func (f *fileStore) Most() int64 { return f.keeper.Most() }

func (f *fileStore) Share(ctx context.Context, row circulate.File, from string) (bool, error) {
	return f.ring.Files().Share(ctx, row, from, f.keeper.Bounds())
}

// keepMetrics registers the metrics of files, if there is a store.
func keepMetrics(o Options, registry prometheus.Registerer) *keep.Metrics {
	if o.Files == nil {
		registry = nil
	}
	return keep.NewMetrics(registry)
}

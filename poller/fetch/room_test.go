package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// answers is a network that answers every call with a body of so many bytes.
type answers struct {
	size   int
	length bool // the answer states its length
	eager  bool // the last read returns its bytes together with io.EOF
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	length := int64(-1)
	if a.length {
		length = int64(a.size)
	}
	body := io.LimitReader(zeros{}, int64(a.size))
	if a.eager {
		body = iotest.DataErrReader(body)
	}
	return &http.Response{
		StatusCode: 200, Header: http.Header{}, Request: r, ContentLength: length, Body: io.NopCloser(body),
	}, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestBodiesOfEveryLength(t *testing.T) {
	const most = 8 << 20
	for _, size := range []int{0, 1, smallBody - 1, smallBody, smallBody + 1, 16*smallBody - 1, 1 << 20, 1<<20 + 1, 4 << 20, most - 1, most, most + 1, most + 2} {
		for _, said := range []answers{{size: size}, {size: size, length: true}, {size: size, eager: true}, {size: size, length: true, eager: true}} {
			length := said.length
			c := New(Options{Transport: said})
			got, err := c.Do(t.Context(), Call{URL: "http://x/", MaxBody: most})
			if size > most {
				if !errors.Is(err, ErrTooLarge) {
					t.Errorf("%d bytes, length said %t: %v", size, length, err)
				}
				continue
			}
			if err != nil || len(got.Body) != size || cap(got.Body) > most+1 {
				t.Errorf("%d bytes, length said %t: %v", size, length, err)
			}
			// All room has been returned, except for buffers in a pool.
			if !c.room.answers.TryAcquire(answerRoom) {
				t.Errorf("%d bytes, length said %t: room is lost", size, length)
			}
		}
	}
}

// However many large answers come at once, a bounded number is in memory. The others wait.
// Small answers do not wait.
func TestRoomForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Transport: answers{size: 8 << 20}})
		taken, err := take(t.Context(), c.room.answers, answerRoom, answerRoom)
		if err != nil {
			t.Fatal(err)
		}
		small := New(Options{Transport: answers{size: smallBody}})
		small.room = c.room
		if _, err := small.Do(t.Context(), Call{URL: "http://x/"}); err != nil {
			t.Errorf("small: %v", err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err = c.Do(ctx, Call{URL: "http://x/"})
		failed := CheckError(err)
		if !errors.Is(err, ErrBusy) || failed.Scope != poller.ScopeEgress || failed.Network || failed.Kind != poller.Transient || time.Since(began) != 30*time.Second {
			t.Errorf("got %v, scope %s, after %v", failed, failed.Scope, time.Since(began))
		}
		gone, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		if _, err := c.Do(gone, Call{URL: "http://x/"}); CheckError(err).Code != string(CodeCanceled) {
			t.Errorf("canceled: got %v", err)
		}
		done := make(chan error)
		go func() {
			_, err := c.Do(t.Context(), Call{URL: "http://x/"})
			done <- err
		}()
		synctest.Wait()
		taken()
		if err := <-done; err != nil {
			t.Errorf("once there is room: %v", err)
		}
	})
}

// A request for more room than exists is cut down and does not wait for ever.
func TestMoreThanThereIs(t *testing.T) {
	c := New(Options{})
	release, err := c.Reserve(t.Context(), 100*largeRoom)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if err := c.Hold(t.Context(), 100*answerRoom); err != nil {
		t.Fatal(err)
	}
	if err := busy(context.DeadlineExceeded); !strings.Contains(err.Error(), "at once") {
		t.Error(err)
	}
}

// Package sample is a small internet on loopback for the demo: sites with feeds and connectors that
// have something new every few seconds, sites that fail in typical ways, a WeChat with a phone to
// sign in to it, and a receiver of webhooks.
package sample

import (
	"context"
	"errors"
	"hash/crc32"
	"net"
	"net/http"
	"sync"
	"time"
)

// Site is one of the sites. Each is a host of its own.
type Site string

// The sites.
const (
	News    Site = "news"    // feeds at /ID.xml
	Shops   Site = "shops"   // connectors at /ID, which take a few seconds to answer
	Blogs   Site = "blogs"   // web pages at /ID, each of which names its feed, /ID/feed.xml
	Wiki    Site = "wiki"    // every answer is a 500, but a 410 below /closed
	Weather Site = "weather" // every answer is a 429
	Members Site = "members" // feeds at /ID.xml for the user reader with Password; everybody else gets a 401
	WeChat  Site = "wechat"  // the bot interface of WeChat, with the account whose token is FirstToken; everything else there is a phone, at /phone
	Office  Site = "office"  // receives webhooks at /hook; refuses the messages of some types
)

// Password is the password of Members.
const Password = "demo-of-rounds"

const (
	// slowest is the longest that a connector takes to answer.
	slowest = 3 * time.Second
	// patience is the wait that Weather asks for.
	patience = 20 * time.Second
)

// Upstream has the sites. Each account there has a new message every few seconds, derived from the
// time of day.
type Upstream struct {
	born    time.Time
	slowest time.Duration
	weixin  *weixin
	addrs   map[Site]string
	servers []*http.Server
	serving sync.WaitGroup
	stop    context.CancelFunc
}

// Start opens the sites, each at a free port of loopback. Close ends them.
func Start() (*Upstream, error) {
	ctx, stop := context.WithCancel(context.Background())
	u := &Upstream{born: time.Now(), slowest: slowest, weixin: newWeixin(), addrs: make(map[Site]string), stop: stop}
	u.serving.Go(func() { u.weixin.chat(ctx) })
	for site, handler := range map[Site]http.HandlerFunc{
		News: u.news, Shops: u.shop, Blogs: u.blog, Wiki: broken, Weather: busy, Members: u.members, WeChat: u.weixin.ServeHTTP, Office: receive,
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			u.Close()
			return nil, err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
		u.addrs[site], u.servers = listener.Addr().String(), append(u.servers, server)
		u.serving.Go(func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				panic(err) // the demo cannot run without it
			}
		})
	}
	return u, nil
}

// Host returns where a site is, as HOST:PORT.
func (u *Upstream) Host(site Site) string { return u.addrs[site] }

// URL returns the URL of a path of a site. The path begins with a slash.
func (u *Upstream) URL(site Site, path string) string { return "http://" + u.addrs[site] + path }

// Close closes the sites.
func (u *Upstream) Close() {
	u.stop()
	for _, server := range u.servers {
		_ = server.Close()
	}
	u.serving.Wait()
}

// posted returns how many messages an account has so far. The first is there at once.
func (u *Upstream) posted(id string) int { return 1 + int(time.Since(u.born)/pace(id)) }

// pace returns the time between two messages of an account: 10 to 40 s.
func pace(id string) time.Duration { return time.Duration(10+choice(id, 31)) * time.Second }

func (u *Upstream) postedAt(id string, n int) time.Time {
	return u.born.Add(time.Duration(n-1) * pace(id))
}

// choice returns a number below most, always the same for an id.
func choice(id string, most int) int {
	return int(crc32.ChecksumIEEE([]byte(id)) % uint32(most))
}

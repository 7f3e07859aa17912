package replicas

import (
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/testing/census"
)

// Census counts without any link. It returns an error while Redis does not serve.
func (w *World) Census() (*census.Census, error) {
	tags := make([]string, w.ring.Shards())
	for shard := range tags {
		tags[shard] = strings.TrimSuffix(w.Key(shard, ""), ":")
	}
	c := census.New()
	if err := w.past(func(conn redis.Conn) error { return c.Read(conn, tags...) }); err != nil {
		return nil, err
	}
	return c, nil
}

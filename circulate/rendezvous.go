package circulate

// Preferred gives the one of several replicas that a shard is the part of, by
// rendezvous: the one whose hash with it is the highest, so that a replica that
// comes or goes moves only its own part. It is "" where there are none.
func Preferred(shard int, replicas []string) string {
	best, highest := "", uint64(0)
	for _, replica := range replicas {
		if h := rendezvous(replica, shard); best == "" || h > highest {
			best, highest = replica, h
		}
	}
	return best
}

// rendezvous is FNV-1a over the replica, finished with the shard by the mixer of
// SplitMix64, whose bits all depend on all.
func rendezvous(replica string, shard int) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(replica) {
		h = (h ^ uint64(replica[i])) * 1099511628211
	}
	h += uint64(shard+1) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

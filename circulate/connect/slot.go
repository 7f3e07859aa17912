package connect

import "strings"

// slotCount is how many slots a cluster has.
const slotCount = 16384

// Slot returns the slot of a cluster that has a key: CRC16 of its hash tag, or of the
// whole key without one, modulo 16384 (https://redis.io/docs/reference/cluster-spec/).
func Slot(key string) int {
	if _, behind, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(behind, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key) % slotCount)
}

// crc16 is CRC-16/XMODEM: polynomial 0x1021, beginning with 0. It uses no table, because
// tags are short.
func crc16(text string) uint16 {
	var crc uint16
	for i := range len(text) {
		crc ^= uint16(text[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// Package ndjson stores messages in files, a JSON object on each line (https://github.com/ndjson/ndjson-spec).
// It is the type file of endpoints.
//
// # Files
//
// A file that is being written ends in .part. When it is large or old enough, or the process ends,
// it is finished: it gets its final name, which ends in .ndjson, in one atomic step. So a reader who
// takes only *.ndjson sees whole files that never change. The names sort by the time of their
// beginning:
//
//	archive-20260301T120000.250184Z-4f6c2a91d3.ndjson
//
// A message is acknowledged once it is on the disk: after fsync of its file, which is shared by all
// batches that wait for it, and of the directory of a new file.
//
// # What a kill leaves
//
// A killed process leaves files that end in .part, and the system removes its locks on them. The
// next process that begins a file in the directory finishes them. It cuts each file behind its last
// whole line: the torn rest was never acknowledged, and is delivered again. Whole lines stay, even
// if nobody knows whether they were acknowledged. So after a kill, or a failed write, the lines of
// the last batches may stand twice, the second time in another file. They have the same id. Any
// number of processes may write into one directory, also on a network file system if it has locks.
//
// # A full or broken disk
//
// After an error the file is cut behind the last line that is certainly on the disk and finished,
// and its messages wait. A fsync that failed is not repeated, because a second one may succeed
// without having written anything.
package ndjson

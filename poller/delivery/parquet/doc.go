// Package parquet stores messages in Apache Parquet files (https://parquet.apache.org/docs/file-format),
// which databases for analysis read directly. It is the type parquet of endpoints.
//
// A Parquet file can be read only when it is whole, so messages are first written as package ndjson
// writes them, line by line, and acknowledged once their lines are on the disk. When such a file is
// large or old enough it is made into a Parquet file, which gets its final name in one atomic step;
// then the lines are removed. All that package ndjson says of kills and of the disk holds here, and one
// thing more: a process that is killed between the two steps leaves the lines, and the next process
// makes the same file again, under the same name.
//
// # Columns
//
//	id       STRING     what webhooks have as webhook-id
//	account  STRING
//	kind     STRING
//	message  STRING     the message's own id
//	type     STRING     of the message, or of the event
//	time     TIMESTAMP  microseconds, UTC; null if the message has none
//	data     JSON
//	handle   STRING     empty for an event
//
// Pages are compressed with Zstandard.
package parquet

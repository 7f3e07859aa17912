// Package keep fetches the files that messages carry, and keeps them: it stores the bytes in a
// files.Store, and writes what the store has into the list, circulate.Files.
//
// # Fetching
//
// A Keeper is the handler of an ordinary consumer group, so leases, retries, take-overs and dead
// letters are those of package delivery. Order means nothing to it: see delivery.Consumer.Unordered.
// A message is handled once each of its files is kept or lost. If one is lost, its message is a dead
// letter of the group, with the reason; replaying that fetches the file again.
//
// A file is fetched by FetchFile of its kind, and streams into the store: only some 64 KiB of it are
// in memory. So many are fetched at once, and of one account half as many. What the third party
// cannot give now is tried again until the file's end, or for a day if no end is known, and once more
// after that. A third party that cannot be reached is asked by one file at a time, and no longer
// waited for by the others. The store and the quotas are asked before the third party is. If the store
// is away, or full, or a quota is reached, the whole group waits, and a single file finds out whether
// that is over. A file that is larger than the room that is left waits alone.
//
// # Steps
//
// The bytes of a file are stored under a name that nothing else has. Then Keep of the list makes the
// row, which may get an older object with the same bytes instead. Last, the name that is not
// needed is removed from the store, and then from the list's condemned ones. A process that dies
// between two steps leaves bytes that no row has, and a Collector removes them. It leaves no row
// without bytes.
//
// # Sends
//
// A send may name a file that somebody has uploaded, or that a message carries. Before such a send is
// queued it gets a row of its own, with the same bytes. So whatever becomes of the file that it names,
// its own stays as long as the send is known. SendFiles opens it for the attempts.
//
// # Collecting
//
// A Collector ends rows whose message has gone: see *Files* in package circulate. Any number of
// them may run. It first condemns the object of the last row, in the step that ends that row, and
// then removes it from the store: never the other way round.
package keep

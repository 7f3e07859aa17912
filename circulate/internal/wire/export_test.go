package wire

import "time"

// For tests outside.
var ErrNotSent = errNotSent

func (w *Wire) NoteRoomAt(key string, now time.Time) { w.noteRoom(key, now) }

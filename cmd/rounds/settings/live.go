package settings

import "reflect"

// Merge returns the settings that a running process uses after it has read them again: live
// settings are new, the others are as at its start. changed names the live settings that differ.
// restart names the others that differ, which take effect after a restart.
func Merge(running, read Settings) (merged Settings, changed, restart []string) {
	merged = running
	was, is, into := reflect.ValueOf(running), reflect.ValueOf(read), reflect.ValueOf(&merged).Elem()
	for _, s := range all() {
		before, after := was.FieldByIndex(s.index), is.FieldByIndex(s.index)
		switch same := reflect.DeepEqual(before.Interface(), after.Interface()); {
		case s.Live:
			into.FieldByIndex(s.index).Set(after)
			if !same {
				changed = append(changed, s.Name)
			}
		case !same && !forCommands(s.Name):
			restart = append(restart, s.Name)
		}
	}
	return merged, changed, restart
}

// forCommands reports whether a setting means nothing to a process that serves.
func forCommands(name string) bool { return name == "ROUNDS_API_URL" }

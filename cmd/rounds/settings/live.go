package settings

import "reflect"

// Merge returns what a process that runs takes of settings that were read again: those
// that are live, and of the others what it began with. Changed names the live ones that
// differ, restart the others: they hold once the process is started anew.
func Merge(running, read Settings) (merged Settings, changed, restart []string) {
	merged = running
	was, is, into := reflect.ValueOf(running), reflect.ValueOf(read), reflect.ValueOf(&merged).Elem()
	for _, s := range All() {
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

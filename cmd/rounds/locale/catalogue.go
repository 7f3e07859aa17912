package locale

import (
	"encoding/json"
	"fmt"
	"io/fs"
)

// Texts returns a language's texts by their keys: those of all files assets/text/*.LANGUAGE.json.
// It returns an error for a key that two files have.
func Texts(files fs.FS, l Language) (map[string]string, error) {
	all := make(map[string]string)
	names, err := fs.Glob(files, "assets/text/*."+string(l)+".json")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		texts := make(map[string]string)
		if err := json.Unmarshal(content, &texts); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for key, text := range texts {
			if _, twice := all[key]; twice {
				return nil, fmt.Errorf("%s: the key %s is in another file too", name, key)
			}
			all[key] = text
		}
	}
	return all, nil
}

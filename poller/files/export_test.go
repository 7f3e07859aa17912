package files

// SetStep has a function called before each step of a Put.
func (d *Directory) SetStep(step func(name string)) { d.step = step }

// Failed returns the error for one of the operating system.
func (d *Directory) Failed(what string, err error) error { return d.failed(what, err) }

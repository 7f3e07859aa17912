package redistest

import "slices"

// WithPort has the server listen on a port of the caller's choice.
func WithPort(port int) Option { return func(s *Server) { s.Port = port } }

// Relaunch starts the server again on its port and directory, after a Kill, outside of
// any test. The further arguments of redis-server are for this start only.
func (s *Server) Relaunch(path string, more ...string) error {
	if err := s.RelaunchLoading(path, more...); err != nil {
		return err
	}
	return s.AwaitReady(readyWithin)
}

// RelaunchLoading is Relaunch for a caller that wants to see the server load its data: it
// does not wait for that to end.
func (s *Server) RelaunchLoading(path string, more ...string) error {
	usual := s.args
	s.args = append(slices.Clone(usual), more...)
	defer func() { s.args = usual }()
	return s.begin(path)
}

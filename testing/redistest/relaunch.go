package redistest

import "slices"

// WithPort has the server listen on a port of the caller's choice.
func WithPort(port int) Option { return func(s *Server) { s.Port = port } }

// Relaunch starts the server again on its port and directory, after a Kill,
// outside of any test. The further arguments of redis-server count for this time
// only.
func (s *Server) Relaunch(path string, more ...string) error {
	usual := s.args
	s.args = append(slices.Clone(usual), more...)
	defer func() { s.args = usual }()
	return s.start(path)
}

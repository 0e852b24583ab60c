"""HTTP: servers, strict reading, authentication and problems."""

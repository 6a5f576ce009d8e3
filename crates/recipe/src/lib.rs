//! Tool files: discover, validate, register, watch; the packaged library.

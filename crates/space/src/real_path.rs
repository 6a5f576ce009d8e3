//! What path an open handle really has.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Returns the present path of an open file or directory, free of symbolic links.
///
/// # Errors
/// Fails where the system cannot tell; callers then refuse.
#[cfg(target_os = "linux")]
pub(crate) fn real_path(handle: &impl AsFd) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd()))
}

/// Returns the present path of an open file or directory, free of symbolic links.
///
/// # Errors
/// Fails where the system cannot tell; callers then refuse.
#[cfg(target_vendor = "apple")]
pub(crate) fn real_path(handle: &impl AsFd) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = rustix::fs::getpath(handle.as_fd())?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes())))
}

/// Returns `path` with its deepest existing ancestor canonicalised; the rest is appended as it stands.
///
/// # Errors
/// Fails when not even the root can be canonicalised.
pub(crate) fn canonical_ancestor(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let mut base = path;
    loop {
        match base.canonicalize() {
            Ok(real) => {
                let rest = path.strip_prefix(base).unwrap_or_else(|_| Path::new(""));
                return Ok((real, rest.to_path_buf()));
            }
            Err(error) => match base.parent() {
                Some(parent) if error.kind() == io::ErrorKind::NotFound => base = parent,
                _ => return Err(error),
            },
        }
    }
}

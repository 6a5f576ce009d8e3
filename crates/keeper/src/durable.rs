//! Replacing a file so that readers see the old or the new text, whatever happens in between.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Replaces the file at `path` by `bytes`: temporary file beside it, fsync, rename, fsync of the directory.
///
/// A symbolic link stays and its target is replaced, since people keep such files in repositories of their own. An
/// existing file keeps its mode unless `mode` is given; a new one gets `mode` or 0644.
///
/// # Errors
/// Fails as the system does; the old file is then untouched.
pub fn replace_file(path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    let target = real_target(path)?;
    let parent = target
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no directory"))?;
    let kept = || crate::home::mode_of(&target).unwrap_or(0o644);
    let mode = mode.unwrap_or_else(kept);
    let mut temporary = tempfile::Builder::new()
        .prefix(".pentad-")
        .suffix(".tmp")
        .tempfile_in(parent)?;
    temporary.write_all(bytes)?;
    temporary
        .as_file()
        .set_permissions(Permissions::from_mode(mode))?;
    temporary.as_file().sync_all()?;
    temporary.persist(&target).map_err(|error| error.error)?;
    File::open(parent)?.sync_all()
}

/// Follows a link at `path`, also one whose target does not exist yet.
fn real_target(path: &Path) -> io::Result<PathBuf> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => match std::fs::canonicalize(path) {
            Ok(target) => Ok(target),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let link = std::fs::read_link(path)?;
                Ok(path.parent().unwrap_or_else(|| Path::new("/")).join(link))
            }
            Err(error) => Err(error),
        },
        _ => Ok(path.to_path_buf()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_and_its_target_changes() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real.toml");
        let link = dir.path().join("config.toml");
        std::os::unix::fs::symlink("real.toml", &link).unwrap();
        replace_file(&link, b"a", None).unwrap();
        std::fs::set_permissions(&real, Permissions::from_mode(0o640)).unwrap();
        replace_file(&link, b"b", None).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read(&real).unwrap(), b"b");
        assert_eq!(crate::home::mode_of(&real), Some(0o640));
        replace_file(&real, b"c", Some(0o600)).unwrap();
        assert_eq!(crate::home::mode_of(&real), Some(0o600));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
